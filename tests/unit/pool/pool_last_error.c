/*
 * A call that succeeds leaves the thread's last error alone, whatever it has worked around; and no
 * call keeps a lock. EXPECT_RESULT asks that of every call (support/call.h): here are those that
 * meet a failure on their way, and an error from before to be spoilt.
 */
#include "base/error.h"
#include "driver/driver.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

/* What was there before, unlike anything that a call of a test may meet. */
static void leave_error(void)
{
    (void)mend_fail(MEND_ERROR_FOREIGN_POINTER, "an error from before");
}

static void expect_error_from_before(void)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_OK(mend_last_error(&error));
    EXPECT_ERROR(FOREIGN_POINTER, error.result);
    EXPECT_STR_EQ("an error from before", error.message);
}

KIT_EACH(pool_last_error, a_free_whose_early_fence_is_refused_leaves_it, int, i, 2,
         kit_open_default(w))
{
    static const char *const calls[] = {"event_record", "context_push"};
    void *other = kit_alloc(w, 512, S(1));
    void *large = kit_alloc(w, 8 * MEND_MIB, S(0));
    uint64_t failures = mend_world_stats(w).driver_failures;
    leave_error();
    kit_fail(w, calls[i], 0, 1, MEND_DRIVER_UNKNOWN);
    kit_free(w, large, S(0));
    expect_error_from_before();
    EXPECT_STATS(w, driver_failures, failures + 1);
    kit_free(w, other, S(1));
}

/* One chunk of eight blocks, of which the second and the sixth live; a compaction that cannot map
 * them again. */
static void leave_unmapped(mend_world *w, void *blocks[8])
{
    kit_free(w, kit_alloc(w, MEND_MIB, NULL), NULL);
    kit_alloc_row(w, blocks, 8, MEND_MIB / 8, NULL);
    for (int i = 0; i < 8; i++) {
        if (i != 1 && i != 5) {
            kit_free(w, blocks[i], NULL);
        }
    }
    kit_fail(w, "map", 2, UINT64_MAX, MEND_DRIVER_UNKNOWN); /* the scratch mappings go well */
    EXPECT_ERROR(DRIVER, mend_defrag(w->pool, NULL, NULL));
    EXPECT_STATS(w, unmapped_blocks, 2);
}

KIT_TEST_IN(pool_last_error, a_trim_that_cannot_map_again_leaves_it,
            kit_open_with(w, 8 * MEND_MIB, NULL))
{
    void *blocks[8];
    leave_unmapped(w, blocks);
    leave_error();
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    expect_error_from_before();
    EXPECT_STATS(w, unmapped_blocks, 2);
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, unmapped_blocks, 0);
}

/* A block at an alignment of its own moves a chunk there; the place it has left retires. */
static bool open_with_retired(mend_world *w, void **block)
{
    if (!kit_open_default(w)) {
        return false;
    }
    EXPECT_OK(mend_alloc(w->pool, MEND_MIB, NULL, block));
    kit_free(w, *block, NULL);
    EXPECT_OK(mend_alloc_with(w->pool, MEND_MIB, NULL,
                              KIT_OPTIONS(mend_alloc_options, .alignment_bytes = MEND_GIB), block));
    EXPECT_STATS(w, retired_bytes, MEND_MIB);
    leave_error();
    return true;
}

static void close_with_retired(mend_world *w, void *block)
{
    mend_sim_clear_faults(w->sim);
    kit_free(w, block, NULL);
    kit_close(w);
}

MEND_TEST(pool_last_error, a_trim_whose_unmap_is_refused_leaves_it)
{
    mend_world w;
    void *block;
    ASSERT_TRUE(open_with_retired(&w, &block));
    kit_fail(&w, "unmap", 0, 2,
             MEND_DRIVER_UNKNOWN); /* before and after free chunks are withdrawn */
    EXPECT_OK(mend_trim(w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    expect_error_from_before();
    EXPECT_STATS(&w, driver_failures, 2, retired_bytes, MEND_MIB);
    close_with_retired(&w, block);
}

/* It asks for captures itself, which it says, and before anything is unmapped, which it does not.
 */
MEND_TEST(pool_last_error, a_trim_that_does_not_hear_of_captures_leaves_it)
{
    enum { MOST_CALLS = 8 };
    int worked_around = 0;
    for (uint64_t at = 0; at < MOST_CALLS; at++) {
        mend_world w;
        void *block;
        ASSERT_TRUE(open_with_retired(&w, &block));
        kit_fail(&w, "stream_get_info", at, 1, MEND_DRIVER_UNKNOWN);
        if (mend_trim(w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL) == MEND_OK) {
            expect_error_from_before();
            worked_around += mend_world_stats(&w).driver_failures > 0;
        }
        close_with_retired(&w, block);
    }
    EXPECT_TRUE(worked_around > 0);
}

KIT_LAST_TEST(pool_last_error, a_free_after_the_drivers_end_leaves_it, kit_open_default(w))
{
    mend_stream stream = kit_stream(w);
    void *block = kit_alloc(w, 512, NULL);
    mend_sim_stop(w->sim);
    leave_error();
    kit_free(w, block, stream); /* which the pool does not know */
    expect_error_from_before();
    EXPECT_OK(mend_pool_destroy(w->pool));
    expect_error_from_before();
}

static void fail_in_the_log(KIT_UNUSED void *context, KIT_UNUSED mend_log_level level,
                            KIT_UNUSED const char *line)
{
    (void)mend_free(NULL, &fail_in_the_log, NULL);
}

/* The log hears that blocks are lost; what the program calls there is none of this call. */
KIT_LAST_TEST(pool_last_error, a_destroy_that_fails_says_why_whatever_the_log_calls,
              kit_open_default(w))
{
    mend_error error = MEND_ERROR_INIT;
    kit_alloc(w, 512, NULL);
    kit_fail(w, "release", 0, 2, MEND_DRIVER_UNKNOWN);
    mend_log_set_sink(fail_in_the_log, NULL);
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
    mend_log_set_sink(NULL, NULL);
    EXPECT_OK(mend_last_error(&error));
    EXPECT_STR_EQ("the driver refused to take back what the pool held "
                  "(cuMemRelease: CUDA_ERROR_UNKNOWN)",
                  error.message);
}

static void fail_meanwhile(KIT_UNUSED void *context, KIT_UNUSED const char *call,
                           KIT_UNUSED int is_after)
{
    (void)mend_free(NULL, &fail_meanwhile, NULL);
}

/* Only a simulated device calls the program inside of a driver call. */
KIT_TEST(pool_last_error, a_failing_call_inside_of_a_driver_call_is_not_that_of_the_call_outside)
{
    mend_error error = MEND_ERROR_INIT;
    void *block = NULL;
    kit_fail(w, "map", 0, 1, MEND_DRIVER_UNKNOWN);
    mend_sim_set_call_observer(w->sim, fail_meanwhile, NULL);
    mend_result result = mend_alloc(w->pool, MEND_MIB, NULL, &block);
    mend_sim_set_call_observer(w->sim, NULL, NULL);
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, result);
    EXPECT_OK(mend_last_error(&error));
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, error.result);
    EXPECT_STR_EQ("cuMemMap", error.driver_call);
    mend_sim_clear_faults(w->sim);
}

/* Where streams may vanish, each search asks for the stream again, the last one behind the lock of
 * those who make room. */
MEND_TEST(pool_last_error, a_stream_that_is_gone_when_its_turn_comes_leaves_no_lock)
{
    enum { MOST_CALLS = 40 };
    int failed = 0;
    for (uint64_t at = 0; at < MOST_CALLS; at++) {
        mend_world w;
        mend_test_call call;
        void *block = NULL;
        mend_world_init(&w);
        w.pool_config.streams_may_vanish = 1;
        ASSERT_TRUE(kit_open(&w));
        mend_mutex *locks[] = {&w.pool->heap.grow, &w.pool->heap.state};
        kit_free(&w, kit_alloc(&w, 512, w.streams[0]), w.streams[0]);
        kit_fail(&w, "stream_get_info", at, 1, MEND_DRIVER_UNKNOWN);
        mend_test_begin_call(&call);
        mend_result result = mend_alloc(w.pool, MEND_MIB, w.streams[0], &block);
        mend_sim_clear_faults(w.sim);
        failed += result != MEND_OK;
        EXPECT_TRUE(mend_test_remains_of_call(&call, result) == NULL);
        for (int i = 0; i < 2; i++) {
            ASSERT_TRUE(mend_mutex_try_lock(locks[i]));
            mend_mutex_unlock(locks[i]);
        }
        if (block != NULL) {
            kit_free(&w, block, w.streams[0]);
        }
        kit_close(&w);
    }
    EXPECT_TRUE(failed >= 2); /* before the grow lock, and behind it */
}
