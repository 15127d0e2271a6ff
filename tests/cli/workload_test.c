/* Built-in workloads: the same text gives the same trace, and every trace is a sound one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/workloads/workload.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

static const char *const names[] = {"checkerboard", "small-pins", "phase-shift",
                                    "many-streams", "staircase",  "random-mix"};
enum { NAME_COUNT = sizeof(names) / sizeof(*names) };

static mend_trace *generate(const char *name, const char *parameters, uint64_t seed)
{
    char spec[512];
    snprintf(spec, sizeof(spec), "stress:%s%s", name, parameters);
    mend_trace *trace = NULL;
    mend_result result = mend_workload_generate(spec, seed, &trace);
    MEND_TEST_CHECK(result == MEND_OK, (void)0, "%s: %s", spec, mend_result_name(result));
    return trace;
}

static bool same(const mend_trace *a, const mend_trace *b)
{
    if (a->event_count != b->event_count) {
        return false;
    }
    for (size_t i = 0; i < a->event_count; i++) {
        const mend_trace_event *left = &a->events[i];
        const mend_trace_event *right = &b->events[i];
        if (left->size_bytes != right->size_bytes || left->block != right->block ||
            left->stream != right->stream || left->is_alloc != right->is_alloc) {
            return false;
        }
    }
    return true;
}

/* Two texts with their seeds give the same trace, or two different ones. */
static void compare(bool are_same, const char *name, const char *one, uint64_t seed,
                    const char *other, uint64_t other_seed)
{
    ENDING_TRACE mend_trace *left = generate(name, one, seed);
    ENDING_TRACE mend_trace *right = generate(name, other, other_seed);
    MEND_TEST_CHECK(left != NULL && right != NULL && same(left, right) == are_same, (void)0,
                    "%s%s and %s", name, one, other);
}

MEND_TEST(workload, the_seed_decides_and_a_draw_what_the_text_does_not_set)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        compare(true, names[i], "", 0, "?seed=7", 3);
        compare(false, names[i], "", 0, "", 3);
        compare(false, names[i], "", 0, "?draw=1", 0);
        compare(true, names[i], "?draw=1", 0, "?draw=1", 3);
        compare(false, names[i], "?draw=1", 0, "?draw=2", 0);
        compare(false, names[i], "?draw=1", 0, "?draw=1&seed=9", 0);
    }
}

/* Each block is allocated once, before its one free. The peak follows from the events. */
static void check_sound(const mend_trace *trace)
{
    char *state = calloc(trace->block_count, 1);
    uint64_t live_bytes = 0;
    uint64_t peak_bytes = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        EXPECT_U64_EQ(0, event->size_bytes % MEND_GRANULE_BYTES);
        EXPECT_INT_EQ(event->is_alloc ? 0 : 1, state[event->block]);
        state[event->block]++;
        live_bytes += event->is_alloc ? event->size_bytes : -event->size_bytes;
        peak_bytes = mend_max_u64(peak_bytes, live_bytes);
        if (mend_test_has_failed()) {
            break;
        }
    }
    EXPECT_U64_EQ(peak_bytes, trace->peak_live_bytes);
    free(state);
}

MEND_TEST(workload, every_trace_is_sound)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        ENDING_TRACE mend_trace *trace = generate(names[i], "", 0);
        ASSERT_TRUE(trace != NULL);
        check_sound(trace);
        EXPECT_TRUE(trace->peak_live_bytes > 3 * MEND_GIB);
        EXPECT_TRUE(trace->peak_live_bytes <= 8 * MEND_GIB);
    }
}

MEND_TEST(workload, parameters_are_obeyed)
{
    mend_trace *trace = generate("checkerboard", "?lo=600KiB&hi=5MiB&live=512MiB&rounds=1", 0);
    ASSERT_TRUE(trace != NULL);
    EXPECT_TRUE(trace->peak_live_bytes <= 512 * MEND_MIB);
    EXPECT_TRUE(trace->peak_live_bytes >= 500 * MEND_MIB);
    EXPECT_TRUE(trace->events[0].size_bytes >= 600 * MEND_KIB);
    EXPECT_TRUE(trace->events[0].size_bytes <= 5 * MEND_MIB + 512);
    mend_trace_destroy(trace);
    trace = generate("many-streams", "?streams=3&turns=6", 0);
    ASSERT_TRUE(trace != NULL);
    EXPECT_U64_EQ(3, trace->stream_count);
    mend_trace_destroy(trace);
}

/* Half of the events allocate, no more is live than RMM allows, and nothing at the end. */
MEND_TEST(workload, rmm_random_is_that_of_the_published_parameters)
{
    ENDING_TRACE mend_trace *trace = generate("rmm-random", "?allocations=5000&max=64MiB", 0);
    ASSERT_TRUE(trace != NULL);
    check_sound(trace);
    EXPECT_U64_EQ(5000, trace->block_count);
    EXPECT_U64_EQ(10000, trace->event_count);
    EXPECT_U64_EQ(1, trace->stream_count);
    EXPECT_TRUE(trace->peak_live_bytes <= 16000 * MEND_MIB + 512);
    EXPECT_TRUE(trace->peak_live_bytes >= 15900 * MEND_MIB);
    uint64_t largest_bytes = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        largest_bytes = mend_max_u64(largest_bytes, trace->events[i].size_bytes);
    }
    EXPECT_TRUE(largest_bytes > 63 * MEND_MIB && largest_bytes <= 64 * MEND_MIB);
    /* While neither limit is near, 73 of 100 turns allocate, half of the largest on average. */
    uint64_t early = 0;
    uint64_t early_bytes = 0;
    for (size_t i = 0; i < 600; i++) {
        early += trace->events[i].is_alloc;
        early_bytes += trace->events[i].is_alloc ? trace->events[i].size_bytes : 0;
    }
    EXPECT_TRUE(early > 400 && early < 475);
    EXPECT_TRUE(early_bytes / early > 28 * MEND_MIB && early_bytes / early < 36 * MEND_MIB);
}

/* The output of --list is valid input. */
MEND_TEST(workload, the_list_tells_defaults_that_are_read)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    mend_workload_list(out);
    fclose(out);
    size_t count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; count++) {
        const char *name = line;
        const char *what = strtok_r(NULL, "\n", &rest);
        const char *parameters = strtok_r(NULL, "\n", &rest);
        ASSERT_TRUE(what != NULL && parameters != NULL);
        compare(true, name + strlen("stress:"), "", 0, parameters + strspn(parameters, " "), 0);
        line = strtok_r(NULL, "\n", &rest);
    }
    EXPECT_TRUE(count >= NAME_COUNT);
    free(text);
}

MEND_TEST(workload, rmm_streams_takes_the_streams_in_turn)
{
    ENDING_TRACE mend_trace *trace = generate("rmm-streams", "?streams=3&kernels=4&rounds=2", 0);
    ASSERT_TRUE(trace != NULL);
    check_sound(trace);
    static const uint64_t streams[] = {0, 1, 2, 0, 0, 1, 2, 0};
    ASSERT_U64_EQ(16, trace->event_count);
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        EXPECT_INT_EQ(i % 2 == 0, event->is_alloc);
        EXPECT_U64_EQ(i / 2, event->block);
        EXPECT_U64_EQ(streams[i / 2], trace->stream_names[event->stream]);
    }
}

MEND_TEST(workload, replaced_frees_one_for_each_one_more)
{
    ENDING_TRACE mend_trace *trace = generate("replaced", "?blocks=3&allocations=4&lo=5MiB", 0);
    ASSERT_TRUE(trace != NULL);
    check_sound(trace);
    ASSERT_U64_EQ(3 + 2 * 4, trace->event_count);
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        EXPECT_INT_EQ(i < 3 || i % 2 == 0, event->is_alloc);
        EXPECT_TRUE(event->size_bytes >= 5 * MEND_MIB && event->size_bytes <= 64 * MEND_MIB);
    }
}

MEND_TEST(workload, bad_texts_are_refused)
{
    static const char *const bad[] = {"stress:",
                                      "stress:chess",
                                      "stress:checkerboard?lo",
                                      "stress:checkerboard?lo=",
                                      "stress:checkerboard?lo=0",
                                      "stress:checkerboard?lo=-1",
                                      "stress:checkerboard?lo=9TiB",
                                      "stress:checkerboard?low=1MiB",
                                      "stress:checkerboard?rounds=2MiB",
                                      "stress:checkerboard?rounds=1.5",
                                      "stress:checkerboard?lo=64GiB&hi=65GiB",
                                      "stress:checkerboard?draw=0",
                                      "stress:checkerboard?draw=1KiB",
                                      "stress:checkerboard?draw=1&draw=1",
                                      "random:checkerboard"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ENDING_TRACE mend_trace *trace = NULL;
        mend_result result = mend_workload_generate(bad[i], 0, &trace);
        MEND_TEST_CHECK(result == MEND_ERROR_INVALID_ARGUMENT, (void)0, "%s: %s", bad[i],
                        mend_result_name(result));
    }
}
