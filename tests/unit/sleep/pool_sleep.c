/* Sleep and wake: memory goes back to the device, addresses stay, and every byte is what it was. */
#include "tests/unit/sleep/sleep_rig.h"

SLEEP_TEST(pool_sleep, memory_goes_back_and_every_byte_comes_back)
{
    mend_stats before = mend_world_stats(w);
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_LEDGER(w, chunk_bytes, 0, mappings, 0);
    mend_stats asleep = mend_world_stats(w);
    EXPECT_FIELDS(asleep, reserved_bytes, 0, free_bytes, 0, live_bytes, before.live_bytes);
    EXPECT_FIELDS(asleep, asleep_live_bytes, before.live_bytes, asleep_bytes, report.asleep_bytes);
    EXPECT_FIELDS(report, released_bytes, before.reserved_bytes, host_bytes, before.live_bytes);
    EXPECT_U64_EQ(report.host_bytes, asleep.kept_host_bytes);
    EXPECT_TRUE(mend_world_ledger(w).host_bytes >= report.host_bytes);
    EXPECT_U64_EQ(0, report.stayed_bytes);
    EXPECT_U64_EQ(1, asleep.sleeps);
    EXPECT_TRUE(mend_world_check(w));

    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    EXPECT_FIELDS(woken, woken_bytes, report.asleep_bytes, host_bytes, report.host_bytes);
    EXPECT_STATS(w, wakes, 1, asleep_bytes, 0, kept_host_bytes, 0);
    EXPECT_LEDGER(w, host_allocations, 0);
}

SLEEP_TEST(pool_sleep, a_sleeping_block_is_described_and_its_neighbours_live_on)
{
    sleep_rig_sleep(r, 1, MEND_KEEP_HOST);
    EXPECT_TRUE(sleep_rig_sleeps(r, 0));
    EXPECT_TRUE(!sleep_rig_sleeps(r, 1));
    for (int i = 1; i < SLEEP_BLOCKS; i += 2) {
        kit_verify(w, S(0), r->blocks[i], SLEEP_BLOCK);
    }
    void *more = kit_alloc_written(w, SLEEP_BLOCK, S(0));
    kit_release(w, more, SLEEP_BLOCK, S(0));
}

SLEEP_TEST(pool_sleep, contents_are_kept_in_a_file)
{
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    options.others = MEND_KEEP_FILE;
    EXPECT_REFUSAL(INVALID_ARGUMENT, "directory", mend_sleep(w->pool, &options, &report));
    options.directory = "/nowhere/at/all";
    EXPECT_REFUSAL(SYSTEM, "/nowhere/at/all", mend_sleep(w->pool, &options, &report));
    EXPECT_TRUE(!sleep_rig_sleeps(r, 0));
    options.directory = sleep_rig_directory();
    EXPECT_OK(mend_sleep(w->pool, &options, &report));
    EXPECT_FIELDS(report, file_bytes, SLEEP_BLOCKS * SLEEP_BLOCK, host_bytes, 0);
    EXPECT_STATS(w, kept_file_bytes, report.file_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(w).host_allocations); /* the buffers went */
    EXPECT_TRUE(mend_world_check(w));
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    EXPECT_U64_EQ(report.file_bytes, woken.file_bytes);
    EXPECT_STATS(w, kept_file_bytes, 0);
}

KIT_TEST_IN(pool_sleep, large_blocks_pass_through_the_buffers_part_by_part,
            kit_open_with(w, 64 * MEND_MIB, NULL))
{
    const uint64_t size = 20 * MEND_MIB + 512; /* three parts, the last one short */
    void *block = kit_alloc_written(w, size, NULL);
    void *another = kit_alloc_written(w, size, NULL);
    EXPECT_OK(mend_sleep(w->pool,
                         KIT_OPTIONS(mend_sleep_options, .others = MEND_KEEP_FILE,
                                     .directory = sleep_rig_directory()),
                         NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, block, size, NULL);
    kit_release(w, another, size, NULL);
}

KIT_TEST(pool_sleep, only_blocks_are_copied)
{
    enum { PIECES = 8 };
    const uint64_t size = 128 * MEND_KIB;
    void *blocks[PIECES];
    kit_alloc_written_row(w, blocks, PIECES, size, S(0));
    for (int i = 1; i < PIECES; i += 2) { /* gaps that are not copied */
        kit_free(w, blocks[i], S(0));
        blocks[i] = NULL;
    }
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_FIELDS(report, host_bytes, PIECES / 2 * size, asleep_bytes, MEND_MIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release_row(w, blocks, PIECES, size, S(0));
}

SLEEP_TEST(pool_sleep, what_is_dropped_takes_no_memory_of_the_host)
{
    const mend_sleep_rule rules[] = {{1, MEND_KEEP_HOST}, {2, MEND_KEEP_NOTHING}};
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .rules = rules, .rule_count = 2),
                         &report));
    EXPECT_U64_EQ(SLEEP_BLOCKS / 2 * SLEEP_BLOCK, report.host_bytes);
    EXPECT_U64_EQ(SLEEP_BLOCKS / 2 * SLEEP_BLOCK, report.dropped_bytes);
    EXPECT_STATS(w, dropped_bytes, report.dropped_bytes);
    EXPECT_LEDGER(w, chunk_bytes, 0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    for (int i = 1; i < SLEEP_BLOCKS; i += 2) { /* undefined now, and usable */
        kit_write(w, NULL, r->blocks[i], SLEEP_BLOCK);
    }
}

SLEEP_TEST(pool_sleep, blocks_are_freed_asleep_and_what_was_kept_of_them_goes)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        uint64_t kept = mend_world_stats(w).kept_host_bytes;
        kit_free(w, r->blocks[i], S(i % 2));
        r->blocks[i] = NULL;
        EXPECT_STATS(w, kept_host_bytes, kept - SLEEP_BLOCK);
        EXPECT_TRUE(mend_world_check(w));
    }
    EXPECT_LEDGER(w, host_allocations, 0);
    EXPECT_STATS(w, asleep_bytes, 0, mapped_bytes, 0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL)); /* nothing sleeps */
    EXPECT_STATS(w, wakes, 0);
}

KIT_TEST(pool_sleep, parts_of_chunks_are_freed_asleep)
{
    enum { SMALL = 64 };
    void *blocks[SMALL];
    kit_alloc_written_row(w, blocks, SMALL, 24 * MEND_KIB + 512, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    for (int i = 0; i < SMALL; i += i < SMALL / 2 ? 1 : 2) { /* the first chunks go */
        kit_free(w, blocks[i], S(1));
        blocks[i] = NULL;
        EXPECT_TRUE(mend_world_check(w));
    }
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_check(w));
    kit_release_row(w, blocks, SMALL, 24 * MEND_KIB + 512, S(0));
}

/* A block over several chunks becomes one claimed part in each. */
KIT_TEST(pool_sleep, a_block_over_many_chunks_is_freed_asleep)
{
    void *small[6];
    kit_alloc_written_row(w, small, 6, MEND_MIB, S(0));
    for (int i = 1; i < 5; i++) {
        kit_free(w, small[i], S(0));
    }
    void *large = kit_alloc_written(w, 4 * MEND_MIB, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    uint64_t chunks = mend_world_stats(w).asleep_bytes;
    kit_free(w, large, S(1));
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_STATS(w, asleep_bytes, chunks - 4 * MEND_MIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, small[0], MEND_MIB, S(0));
    kit_release(w, small[5], MEND_MIB, S(0));
}

KIT_TEST(pool_sleep, pages_with_blocks_that_stay_awake_stay_and_the_report_says_so)
{
    mend_set_sleep_tag(1);
    void *first = kit_alloc_written(w, 32 * MEND_KIB, S(0));
    mend_set_sleep_tag(2);
    void *second = kit_alloc_written(w, 32 * MEND_KIB, S(0));
    mend_set_sleep_tag(0);
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(1, MEND_KEEP_HOST, ), &report));
    EXPECT_FIELDS(report, shared_bytes, 32 * MEND_KIB, stayed_bytes, 32 * MEND_KIB);
    EXPECT_FIELDS(report, asleep_bytes, 0, copied_bytes, 0);
    EXPECT_STATS(w, sleeps, 0);
    kit_release(w, first, 32 * MEND_KIB, S(0));
    kit_release(w, second, 32 * MEND_KIB, S(0));
}

SLEEP_TEST(pool_sleep, free_memory_goes_back_unless_it_is_to_stay)
{
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, NULL), NULL);
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    const mend_sleep_rule rule = {1, MEND_KEEP_HOST};
    options.rules = &rule;
    options.rule_count = 1;
    options.keep_free = 1;
    EXPECT_OK(mend_sleep(w->pool, &options, NULL));
    EXPECT_TRUE(mend_world_stats(w).free_empty_bytes >= 2 * MEND_MIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    options.keep_free = 0;
    EXPECT_OK(mend_sleep(w->pool, &options, NULL));
    EXPECT_STATS(w, free_empty_bytes, 0);
}

KIT_TEST(pool_sleep, the_history_tells_of_each_chunk)
{
    void *block = kit_alloc_written(w, MEND_MIB, NULL);
    EXPECT_OK(mend_history_start(w->pool, 64));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    mend_history_event events[16];
    uint64_t next = 0;
    size_t count = 0;
    ASSERT_TRUE(mend_history_read(w->pool, &next, events, sizeof(events[0]), 16, &count) ==
                MEND_OK);
    static const mend_event_kind expected[] = {MEND_EVENT_HOST_WAIT, MEND_EVENT_SLEEP,
                                               MEND_EVENT_RELEASE, MEND_EVENT_CREATE,
                                               MEND_EVENT_WAKE};
    ASSERT_TRUE(count == sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < count; i++) {
        EXPECT_INT_EQ((int)expected[i], events[i].kind);
    }
    EXPECT_PTR_EQ(block, events[1].address);
    EXPECT_U64_EQ(MEND_MIB, events[4].size_bytes);
    kit_release(w, block, MEND_MIB, NULL);
}

KIT_RIG_TEST(pool_sleep, a_pool_is_destroyed_while_it_sleeps, sleep_rig, sleep_rig_open(r),
             kit_close(&r->w))
{
    const mend_sleep_rule rules[] = {{1, MEND_KEEP_HOST}, {2, MEND_KEEP_FILE}};
    EXPECT_OK(mend_sleep(w->pool,
                         KIT_OPTIONS(mend_sleep_options, .rules = rules, .rule_count = 2,
                                     .directory = sleep_rig_directory()),
                         NULL));
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, host_allocations, 0, reservations, 0);
    EXPECT_OK(mend_world_create_pool(w, &w->pool));
}

static void let_copies_take_time(mend_world *w)
{
    w->sim_config.copy_ns = 1000;
}

/* No buffer is read to, written from or freed while a copy still uses it; and every byte is there
 * when the call returns. */
MEND_TEST(pool_sleep, copies_that_take_time_are_waited_for)
{
    const uint64_t size = 20 * MEND_MIB + 512; /* three parts of a buffer */
    static const int keeps[] = {MEND_KEEP_FILE, MEND_KEEP_HOST};
    for (size_t i = 0; i < sizeof(keeps) / sizeof(keeps[0]); i++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, let_copies_take_time));
        void *block = kit_alloc_written(&w, size, NULL);
        mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
        options.others = keeps[i];
        options.directory = sleep_rig_directory();
        EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, &options, NULL));
        EXPECT_U64_EQ(0, mend_world_ledger(&w).pending_work);
        EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
        EXPECT_U64_EQ(0, mend_world_ledger(&w).pending_work);
        kit_release(&w, block, size, NULL);
        kit_close(&w);
    }
}
