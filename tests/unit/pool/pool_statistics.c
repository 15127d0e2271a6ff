/* Figures of failures. The others are checked after each step of the simulation
 * (tests/sim/figures.c).
 */
#include "driver/driver.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

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
    kit_alloc_aligned(w, MEND_MIB, MEND_GIB, NULL);
    EXPECT_STATS(w, retired_bytes, MEND_MIB);
    kit_fail(w, "event_record", 0, 1, MEND_DRIVER_UNKNOWN);
    uint64_t before = mend_world_stats(w).driver_failures;
    kit_alloc(w, MEND_MIB, NULL);
    EXPECT_STATS(w, driver_failures, before + 1, retired_bytes, MEND_MIB);
}

/* Each host allocation of a request fails in turn, also the one for the fences of its flush. */
MEND_TEST(pool_statistics, want_of_host_memory_is_no_failure_of_the_driver)
{
    enum { MOST_ALLOCATIONS = 6 };
    int served = 0;
    for (uint64_t after = 0; after < MOST_ALLOCATIONS; after++) {
        mend_world w;
        mend_unwatched_driver unwatched;
        void *other = NULL;
        mend_world_init(&w);
        w.pool_config.strategy = 5; /* a chunk moves */
        ASSERT_TRUE(kit_open_unwatched(&w, &unwatched));
        void *block = kit_alloc(&w, MEND_MIB, NULL);
        kit_free(&w, block, NULL);
        block = kit_alloc_aligned(&w, MEND_MIB, MEND_GIB, NULL);
        mend_result result = mend_test_starve(after, 1, mend_alloc(w.pool, MEND_MIB, NULL, &other));
        served += result == MEND_OK && mend_test_failed_host_allocations() > 0;
        mend_test_heal_host_memory();
        EXPECT_STATS(&w, driver_failures, 0);
        kit_free(&w, block, NULL);
        kit_free(&w, other, NULL);
        kit_close(&w);
    }
    EXPECT_TRUE(served > 0); /* in spite of it */
}
