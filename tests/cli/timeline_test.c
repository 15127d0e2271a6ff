/* The table of live and reserved memory over time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/replay/timeline.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

/* Replays with a sample at every event, and returns the table, which the caller frees. */
static char *timeline_of(const mend_trace *trace, const char *policy, const char *capacity)
{
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    options.sample_limit = trace->event_count + 1;
    mend_replay_result result = fixture_replay(trace, policy, capacity, &options);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    mend_replay_timeline_write(out, &(mend_replay_row){trace, policy, &options, &result});
    fclose(out);
    mend_replay_result_clear(&result);
    return text;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text != 0; text++) {
        lines += *text == '\n';
    }
    return lines;
}

MEND_TEST(timeline, a_short_run_has_a_row_an_event)
{
    ENDING_TRACE mend_trace *trace = fixture_steps("1+30M -1 2+40M");
    char *text = timeline_of(trace, "caching", "unlimited");
    char expected[1024];
    snprintf(expected, sizeof(expected),
             "caching\t\t0\t31457280\t31457280\t%s\ncaching\t\t1\t0\t31457280\t%s\n"
             "caching\t\t2\t41943040\t73400320\t%s\n",
             trace->name, trace->name, trace->name);
    EXPECT_STR_EQ(expected, text);
    free(text);
    /* A run ends where memory is out. */
    text = timeline_of(trace, "caching", "32MiB");
    snprintf(expected, sizeof(expected),
             "caching\t33554432\t0\t31457280\t31457280\t%s\n"
             "caching\t33554432\t1\t0\t31457280\t%s\n",
             trace->name, trace->name);
    EXPECT_TRUE(strncmp(text, expected, strlen(expected)) == 0);
    EXPECT_TRUE(count_lines(text) <= 3);
    free(text);
}

MEND_TEST(timeline, a_long_run_keeps_its_peaks)
{
    ENDING_TRACE mend_trace *trace = fixture_workload("stress:random-mix");
    ASSERT_TRUE(trace->event_count > MEND_REPLAY_TIMELINE_ROWS);
    char *text = timeline_of(trace, "caching", "unlimited");
    EXPECT_TRUE(count_lines(text) <= MEND_REPLAY_TIMELINE_ROWS);
    unsigned long long most_live = 0;
    unsigned long long last_event = 0;
    for (const char *line = text; *line != 0; line = strchr(line, '\n') + 1) {
        ASSERT_TRUE(strncmp(line, "caching\t\t", strlen("caching\t\t")) == 0);
        char *at;
        unsigned long long event = strtoull(line + strlen("caching\t\t"), &at, 10);
        unsigned long long live = strtoull(at, &at, 10);
        unsigned long long reserved = strtoull(at, &at, 10);
        EXPECT_TRUE(event >= last_event && live <= reserved);
        last_event = event;
        most_live = live > most_live ? live : most_live;
    }
    EXPECT_U64_EQ(trace->event_count - 1, last_event);
    EXPECT_U64_EQ(trace->peak_live_bytes, most_live);
    free(text);
}
