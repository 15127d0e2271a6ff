/* Files made to do harm: their most memory and time, and their effect on the terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/align.h"
#include "lab/replay/replay.h"
#include "lab/support/costs.h"
#include "lab/support/lines.h"
#include "lab/trace/builder.h"
#include "lab/trace/read.h"
#include "lab/workloads/workload.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

MEND_TEST(hostile, a_trace_has_so_many_events_and_no_more)
{
    mend_trace *trace = NULL;
    mend_trace_builder builder;
    mend_trace_builder_init(&builder, "small");
    EXPECT_U64_EQ(MEND_TRACE_MAX_EVENTS, builder.event_limit);
    builder.event_limit = 3;
    mend_trace_builder_alloc(&builder, 512, (mend_trace_actor){0});
    uint32_t block = mend_trace_builder_alloc(&builder, 512, (mend_trace_actor){0});
    mend_trace_builder_free(&builder, block, (mend_trace_actor){0});
    EXPECT_RESULT(MEND_OK, builder.failure);
    mend_trace_builder_alloc(&builder, 512, (mend_trace_actor){0});
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trace_builder_finish(&builder, &trace));
    EXPECT_TRUE(strstr(fixture_message(), "more than 3 events") != NULL);
    EXPECT_TRUE(trace == NULL);
    mend_trace_builder_clear(&builder);
}

MEND_TEST(hostile, a_workload_has_no_more_events_either)
{
    mend_trace *trace = NULL;
    const char *endless = "stress:staircase?base=1TiB&top=1TiB&step=1";
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_workload_generate_within(endless, 0, 1000, &trace));
    EXPECT_TRUE(strstr(fixture_message(), "more than 1000 events") != NULL);
    EXPECT_TRUE(trace == NULL);
}

/* A small compressed file of many empty lines. */
MEND_TEST(hostile, a_file_grows_so_far_and_no_further)
{
    enum { LINES = 200000 };
    static char text[LINES + 1];
    memset(text, '\n', LINES);
    ENDING_FILE fixture_file file = fixture_write_gzip(".gz", text);
    static mend_line_source source;
    ASSERT_RESULT(MEND_OK, mend_line_source_open(&source, file.path));
    struct stat status;
    ASSERT_TRUE(stat(file.path, &status) == 0);
    EXPECT_U64_EQ(MEND_ANY_FILE_BYTES + MEND_MOST_UNPACKED * (uint64_t)status.st_size,
                  source.bytes.left);
    source.bytes.left = LINES - 1;
    mend_result result = MEND_OK;
    while (result == MEND_OK && !source.ended) {
        result = mend_line_source_next(&source);
    }
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, result);
    EXPECT_TRUE(strstr(fixture_message(), "too much") != NULL);
    EXPECT_TRUE(source.line_number > LINES / 2 && source.line_number <= LINES);
    mend_line_source_close(&source);
}

/* A value for each byte of a pickle, which the compression makes next to nothing. */
MEND_TEST(hostile, a_small_file_takes_little_memory)
{
    enum { VALUES = 8 << 20 };
    static const char protocol[] = "\x80\4";
    char *text = malloc(VALUES + sizeof(protocol));
    ASSERT_TRUE(text != NULL);
    memset(text, 'N', VALUES);
    memcpy(text, protocol, sizeof(protocol) - 1);
    text[VALUES] = '\0';
    ENDING_FILE fixture_file file = fixture_write_gzip(".pickle.gz", text);
    free(text);
    mend_trace *trace = NULL;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trace_read(file.path, &trace));
    EXPECT_TRUE(strstr(fixture_message(), "or 256 times the file") != NULL);
}

/* Pointers chosen to meet in one place of a table make its use as slow as a list's. */
MEND_TEST(hostile, nobody_knows_where_a_pointer_is_in_a_table)
{
    mend_trace_builder one;
    mend_trace_builder other;
    mend_trace_builder_init(&one, "one");
    mend_trace_builder_init(&other, "other");
    int same = 0;
    for (uint64_t i = 0; i < 64; i++) {
        EXPECT_TRUE(mend_trace_key(&one, i) != 0);
        same += mend_trace_key(&one, i) == mend_trace_key(&other, i);
        EXPECT_TRUE(i == 0 || mend_trace_key(&one, i) != mend_trace_key(&one, i - 1));
    }
    EXPECT_TRUE(same < 4);
    mend_trace_builder_clear(&one);
    mend_trace_builder_clear(&other);
}

/* Also errors only of the sum of all lines. */
MEND_TEST(hostile, every_refusal_names_its_line)
{
    char text[1024] = TRACE_HEAD;
    for (int i = 0; i < 9; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "0,0,allocate,%d,0x1000000000000000,0\n", i);
    }
    EXPECT_TRUE(fixture_read_trace(text) == NULL);
    EXPECT_TRUE(strstr(fixture_message(), ":9: more than 2^63 bytes are live") != NULL);
}

MEND_TEST(hostile, what_a_file_holds_does_nothing_to_the_terminal)
{
    EXPECT_TRUE(fixture_read_trace(TRACE_HEAD "0,0,\x1b[2J,9,1,0\n") == NULL);
    EXPECT_TRUE(strstr(fixture_message(), ":2: unknown action \"?[2J\"") != NULL);
    ENDING_FILE fixture_file file = fixture_write_text(".costs", "\x1b]0;title\x07 1 2 3\n");
    mend_sim_prices prices = MEND_SIM_PRICES_INIT;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_costs_read(file.path, &prices));
    EXPECT_TRUE(strstr(fixture_message(), ":1: no call \"?]0;title?\"") != NULL);
}

/* Models keep tables of the device's pages. */
MEND_TEST(hostile, absurd_sizes_are_not_replayed)
{
    static const char *const policies[] = {
        "mend",       "caching",  "caching:split128", "caching:gc80", "caching:2.13:split128",
        "expandable", "rmm-pool", "rmm-arena"};
    ENDING_TRACE mend_trace *huge =
        fixture_trace(TRACE_HEAD "0,0,allocate,1,0x1000000000000000,0\n");
    ENDING_TRACE mend_trace *small = fixture_trace(TRACE_HEAD "0,0,allocate,1,1,0\n");
    ASSERT_TRUE(huge != NULL && small != NULL);
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
        mend_replay_result result;
        mend_capacity capacity = {.kind = MEND_CAPACITY_UNLIMITED};
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                      mend_replay_run(huge, policies[i], &capacity, &options, &result));
        EXPECT_TRUE(strstr(fixture_message(), "4 TiB") != NULL);
        capacity = (mend_capacity){.kind = MEND_CAPACITY_BYTES, .bytes = 17 * MEND_TIB};
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                      mend_replay_run(small, policies[i], &capacity, &options, &result));
        EXPECT_TRUE(strstr(fixture_message(), "16 TiB") != NULL);
    }
}
