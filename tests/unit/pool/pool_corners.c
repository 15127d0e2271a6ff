/* Corners of the pool: absurd configs, undo that is itself refused, peaks after a failure. */
#include "driver/driver.h"
#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

KIT_TEST(pool_corners, a_mapping_the_driver_keeps_keeps_its_chunk)
{
    void *pointer;
    kit_fail(w, "set_access", 0, 1, 999);
    kit_fail(w, "unmap", 0, 1, 999);
    EXPECT_ERROR(DRIVER, mend_alloc(w->pool, 3 * MEND_MIB, NULL, &pointer));
    mend_world_check(w);
    pointer = kit_alloc(w, 3 * MEND_MIB, NULL);
    mend_world_check(w);
    kit_free(w, pointer, NULL);
    kit_fail(w, "unmap", 0, 1, 999);
    EXPECT_ERROR(DRIVER, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
}

/* Chunks that a trim could not release are free memory again, without a mapping that would have to
 * wait. Later each goes alone. */
KIT_TEST(pool_corners, what_a_trim_could_not_release_is_used_and_released_later)
{
    void *block = kit_alloc(w, 2 * MEND_MIB, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 2 * MEND_MIB));
    for (int is_later = 0; is_later < 2; is_later++) {
        kit_free(w, block, NULL);
        kit_fail(w, "release", 0, 2, MEND_DRIVER_UNKNOWN);
        EXPECT_ERROR(DRIVER, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
        if (!is_later) {
            kit_free(w, kit_alloc_used(w, MEND_MIB, S(1), 1000), S(1));
            block = kit_alloc(w, 2 * MEND_MIB, S(0));
            kit_expect_waits(w, 1, 0);
        }
    }
    kit_alloc(w, MEND_MIB, NULL);
    EXPECT_OK(mend_set_limit(w->pool, 3 * MEND_MIB));
    kit_alloc_with(w, 2 * MEND_MIB, NULL, .in_one_chunk = 1);
    EXPECT_STATS(w, reserved_bytes, 3 * MEND_MIB);
}

/* Polling one stream after the other can see the later fence pass before the earlier one. */
KIT_TEST_IN(pool_corners, trim_leaves_what_is_in_flight_without_a_word,
            kit_open_with(w, 8 * MEND_MIB, NULL))
{
    kit_alloc(w, 2 * MEND_MIB, S(0));
    void *block = kit_alloc(w, 5 * MEND_MIB, S(0));
    kit_launch(w, S(0), MEND_SIM_WORK_TOUCH, block, 5 * MEND_MIB, 0, 1000);
    kit_free(w, block, S(0));
    block = kit_alloc_with(w, 5 * MEND_MIB, S(1), .alignment_bytes = MEND_GIB);
    EXPECT_TRUE(mend_world_stats(w).retired_bytes > 0);
    kit_free(w, block, S(1));
    uint64_t released = 1;
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, &released));
    mend_world_check(w);
    mend_sim_advance(w->sim, 1000);
    /* The first stream's event is asked three times, and only the second stream's answers. */
    kit_fail(w, "event_query", 0, 1, 999);
    kit_fail(w, "event_query", 1, 2, 999);
    kit_expect_trim(w, 0, 0);
    mend_world_check(w);
    kit_expect_trim(w, 0, 5 * MEND_MIB);
    mend_world_check(w);
}

/* No request needs another stream's memory, so there would be no poll. */
KIT_TEST_IN(pool_corners, a_steady_state_on_two_streams_holds_few_events,
            kit_open_set(w, w->sim_config.content = MEND_SIM_CONTENT_NONE))
{
    for (int round = 0; round < 3000; round++) {
        void *blocks[] = {kit_alloc(w, 8 * MEND_MIB, S(0)), kit_alloc(w, 8 * MEND_MIB, S(1))};
        kit_free(w, blocks[0], S(0));
        kit_free(w, blocks[1], S(1));
        mend_sim_advance(w->sim, 10);
    }
    EXPECT_TRUE(mend_world_ledger(w).events <= 200);
}

MEND_TEST(pool_corners, a_lost_context_is_not_a_refusal)
{
    static const int codes[] = {4,   214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718,
                                719, 721, 810, 911, /* and these pass: */
                                0,   1,   2,   201, 600, 701, 703, 704, 708, 712, 720, 900, 999};
    for (int i = 0; i < 30; i++) {
        EXPECT_INT_EQ(i < 17, mend_status_is_fatal(codes[i]));
    }
}

KIT_TEST(pool_corners, map_and_access_are_asked_again_when_not_ready)
{
    kit_fail(w, "map", 0, 3, 600);
    kit_fail(w, "set_access", 0, 3, 600);
    kit_alloc(w, 3 * MEND_MIB, NULL);
    kit_fail(w, "set_access", 0, UINT64_MAX, 600);
    kit_expect_none(w, 3 * MEND_MIB, NULL, "");
    mend_sim_clear_faults(w->sim);
}

/* Asked again at once it would be as little ready as before. */
KIT_TEST(pool_corners, the_pauses_before_it_is_asked_again_grow)
{
    kit_fail(w, "set_access", 0, 1, 600);
    kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_U64_EQ(1000000, mend_sim_now_ns(w->sim));
    kit_fail(w, "map", 0, 3, 600);
    kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_U64_EQ(8000000, mend_sim_now_ns(w->sim));
}

KIT_TEST(pool_corners, calls_leave_the_thread_s_capture_mode_alone)
{
    mend_capture_mode mode = MEND_CAPTURE_MODE_THREAD_LOCAL;
    const mend_driver *driver = mend_sim_driver(w->sim);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->exchange_capture_mode(driver, &mode));
    EXPECT_OK(mend_sim_begin_capture(w->sim, S(0), MEND_SIM_CAPTURE_GLOBAL));
    kit_alloc(w, MEND_MIB, NULL);
    EXPECT_OK(mend_sim_end_capture(w->sim, S(0), NULL));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->exchange_capture_mode(driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_THREAD_LOCAL, mode);
}

/* The device is lost at the very unmapping of a trim. */
KIT_LAST_TEST(pool_corners, a_trim_that_finds_the_device_lost_says_so, kit_open_default(w))
{
    kit_free(w, kit_alloc(w, MEND_MIB, NULL), NULL);
    kit_fail(w, "unmap", 0, 0, 4);
    EXPECT_ERROR(DEVICE_LOST, mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    mend_pool_destroy(w->pool);
}

/* The driver says so once, to a call with a stream. One without asks nothing. */
KIT_LAST_TEST(pool_corners, a_device_lost_at_the_question_for_a_capture_stays_lost,
              kit_open_default(w))
{
    enum { LOST = 700 };
    void *none = NULL;
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    kit_fail(w, "stream_get_capture", 0, 1, LOST);
    EXPECT_ERROR(DEVICE_LOST, mend_alloc(w->pool, 512, S(1), &none));
    EXPECT_ERROR(DEVICE_LOST, mend_alloc(w->pool, 512, MEND_NO_STREAM, &none));
    mend_pool_destroy(w->pool);
}

/* A thread's own stream is always there. */
KIT_TEST(pool_corners, a_handle_that_is_refused_is_of_an_unknown_stream)
{
    void *none = NULL;
    kit_fail(w, "stream_get_capture", 0, 2, MEND_DRIVER_INVALID_HANDLE);
    EXPECT_ERROR(UNKNOWN_STREAM, mend_alloc(w->pool, 512, S(0), &none));
    EXPECT_ERROR(DRIVER, mend_alloc(w->pool, 512, KIT_PER_THREAD, &none));
}

/* No work uses them any more. */
KIT_RIG_EACH(pool_corners, blocks_are_freed_after_the_driver_has_shut_down, int, is_checked, 2,
             mend_world, w,
             kit_open_set(w, w->pool_config.observe = is_checked ? "guard,poison" : NULL),
             mend_sim_destroy(w->sim))
{
    void *none = NULL;
    void *blocks[2];
    kit_alloc_row(w, blocks, 2, MEND_MIB, S(0));
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.status = MEND_DRIVER_DEINITIALIZED;
    fault.sticky = 1;
    EXPECT_OK(mend_sim_fail(w->sim, &fault));
    EXPECT_ERROR(DEVICE_LOST, mend_alloc(w->pool, 4 * MEND_MIB, S(0), &none));
    EXPECT_OK(mend_free(w->pool, blocks[0], S(0)));
    EXPECT_OK(mend_free(w->pool, blocks[1], S(1)));
    EXPECT_OK(mend_pool_destroy(w->pool));
}

KIT_LAST_TEST(pool_corners, the_end_tells_of_memory_that_the_driver_keeps, kit_open_default(w))
{
    kit_alloc(w, MEND_MIB, NULL);
    kit_fail(w, "release", 0, 2, MEND_DRIVER_UNKNOWN); /* both tries */
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
}

/* The device is lost while the end waits for it. Memory is released to a driver that takes it.
 */
KIT_LAST_TEST(pool_corners, the_end_of_a_lost_pool_gives_back_what_is_taken, kit_open_default(w))
{
    enum { LOST = 700, BOTH_TRIES = 2 };
    kit_alloc(w, MEND_MIB, NULL);
    kit_fail(w, "context_synchronize", 0, BOTH_TRIES, LOST);
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, chunks, 0, mappings, 0, reservations, 0);
}

/* ---- figures of failures. The others: tests/sim/figures.c ------------------------------------ */

KIT_EACH(pool_statistics, what_was_undone_was_never_created, int, i, 2, kit_open_default(w))
{
    static const char *const calls[] = {"map", "set_access"};
    void *block = NULL;
    kit_fail(w, calls[i], 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_alloc(w->pool, 3 * MEND_MIB, NULL, &block));
    mend_stats stats = mend_world_stats(w);
    EXPECT_FIELDS(stats, created_bytes, 0, chunks_created, 0, chunks_released, 0);
    EXPECT_U64_EQ(1, stats.driver_failures);
    EXPECT_U64_EQ(0, stats.out_of_memory); /* it was refused, not full */
}

/* A mapping waits for open epochs of its stream. The flush that cannot record it goes on. */
KIT_SET_TEST(pool_statistics, a_fence_that_a_flush_cannot_record_is_counted,
             w->pool_config.strategy = 5) /* a chunk moves */
{
    void *block = kit_alloc(w, MEND_MIB, NULL);
    kit_free(w, block, NULL);
    kit_alloc_with(w, MEND_MIB, NULL, .alignment_bytes = MEND_GIB);
    EXPECT_STATS(w, retired_bytes, MEND_MIB);
    kit_fail(w, "event_record", 0, 1, MEND_DRIVER_UNKNOWN);
    uint64_t before = mend_world_stats(w).driver_failures;
    kit_alloc(w, MEND_MIB, NULL);
    EXPECT_STATS(w, driver_failures, before + 1, retired_bytes, MEND_MIB);
}
