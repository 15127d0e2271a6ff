/*
 * The report of an allocation that found no room: its numbers add up, and what it says would help
 * does help, which each test tries.
 */
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/process.h"
#include "heap/report.h"
#include "tests/support/test.h"
#include "tests/support/two_streams.h"

/* A device of 8 MiB, chunks of 1 MiB, and two streams. */
typedef struct scene {
    two_streams two;
    char message[MEND_MESSAGE_BYTES];
} scene;

static bool open_scene(scene *s, uint64_t limit_bytes)
{
    mend_world_init(&s->two.world);
    s->two.world.sim_config.memory_bytes = 8 * MEND_MIB;
    s->two.world.pool_config.limit_bytes = limit_bytes;
    return two_streams_open(&s->two);
}

/* The number that stands behind these words. */
static uint64_t number(const scene *s, const char *words)
{
    const char *at = strstr(s->message, words);
    MEND_TEST_CHECK(at != NULL, return UINT64_MAX, "\"%s\" does not say \"%s\"", s->message, words);
    return strtoull(at + strlen(words), NULL, 0);
}

static void expect_words(const scene *s, const char *words)
{
    MEND_TEST_CHECK(strstr(s->message, words) != NULL, (void)0, "\"%s\" does not say \"%s\"",
                    s->message, words);
}

/* Is refused, and reads the report; sums that hold in any situation are checked. */
static void expect_refused(scene *s, uint64_t size_bytes, int stream)
{
    void *pointer;
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(s->two.world.pool, size_bytes, s->two.streams[stream], &pointer));
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    strncpy(s->message, error.message, sizeof(s->message) - 1);
    mend_stats stats = mend_world_stats(&s->two.world);
    EXPECT_U64_EQ(size_bytes, number(s, "no room for "));
    EXPECT_U64_EQ(stats.limit_bytes, number(s, "limit "));
    EXPECT_U64_EQ(stats.reserved_bytes, number(s, "reserved "));
    EXPECT_U64_EQ(stats.live_bytes, number(s, ", live "));
    EXPECT_U64_EQ(stats.free_bytes, number(s, ", free "));
    EXPECT_U64_EQ(stats.free_whole_bytes, number(s, ", free ") - number(s, "chunks, "));
    const char *device = strstr(s->message, "Device: ");
    const char *others = device != NULL ? strstr(device, "free, ") : NULL;
    ASSERT_TRUE(others != NULL);
    EXPECT_U64_EQ(8 * MEND_MIB, stats.reserved_bytes + number(s, "Device: ") +
                                    strtoull(others + strlen("free, "), NULL, 10));
}

MEND_TEST(pool_report, keeps_its_advice_whatever_the_numbers)
{
    mend_report report;
    memset(&report, 0xff, sizeof(report));
    memset(report.advice, 'a', sizeof(report.advice));
    report.advice[sizeof(report.advice) - 1] = '\0';
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_report_fail(&report));
    const char *message = mend_process_error()->message;
    size_t length = strlen(message);
    ASSERT_TRUE(length + 1 < MEND_MESSAGE_BYTES);
    EXPECT_STR_EQ(report.advice, message + length - strlen(report.advice));
}

MEND_TEST(pool_report, names_a_limit_that_would_do)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    two_streams_alloc(&s.two, 2 * MEND_MIB, 0);
    void *freed = two_streams_alloc(&s.two, MEND_MIB, 0);
    two_streams_alloc(&s.two, MEND_MIB, 0);
    two_streams_free(&s.two, freed, 0);
    expect_refused(&s, 3 * MEND_MIB, 0);
    uint64_t limit = number(&s, "A limit of ");
    EXPECT_U64_EQ(6 * MEND_MIB, limit);
    EXPECT_RESULT(MEND_OK, mend_set_limit(s.two.world.pool, limit - 64 * MEND_KIB));
    expect_refused(&s, 3 * MEND_MIB, 0);
    EXPECT_RESULT(MEND_OK, mend_set_limit(s.two.world.pool, limit));
    two_streams_alloc(&s.two, 3 * MEND_MIB, 0);
    two_streams_close(&s.two);
}

MEND_TEST(pool_report, names_no_limit_where_the_device_has_not_the_memory)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    void *live = two_streams_alloc(&s.two, 4 * MEND_MIB, 0);
    mend_sim_set_foreign_bytes(s.two.world.sim, 0, 3 * MEND_MIB);
    expect_refused(&s, 2 * MEND_MIB, 0);
    EXPECT_U64_EQ(3 * MEND_MIB, number(&s, "1048576 free, "));
    expect_words(&s, "Only fewer live bytes would help.");
    two_streams_free(&s.two, live, 0);
    two_streams_alloc(&s.two, 2 * MEND_MIB, 0);
    expect_refused(&s, 5 * MEND_MIB, 0);
    expect_words(&s, "The limit is below the request, and the device has no memory left");
    two_streams_close(&s.two);
}

MEND_TEST(pool_report, tells_when_others_hold_the_device)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    two_streams_alloc(&s.two, 2 * MEND_MIB, 0);
    mend_sim_set_foreign_bytes(s.two.world.sim, 0, 5 * MEND_MIB);
    expect_refused(&s, 3 * MEND_MIB, 0);
    EXPECT_U64_EQ(5 * MEND_MIB, number(&s, "1048576 free, "));
    expect_words(&s, "The device itself has no memory left: others hold it.");
    mend_sim_set_foreign_bytes(s.two.world.sim, 0, 0);
    two_streams_alloc(&s.two, 3 * MEND_MIB, 0);
    two_streams_close(&s.two);
}

MEND_TEST(pool_report, tells_when_the_driver_refuses_what_it_counts_as_free)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "create";
    fault.count = UINT64_MAX;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(s.two.world.sim, &fault));
    expect_refused(&s, 3 * MEND_MIB, 0);
    expect_words(&s, "The driver refuses memory that it counts as free.");
    EXPECT_TRUE(strstr(s.message, "Emptiest chunk") == NULL); /* there is none */
    mend_sim_clear_faults(s.two.world.sim);
    two_streams_alloc(&s.two, 3 * MEND_MIB, 0);
    two_streams_close(&s.two);
}

MEND_TEST(pool_report, tells_what_only_fewer_live_bytes_would_help)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    void *live = two_streams_alloc(&s.two, 5 * MEND_MIB, 0);
    expect_refused(&s, 4 * MEND_MIB, 0);
    expect_words(&s, "Only fewer live bytes would help.");
    two_streams_free(&s.two, live, 0);
    two_streams_alloc(&s.two, 4 * MEND_MIB, 0);
    expect_refused(&s, 8 * MEND_MIB + 1, 0);
    expect_words(&s, "The device is smaller than the request.");
    two_streams_close(&s.two);
}

MEND_TEST(pool_report, names_the_block_that_holds_the_emptiest_chunk)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    void *blocks[16];
    two_streams_free(&s.two, two_streams_alloc(&s.two, 8 * MEND_MIB, 0),
                     0); /* makes chunks of the usual size */
    for (int i = 0; i < 16; i++) {
        blocks[i] = two_streams_alloc(&s.two, 512 * MEND_KIB, 0);
    }
    for (int i = 0; i < 16; i += 2) {
        two_streams_free(&s.two, blocks[i], 0);
    }
    expect_refused(&s, MEND_MIB, 0);
    expect_words(&s, "What is free lies beside live blocks: freeing some of them would help.");
    EXPECT_U64_EQ(512 * MEND_KIB, number(&s, "Emptiest chunk in use: "));
    void *holder = (void *)(uintptr_t)number(&s, "held by ");
    two_streams_free(&s.two, holder, 0);
    two_streams_alloc(&s.two, MEND_MIB, 0);
    two_streams_close(&s.two);
}

MEND_TEST(pool_report, tells_what_waits_for_a_capture)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    void *block = two_streams_alloc(&s.two, 3 * MEND_MIB, 0);
    two_streams_alloc(&s.two, MEND_MIB, 1);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(s.two.world.sim, s.two.streams[0],
                                                  MEND_SIM_CAPTURE_RELAXED));
    two_streams_free(&s.two, block, 0);
    expect_refused(&s, 2 * MEND_MIB, 1);
    EXPECT_U64_EQ(3 * MEND_MIB, number(&s, "of the free, "));
    expect_words(&s, "Ending the capture under way would help");
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(s.two.world.sim, s.two.streams[0], NULL));
    two_streams_alloc(&s.two, 2 * MEND_MIB, 1);
    two_streams_close(&s.two);
}

MEND_TEST(pool_report, tells_what_waits_for_the_context)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    void *block = two_streams_alloc(&s.two, 3 * MEND_MIB, 0);
    two_streams_alloc(&s.two, MEND_MIB, 1);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(s.two.world.sim, s.two.streams[1],
                                                  MEND_SIM_CAPTURE_RELAXED));
    EXPECT_RESULT(MEND_OK, mend_free(s.two.world.pool, block, MEND_NO_STREAM));
    expect_refused(&s, 2 * MEND_MIB, 1);
    EXPECT_U64_EQ(3 * MEND_MIB, number(&s, "wait for streams, "));
    expect_words(&s, "Ending the capture under way would help");
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(s.two.world.sim, s.two.streams[1], NULL));
    two_streams_alloc(&s.two, 2 * MEND_MIB, 1);
    two_streams_close(&s.two);
}

MEND_TEST(pool_report, tells_what_is_held_for_groups)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    mend_group *group;
    EXPECT_RESULT(MEND_OK, mend_group_create(s.two.world.pool, &group));
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, s.two.streams[0]));
    void *block = two_streams_alloc(&s.two, 3 * MEND_MIB, 0);
    two_streams_free(&s.two, block, 0);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    expect_refused(&s, 2 * MEND_MIB, 0);
    EXPECT_U64_EQ(3 * MEND_MIB, number(&s, "for the context, "));
    expect_words(&s, "Releasing groups whose graphs are launched no more would help.");
    EXPECT_RESULT(MEND_OK, mend_group_release(group, s.two.streams[0]));
    two_streams_alloc(&s.two, 2 * MEND_MIB, 0);
    two_streams_close(&s.two);
}
