/*
 * The report of an allocation that found no room: its numbers add up, and what it says would help
 * does help, which each test tries.
 */
#include <string.h>

#include "base/error.h"
#include "base/process.h"
#include "ladder/report.h"
#include "tests/support/kit.h"

/* A device of 8 MiB, chunks of 1 MiB, and two streams. */
typedef struct scene {
    mend_world w;
    char message[MEND_MESSAGE_BYTES];
    mend_shortfall shortfall;
} scene;

static bool open_scene(scene *s, uint64_t limit_bytes)
{
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 8 * MEND_MIB;
    s->w.pool_config.limit_bytes = limit_bytes;
    return kit_open(&s->w);
}

static void expect_words(const scene *s, const char *words)
{
    MEND_TEST_CHECK(strstr(s->message, words) != NULL, (void)0, "\"%s\" does not say \"%s\"",
                    s->message, words);
}

/* What the report says would fit does, nothing larger does, and it is not above what was refused.
 */
static void expect_fit(scene *s, uint64_t refused_bytes, int stream)
{
    uint64_t bytes = s->shortfall.fitting_bytes;
    void *pointer;
    EXPECT_TRUE(bytes < refused_bytes);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(s->w.pool, bytes + 512, s->w.streams[stream], &pointer));
    if (bytes > 0) {
        kit_free(&s->w, kit_alloc(&s->w, bytes, s->w.streams[stream]), s->w.streams[stream]);
    }
}

/* Is refused, and reads the report; sums that hold in any situation are checked. */
static void expect_refused(scene *s, uint64_t size_bytes, int stream)
{
    void *pointer;
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(s->w.pool, size_bytes, s->w.streams[stream], &pointer));
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    strncpy(s->message, error.message, sizeof(s->message) - 1);
    ASSERT_TRUE(error.shortfall != NULL);
    s->shortfall = *error.shortfall;
    const mend_shortfall *f = &s->shortfall;
    mend_stats stats = mend_world_stats(&s->w);
    EXPECT_U64_EQ(sizeof(mend_shortfall), f->struct_size);
    EXPECT_U64_EQ(size_bytes, f->requested_bytes);
    EXPECT_U64_EQ(stats.limit_bytes, f->limit_bytes);
    EXPECT_U64_EQ(stats.reserved_bytes, f->reserved_bytes);
    EXPECT_U64_EQ(stats.live_bytes, f->live_bytes);
    EXPECT_U64_EQ(stats.free_bytes, f->free_empty_bytes + f->free_partial_bytes);
    EXPECT_U64_EQ(stats.free_empty_bytes, f->free_empty_bytes);
    EXPECT_U64_EQ(8 * MEND_MIB, f->device_bytes);
    EXPECT_U64_EQ(8 * MEND_MIB, f->reserved_bytes + f->device_free_bytes + f->device_others_bytes);
    EXPECT_TRUE(strstr(s->message, " 0 bytes") == NULL || f->live_bytes == 0 ||
                f->device_free_bytes == 0);
}

MEND_TEST(pool_report, keeps_all_its_words_whatever_the_numbers)
{
    mend_shortfall shortfall;
    memset(&shortfall, 0xff, sizeof(shortfall));
    shortfall.limit_bytes = 1; /* and more is reserved */
    shortfall.sufficient_limit = 0;
    char advice[129];
    memset(advice, 'a', sizeof(advice) - 1);
    advice[sizeof(advice) - 1] = '\0';
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_publish(mend_report_fail(&shortfall, advice)));
    const char *message = mend_process_error()->message;
    size_t length = strlen(message);
    ASSERT_TRUE(length + 1 < MEND_MESSAGE_BYTES);
    EXPECT_TRUE(strstr(message, advice) != NULL);
    EXPECT_STR_EQ("held by others.", message + length - strlen("held by others."));
}

/* What was asked for and what would help first, units, and no zeros. */
MEND_TEST(pool_report, is_written_for_people)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[0]);
    expect_refused(&s, 3 * MEND_MIB, 0);
    EXPECT_STR_EQ(
        "out of memory: 3.00 MiB requested. Raise the limit to 5.00 MiB or more, or free "
        "memory. A request of 2.00 MiB would fit. The limit is 4.00 MiB; in use 2.00 MiB. "
        "The GPU has 8.00 MiB, of which 6.00 MiB is free.",
        s.message);
    EXPECT_RESULT(MEND_OK, mend_set_limit(s.w.pool, MEND_MIB));
    expect_refused(&s, 3 * MEND_MIB, 0);
    expect_words(&s, "The limit is 1.00 MiB, the pool holds 1.00 MiB more than that; in use");
    kit_close(&s.w);
}

/* Digits that are left out are not: with the limit of the words the request is served. */
MEND_TEST(pool_report, a_limit_in_words_is_enough)
{
    mend_shortfall shortfall = {.requested_bytes = 1, .sufficient_limit = MEND_GIB + 1};
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_publish(mend_report_fail(&shortfall, "")));
    EXPECT_TRUE(strstr(mend_process_error()->message, "Raise the limit to 1.01 GiB or more") !=
                NULL);
}

/* Only of a failure that it belongs to. */
MEND_TEST(pool_report, its_numbers_go_with_the_next_failure)
{
    scene s;
    mend_error error = MEND_ERROR_INIT;
    ASSERT_TRUE(open_scene(&s, 0));
    expect_refused(&s, 9 * MEND_MIB, 0);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trim(NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_TRUE(error.shortfall == NULL);
    kit_close(&s.w);
}

MEND_TEST(pool_report, names_a_limit_that_would_do)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[0]);
    void *freed = kit_alloc(&s.w, MEND_MIB, s.w.streams[0]);
    kit_alloc(&s.w, MEND_MIB, s.w.streams[0]);
    kit_free(&s.w, freed, s.w.streams[0]);
    expect_refused(&s, 3 * MEND_MIB, 0);
    expect_fit(&s, 3 * MEND_MIB, 0);
    uint64_t limit = s.shortfall.sufficient_limit;
    EXPECT_U64_EQ(6 * MEND_MIB, limit);
    EXPECT_RESULT(MEND_OK, mend_set_limit(s.w.pool, limit - 64 * MEND_KIB));
    expect_refused(&s, 3 * MEND_MIB, 0);
    EXPECT_RESULT(MEND_OK, mend_set_limit(s.w.pool, limit));
    kit_alloc(&s.w, 3 * MEND_MIB, s.w.streams[0]);
    kit_close(&s.w);
}

MEND_TEST(pool_report, names_no_limit_where_the_device_has_not_the_memory)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    void *live = kit_alloc(&s.w, 4 * MEND_MIB, s.w.streams[0]);
    mend_sim_set_foreign_bytes(s.w.sim, 0, 3 * MEND_MIB);
    expect_refused(&s, 2 * MEND_MIB, 0);
    EXPECT_U64_EQ(3 * MEND_MIB, s.shortfall.device_others_bytes);
    expect_words(&s, "1.00 MiB is free and 3.00 MiB held by others.");
    expect_words(&s, "Free memory: nothing else would help.");
    kit_free(&s.w, live, s.w.streams[0]);
    kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[0]);
    expect_refused(&s, 5 * MEND_MIB, 0);
    expect_words(&s, "The request is above the limit, and the GPU has no memory left");
    kit_close(&s.w);
}

MEND_TEST(pool_report, tells_when_others_hold_the_device)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[0]);
    mend_sim_set_foreign_bytes(s.w.sim, 0, 5 * MEND_MIB);
    expect_refused(&s, 3 * MEND_MIB, 0);
    EXPECT_U64_EQ(5 * MEND_MIB, s.shortfall.device_others_bytes);
    expect_words(&s, "Others hold memory of the GPU");
    mend_sim_set_foreign_bytes(s.w.sim, 0, 0);
    kit_alloc(&s.w, 3 * MEND_MIB, s.w.streams[0]);
    kit_close(&s.w);
}

/* The request is above all memory, so the driver was asked for none. */
MEND_TEST(pool_report, would_fit_what_others_leave)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[0]);
    mend_sim_set_foreign_bytes(s.w.sim, 0, 3 * MEND_MIB);
    expect_refused(&s, 64 * MEND_MIB, 0);
    EXPECT_U64_EQ(3 * MEND_MIB, s.shortfall.fitting_bytes);
    kit_alloc(&s.w, 3 * MEND_MIB, s.w.streams[0]);
    kit_close(&s.w);
}

/* The free end of a partly used chunk and empty chunks behind it make one block. */
MEND_TEST(pool_report, would_fit_what_extends_the_end_of_a_partly_used_chunk)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    void *freed = kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[0]);
    kit_alloc(&s.w, 2 * MEND_MIB - 40 * MEND_KIB, s.w.streams[0]);
    kit_free(&s.w, freed, s.w.streams[0]);
    expect_refused(&s, 3 * MEND_MIB, 0);
    EXPECT_U64_EQ(2 * MEND_MIB + 40 * MEND_KIB, s.shortfall.fitting_bytes);
    expect_fit(&s, 3 * MEND_MIB, 0);
    kit_close(&s.w);
}

static void forbid_stream_waits(mend_world *w)
{
    w->pool_config.allow_stream_waits = -1;
    w->pool_config.limit_bytes = 4 * MEND_MIB;
}

/* The host did not wait, because that would not have helped this request; it helps a smaller one.
 */
MEND_TEST(pool_report, would_fit_what_the_gpu_still_uses)
{
    scene s;
    ASSERT_TRUE(kit_open_with(&s.w, 8 * MEND_MIB, forbid_stream_waits));
    kit_alloc(&s.w, 512, s.w.streams[1]);
    kit_leave_in_flight(&s.w, 3 * MEND_MIB, s.w.streams[0], 1000, MEND_NO_STREAM);
    expect_refused(&s, 5 * MEND_MIB, 1);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).host_waits);
    EXPECT_TRUE(s.shortfall.fitting_bytes >= 3 * MEND_MIB);
    expect_fit(&s, 5 * MEND_MIB, 1);
    kit_close(&s.w);
}

MEND_TEST(pool_report, tells_when_the_driver_refuses_what_it_counts_as_free)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    kit_fail(&s.w, "create", 0, UINT64_MAX, 0);
    expect_refused(&s, 3 * MEND_MIB, 0);
    expect_words(&s, "The driver refuses memory that it counts as free");
    EXPECT_U64_EQ(0, s.shortfall.holder_address); /* there is none */
    mend_sim_clear_faults(s.w.sim);
    kit_alloc(&s.w, 3 * MEND_MIB, s.w.streams[0]);
    kit_close(&s.w);
}

MEND_TEST(pool_report, tells_what_only_fewer_live_bytes_would_help)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    void *live = kit_alloc(&s.w, 5 * MEND_MIB, s.w.streams[0]);
    expect_refused(&s, 4 * MEND_MIB, 0);
    expect_words(&s, "Free memory: nothing else would help.");
    kit_free(&s.w, live, s.w.streams[0]);
    kit_alloc(&s.w, 4 * MEND_MIB, s.w.streams[0]);
    expect_refused(&s, 8 * MEND_MIB + 1, 0);
    expect_words(&s, "The GPU is smaller than the request.");
    kit_close(&s.w);
}

MEND_TEST(pool_report, names_the_block_that_holds_the_emptiest_chunk)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 0));
    void *blocks[16];
    kit_free(&s.w, kit_alloc(&s.w, 8 * MEND_MIB, s.w.streams[0]),
             s.w.streams[0]); /* makes chunks of the usual size */
    for (int i = 0; i < 16; i++) {
        blocks[i] = kit_alloc(&s.w, 512 * MEND_KIB, s.w.streams[0]);
    }
    for (int i = 0; i < 16; i += 2) {
        kit_free(&s.w, blocks[i], s.w.streams[0]);
    }
    expect_refused(&s, MEND_MIB, 0);
    expect_words(&s, "The free memory is beside live blocks: free some of them");
    expect_words(&s, "free 4.00 MiB (4.00 MiB beside live blocks)");
    EXPECT_U64_EQ(512 * MEND_KIB, s.shortfall.emptiest_bytes);
    EXPECT_U64_EQ(512 * MEND_KIB, s.shortfall.holder_bytes);
    expect_fit(&s, MEND_MIB, 0);
    void *holder = (void *)(uintptr_t)s.shortfall.holder_address;
    kit_free(&s.w, holder, s.w.streams[0]);
    kit_alloc(&s.w, MEND_MIB, s.w.streams[0]);
    kit_close(&s.w);
}

MEND_TEST(pool_report, tells_what_waits_for_a_capture)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    void *block = kit_alloc(&s.w, 3 * MEND_MIB, s.w.streams[0]);
    kit_alloc(&s.w, MEND_MIB, s.w.streams[1]);
    kit_free(&s.w, block, s.w.streams[0]);
    EXPECT_RESULT(MEND_OK,
                  mend_sim_begin_capture(s.w.sim, s.w.streams[0], MEND_SIM_CAPTURE_RELAXED));
    expect_refused(&s, 2 * MEND_MIB, 1);
    EXPECT_U64_EQ(3 * MEND_MIB, s.shortfall.waiting_stream_bytes);
    expect_words(&s, "free 3.00 MiB (3.00 MiB in use by the GPU)");
    expect_words(&s, "Ending the capture in progress would help");
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(s.w.sim, s.w.streams[0], NULL));
    kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[1]);
    kit_close(&s.w);
}

MEND_TEST(pool_report, tells_what_waits_for_the_context)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    void *block = kit_alloc(&s.w, 3 * MEND_MIB, s.w.streams[0]);
    kit_alloc(&s.w, MEND_MIB, s.w.streams[1]);
    EXPECT_RESULT(MEND_OK,
                  mend_sim_begin_capture(s.w.sim, s.w.streams[1], MEND_SIM_CAPTURE_RELAXED));
    kit_free(&s.w, block, MEND_NO_STREAM);
    expect_refused(&s, 2 * MEND_MIB, 1);
    EXPECT_U64_EQ(3 * MEND_MIB, s.shortfall.waiting_context_bytes);
    expect_words(&s, "Ending the capture in progress would help");
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(s.w.sim, s.w.streams[1], NULL));
    kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[1]);
    kit_close(&s.w);
}

MEND_TEST(pool_report, tells_what_is_held_for_groups)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    mend_group *group = kit_begin_group(&s.w, s.w.streams[0]);
    void *block = kit_alloc(&s.w, 3 * MEND_MIB, s.w.streams[0]);
    kit_free(&s.w, block, s.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    expect_refused(&s, 2 * MEND_MIB, 0);
    EXPECT_U64_EQ(3 * MEND_MIB, s.shortfall.group_bytes);
    expect_words(&s, "Releasing groups whose graphs are no longer launched would help.");
    EXPECT_RESULT(MEND_OK, mend_group_release(group, s.w.streams[0]));
    kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[0]);
    kit_close(&s.w);
}

/* Free chunks that are pinned cannot be joined. */
MEND_TEST(pool_report, tells_what_is_pinned)
{
    scene s;
    void *blocks[4];
    ASSERT_TRUE(open_scene(&s, 4 * MEND_MIB));
    for (int i = 0; i < 4; i++) {
        blocks[i] = kit_alloc(&s.w, MEND_MIB, s.w.streams[0]);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_RESULT(MEND_OK, mend_pin(s.w.pool, blocks[i], MEND_MIB));
    }
    kit_free(&s.w, blocks[0], s.w.streams[0]);
    kit_free(&s.w, blocks[2], s.w.streams[0]);
    expect_refused(&s, 2 * MEND_MIB, 0);
    EXPECT_U64_EQ(2 * MEND_MIB, s.shortfall.pinned_bytes); /* not that of the live block */
    EXPECT_U64_EQ(2 * MEND_MIB, s.shortfall.free_partial_bytes);
    EXPECT_U64_EQ(0, s.shortfall.sufficient_limit);
    expect_words(&s, "Undoing pins (mend_unpin) would help");
    expect_words(&s, "free 2.00 MiB (2.00 MiB pinned)");
    mend_room room = MEND_ROOM_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_room(s.w.pool, s.w.streams[0], &room));
    EXPECT_U64_EQ(2 * MEND_MIB, room.pinned_bytes);
    EXPECT_U64_EQ(MEND_MIB, room.now_bytes);
    EXPECT_RESULT(MEND_OK, mend_unpin(s.w.pool, blocks[0], MEND_MIB));
    kit_free(&s.w, kit_alloc(&s.w, 2 * MEND_MIB, s.w.streams[0]), s.w.streams[0]);
    expect_refused(&s, 3 * MEND_MIB, 0); /* pins are not to blame */
    EXPECT_U64_EQ(MEND_MIB, s.shortfall.pinned_bytes);
    EXPECT_TRUE(s.shortfall.sufficient_limit > 0);
    kit_close(&s.w);
}
