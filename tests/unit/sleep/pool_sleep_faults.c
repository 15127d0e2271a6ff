/* Remains of sleeps and wakes that the driver refused. scenario_positions has every position.
 */
#include "tests/unit/sleep/sleep_rig.h"

static mend_result sleep_both_ways(sleep_rig *r)
{
    const mend_sleep_rule rules[] = {{1, MEND_BACKUP_HOST}, {2, MEND_BACKUP_FILE}};
    return mend_sleep(r->w.pool,
                      KIT_OPTIONS(mend_sleep_options, .rules = rules, .rule_count = 2,
                                  .directory = sleep_rig_directory()),
                      NULL);
}

/* Memory that the driver does not take back is free memory, and serves the next wake. */
SLEEP_TEST(pool_sleep_faults, memory_that_is_refused_is_given_back_later)
{
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    kit_fail(w, "release", SLEEP_BLOCKS - 2, 4, MEND_DRIVER_UNKNOWN); /* asked twice for each */
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_STATS(w, reserved_bytes, 2 * SLEEP_BLOCK, asleep_bytes, SLEEP_BLOCKS * SLEEP_BLOCK,
                 free_empty_bytes, 2 * SLEEP_BLOCK);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, reserved_bytes, 0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_fail(w, "release", SLEEP_BLOCKS - 2, 4, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    EXPECT_U64_EQ(2 * SLEEP_BLOCK, woken.reused_bytes);
}

KIT_RIG_TEST(pool_sleep_faults, the_device_is_lost_while_it_sleeps, sleep_rig, sleep_rig_open(r),
             (void)0)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_break(w, "create");
    EXPECT_ERROR(DEVICE_LOST, mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_ERROR(DEVICE_LOST, mend_sleep(w->pool, NULL, NULL));
    (void)mend_pool_destroy(w->pool);
    mend_sim_destroy(w->sim);
}

SLEEP_TEST(pool_sleep_faults, refused_memory_of_the_host_goes_back_later)
{
    EXPECT_OK(mend_set_backup_cache_limit(w->pool, 0));
    EXPECT_OK(sleep_both_ways(r));
    kit_fail(w, "host_free", 0, 100, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_ledger(w).host_allocations > 2); /* contents, and two buffers */
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_TRUE(mend_world_ledger(w).host_allocations > 2);
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_LEDGER(w, host_allocations, 0);
}

/* A chunk that a wake left mapped, because the driver refuses to unmap it, is there for each later
 * wake, also after one that fails before it maps anything. */
SLEEP_TEST(pool_sleep_faults, what_a_failed_wake_left_mapped_stays_so)
{
    const uint64_t tag = 1;
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_fail(w, "set_access", 0, 1, MEND_DRIVER_UNKNOWN);
    kit_fail(w, "unmap", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_wake(w->pool, &tag, 1, NULL));
    mend_sim_clear_faults(w->sim);
    const uint64_t mapped_bytes = mend_world_ledger(w).mapped_bytes;
    EXPECT_TRUE(mapped_bytes > 0);
    mend_sim_set_foreign_bytes(w->sim, 0, 60 * MEND_MIB);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_LEDGER(w, mapped_bytes, mapped_bytes);
    EXPECT_TRUE(mend_world_check(w));
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
}

SLEEP_TEST(pool_sleep_faults, a_driver_that_fails_at_a_creation_lacks_no_memory)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_fail(w, "create", 1, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_REFUSAL(DRIVER, "cuMemCreate", mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STATS(w, asleep_bytes, SLEEP_BLOCKS * SLEEP_BLOCK);
}

/* Free memory is for those without. */
SLEEP_TEST(pool_sleep_faults, what_a_failed_wake_left_mapped_takes_no_memory)
{
    const uint64_t tag = 1;
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .keep_free = 2), NULL));
    kit_fail(w, "set_access", 0, 1, MEND_DRIVER_UNKNOWN);
    kit_fail(w, "unmap", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_wake(w->pool, &tag, 1, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    mend_sim_clear_faults(w->sim);
    EXPECT_STATS(w, reserved_bytes, SLEEP_BLOCKS * SLEEP_BLOCK, free_empty_bytes, 0);
}

/* The releasable memory is unknown then, and so are the missing bytes, of the limit or the
 * device. */
SLEEP_TEST(pool_sleep_faults, a_question_about_captures_that_is_refused_is_no_lack_of_memory)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_fail(w, "stream_get_info", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    mend_sim_set_foreign_bytes(w->sim, 0, 60 * MEND_MIB);
    EXPECT_REFUSAL(DRIVER, "cuStreamGetCaptureInfo", mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_set_limit(w->pool, SLEEP_BLOCK));
    EXPECT_REFUSAL(DRIVER, "cuStreamGetCaptureInfo", mend_wake(w->pool, NULL, 0, NULL));
    mend_sim_clear_faults(w->sim);
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    EXPECT_OK(mend_set_limit(w->pool, 0));
}

/* The first of two chunks does not come back, and the second one does. */
SLEEP_TEST(pool_sleep_faults, a_pass_fails_while_a_chunk_stays_away)
{
    kit_fail(w, "unmap", 2, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_REFUSAL(DRIVER, "cuMemUnmap", mend_sleep(w->pool, NULL, NULL));
    EXPECT_STATS(w, unmapped_blocks, 0);
    kit_fail(w, "unmap", 2, 1, MEND_DRIVER_UNKNOWN);
    kit_fail(w, "map", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_sleep(w->pool, NULL, NULL));
    mend_sim_clear_faults(w->sim);
    EXPECT_STATS(w, unmapped_blocks, 2);
    kit_fail(w, "map", 0, 3, MEND_DRIVER_UNKNOWN); /* both as it enters, and one again */
    EXPECT_ERROR(DRIVER, mend_compact(w->pool, NULL, NULL));
    EXPECT_STATS(w, unmapped_blocks, 1);
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
}

/* A page of several chunks, of which one does not come back, is one block. */
KIT_TEST(pool_sleep_faults, a_page_that_stays_away_counts_once)
{
    enum { PAGE = 8 << 20 };
    mend_range *ranges[2];
    kit_free(w, kit_alloc(w, PAGE / 2, S(0)), S(0));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_range_create(
            w->pool, PAGE, KIT_OPTIONS(mend_range_options, .page_bytes = PAGE), &ranges[i]));
        EXPECT_OK(mend_range_commit(ranges[i], 0, PAGE, S(0)));
    }
    kit_fail(w, "unmap", 1, 1, MEND_DRIVER_UNKNOWN);
    kit_fail(w, "map", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_sleep(w->pool, NULL, NULL));
    mend_sim_clear_faults(w->sim);
    EXPECT_STATS(w, unmapped_blocks, 1);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_compact(w->pool, NULL, NULL));
}
