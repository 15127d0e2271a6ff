/* Sleep and wake when the driver, the host or the disk fails, at every place where it can: all of
 * it happens or none, no byte is lost, and nothing leaks. */
#include "tests/support/host_memory.h"
#include "tests/unit/sleep/sleep_rig.h"

static const char calls_of_sleep[] =
    "context_push exchange_capture_mode context_synchronize host_alloc host_free "
    "stream_create copy stream_synchronize unmap";
static const char calls_of_wake[] =
    "context_push exchange_capture_mode create map set_access host_alloc host_free "
    "stream_create copy stream_synchronize unmap";
enum { BOTH = SLEEP_BLOCKS + SLEEP_PAGES };

typedef mend_result (*operation)(sleep_rig *r);

static mend_result sleep_and_keep(sleep_rig *r, int keep_free)
{
    const mend_sleep_rule rules[] = {{1, MEND_KEEP_HOST}, {2, MEND_KEEP_FILE}};
    return mend_sleep(r->w.pool,
                      KIT_OPTIONS(mend_sleep_options, .rules = rules, .rule_count = 2,
                                  .keep_free = keep_free, .directory = sleep_rig_directory()),
                      NULL);
}

static mend_result sleep_both_ways(sleep_rig *r)
{
    return sleep_and_keep(r, 0);
}

static mend_result sleep_into_the_pool(sleep_rig *r)
{
    return sleep_and_keep(r, 2);
}

static mend_result wake_all(sleep_rig *r)
{
    return mend_wake(r->w.pool, NULL, 0, NULL);
}

static int count_asleep(sleep_rig *r)
{
    int count = 0;
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        count += sleep_rig_sleeps(r, i);
    }
    for (int i = 0; i < SLEEP_PAGES; i++) {
        count += sleep_rig_page_sleeps(r, i);
    }
    return count;
}

/* After a failure in one call: all as before, or done; then it works, and every byte is there. */
typedef struct trial {
    operation run;
    bool wakes;
} trial;

static bool fail_once(const kit_fault *f, const void *context)
{
    const trial *t = context;
    sleep_rig r;
    if (!sleep_rig_open(&r) || !sleep_rig_add_pages(&r)) {
        return false;
    }
    if (t->wakes) { /* some of it finds free chunks of its size */
        EXPECT_OK(sleep_both_ways(&r));
        void *free_row[SLEEP_BLOCKS / 2];
        kit_alloc_row(&r.w, free_row, SLEEP_BLOCKS / 2, SLEEP_BLOCK, r.w.streams[0]);
        kit_free_row(&r.w, free_row, SLEEP_BLOCKS / 2, r.w.streams[0]);
    }
    kit_fail(&r.w, f->call, f->after_calls, f->count, f->status);
    mend_stats before = mend_world_stats(&r.w);
    mend_result result = t->run(&r);
    const bool is_met =
        result != MEND_OK || mend_world_stats(&r.w).driver_failures > before.driver_failures;
    mend_sim_clear_faults(r.w.sim);
    int expected = (result == MEND_OK) != t->wakes ? BOTH : 0;
    EXPECT_INT_EQ(expected, count_asleep(&r));
    EXPECT_OK(mend_audit(r.w.pool));
    if (result != MEND_OK) {
        EXPECT_OK(t->run(&r));
    }
    EXPECT_OK(wake_all(&r));
    EXPECT_INT_EQ(0, count_asleep(&r));
    sleep_rig_end_pages(&r);
    kit_release_row(&r.w, r.blocks, SLEEP_BLOCKS, SLEEP_BLOCK, r.w.streams[0]);
    mend_sim_advance(r.w.sim, 1000000);
    EXPECT_OK(mend_pool_destroy(r.w.pool));
    EXPECT_LEDGER(&r.w, content_errors, 0, chunks, 0, mappings, 0, host_allocations, 0);
    EXPECT_STR_EQ("", mend_sim_first_violation(r.w.sim));
    mend_sim_destroy(r.w.sim);
    return is_met;
}

static void fail_everywhere(const trial *t, const char *calls)
{
    const kit_fault once = {.count = 1, .status = MEND_DRIVER_UNKNOWN};
    EXPECT_TRUE(kit_sweep(calls, &once, 1, fail_once, t) > 0);
}

MEND_TEST(pool_sleep_faults, a_sleep_is_undone_at_every_driver_call)
{
    fail_everywhere(&(trial){sleep_both_ways, false}, calls_of_sleep);
    fail_everywhere(&(trial){sleep_both_ways, false}, "release");
    fail_everywhere(&(trial){sleep_into_the_pool, false}, calls_of_sleep);
}

MEND_TEST(pool_sleep_faults, a_wake_is_undone_at_every_driver_call)
{
    fail_everywhere(&(trial){wake_all, true}, calls_of_wake);
}

static void fail_host(operation run, bool wakes)
{
    mend_result result = MEND_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t after = 0; result != MEND_OK; after++) {
        sleep_rig r;
        mend_unwatched_driver unwatched;
        mend_world_init(&r.w);
        ASSERT_TRUE(kit_open_unwatched(&r.w, &unwatched) && sleep_rig_fill(&r));
        ASSERT_TRUE(sleep_rig_add_pages(&r));
        if (wakes) {
            EXPECT_OK(sleep_both_ways(&r));
        }
        result = mend_test_starve(after, 1, run(&r));
        EXPECT_TRUE(result != MEND_OK || mend_test_failed_host_allocations() == 0);
        mend_test_heal_host_memory();
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_HOST_MEMORY);
        EXPECT_INT_EQ((result == MEND_OK) != wakes ? BOTH : 0, count_asleep(&r));
        EXPECT_TRUE(mend_world_check(&r.w));
        sleep_rig_close(&r);
        ASSERT_TRUE(after < 1000);
    }
}

MEND_TEST(pool_sleep_faults, host_memory_fails_at_every_place)
{
    fail_host(sleep_both_ways, false);
    fail_host(wake_all, true);
}

/* The driver unmaps, refuses the next chunks, and refuses to map the first again: as after a
 * compaction the blocks have their bytes, and come back later. */
KIT_TEST(pool_sleep_faults, what_cannot_be_mapped_again_comes_back_later)
{
    void *first = kit_alloc_written(w, MEND_MIB, NULL);
    void *between = kit_alloc_written(w, MEND_MIB, NULL);
    void *last = kit_alloc_written(w, MEND_MIB, NULL);
    kit_release(w, between, MEND_MIB, NULL);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL)); /* two segments: two calls to unmap */
    kit_fail(w, "unmap", 1, 1, MEND_DRIVER_UNKNOWN);
    kit_fail(w, "map", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_REFUSAL(DRIVER, "could not be mapped", mend_sleep(w->pool, NULL, NULL));
    mend_sim_clear_faults(w->sim);
    EXPECT_STATS(w, unmapped_blocks, 1, asleep_bytes, 0);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL)); /* maps it again first */
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, first, MEND_MIB, NULL);
    kit_release(w, last, MEND_MIB, NULL);
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
    EXPECT_OK(mend_keep_host_memory(w->pool, 0));
    EXPECT_OK(sleep_both_ways(r));
    kit_fail(w, "host_free", 0, 100, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(wake_all(r));
    EXPECT_TRUE(mend_world_ledger(w).host_allocations > 2); /* contents, and two buffers */
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_TRUE(mend_world_ledger(w).host_allocations > 2);
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_LEDGER(w, host_allocations, 0);
}
