/* Sleep and wake: memory goes back to the device, addresses stay, and every byte is what it was. */
#include "tests/unit/sleep/sleep_rig.h"

#include <stdlib.h>

#include "tests/support/files.h"
#include "tests/support/regions.h"

MEND_TEST(pool_sleep, memory_goes_back_and_every_byte_comes_back)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    mend_stats before = mend_world_stats(&r.w);
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, &report));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).chunk_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).mappings);
    mend_stats asleep = mend_world_stats(&r.w);
    EXPECT_U64_EQ(0, asleep.reserved_bytes);
    EXPECT_U64_EQ(0, asleep.free_bytes);
    EXPECT_U64_EQ(before.live_bytes, asleep.live_bytes);
    EXPECT_U64_EQ(before.live_bytes, asleep.asleep_live_bytes);
    EXPECT_U64_EQ(report.asleep_bytes, asleep.asleep_bytes);
    EXPECT_U64_EQ(before.reserved_bytes, report.released_bytes);
    EXPECT_U64_EQ(before.live_bytes, report.host_bytes);
    EXPECT_U64_EQ(report.host_bytes, asleep.kept_host_bytes);
    EXPECT_TRUE(mend_world_ledger(&r.w).host_bytes >= report.host_bytes);
    EXPECT_U64_EQ(0, report.stayed_bytes);
    EXPECT_U64_EQ(1, asleep.sleeps);
    EXPECT_TRUE(mend_world_check(&r.w));

    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, &woken));
    EXPECT_U64_EQ(report.asleep_bytes, woken.woken_bytes);
    EXPECT_U64_EQ(report.host_bytes, woken.host_bytes);
    mend_stats after = mend_world_stats(&r.w);
    EXPECT_U64_EQ(1, after.wakes);
    EXPECT_U64_EQ(0, after.asleep_bytes);
    EXPECT_U64_EQ(0, after.kept_host_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_allocations);
    sleep_rig_close(&r); /* verifies each block */
}

MEND_TEST(pool_sleep, a_sleeping_block_is_described_and_its_neighbours_live_on)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    sleep_rig_sleep(&r, 1, MEND_KEEP_HOST);
    EXPECT_TRUE(sleep_rig_sleeps(&r, 0));
    EXPECT_TRUE(!sleep_rig_sleeps(&r, 1));
    for (int i = 1; i < SLEEP_BLOCKS; i += 2) {
        kit_verify(&r.w, r.w.streams[0], r.blocks[i], SLEEP_BLOCK);
    }
    void *more = kit_alloc_written(&r.w, SLEEP_BLOCK, r.w.streams[0]);
    kit_release(&r.w, more, SLEEP_BLOCK, r.w.streams[0]);
    EXPECT_TRUE(mend_world_check(&r.w));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep, each_tag_wakes_by_itself)
{
    sleep_rig r;
    const uint64_t second = 2;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, &second, 1, NULL));
    EXPECT_TRUE(sleep_rig_sleeps(&r, 0));
    EXPECT_TRUE(!sleep_rig_sleeps(&r, 1));
    EXPECT_TRUE(mend_world_check(&r.w));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep, contents_are_kept_in_a_file)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    options.others = MEND_KEEP_FILE;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, &options, &report));
    kit_expect_words("directory");
    options.directory = "/nowhere/at/all";
    EXPECT_RESULT(MEND_ERROR_SYSTEM, mend_sleep(r.w.pool, &options, &report));
    kit_expect_words("/nowhere/at/all");
    EXPECT_TRUE(!sleep_rig_sleeps(&r, 0));
    options.directory = sleep_rig_directory();
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, &options, &report));
    EXPECT_U64_EQ(SLEEP_BLOCKS * SLEEP_BLOCK, report.file_bytes);
    EXPECT_U64_EQ(0, report.host_bytes);
    EXPECT_U64_EQ(report.file_bytes, mend_world_stats(&r.w).kept_file_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_allocations); /* the buffers went */
    EXPECT_TRUE(mend_world_check(&r.w));
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, &woken));
    EXPECT_U64_EQ(report.file_bytes, woken.file_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).kept_file_bytes);
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep, large_blocks_pass_through_the_buffers_part_by_part)
{
    mend_world w;
    const uint64_t size = 20 * MEND_MIB + 512; /* three parts, the last one short */
    ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
    void *block = kit_alloc_written(&w, size, NULL);
    void *another = kit_alloc_written(&w, size, NULL);
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.others = MEND_KEEP_FILE;
    options.directory = sleep_rig_directory();
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, &options, NULL));
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    kit_release(&w, block, size, NULL);
    kit_release(&w, another, size, NULL);
    kit_close(&w);
}

MEND_TEST(pool_sleep, only_blocks_are_copied)
{
    enum { PIECES = 8 };
    const uint64_t size = 128 * MEND_KIB;
    mend_world w;
    void *blocks[PIECES];
    ASSERT_TRUE(kit_open_default(&w));
    for (int i = 0; i < PIECES; i++) {
        blocks[i] = kit_alloc_written(&w, size, w.streams[0]);
    }
    for (int i = 1; i < PIECES; i += 2) { /* gaps that are not copied */
        kit_free(&w, blocks[i], w.streams[0]);
        blocks[i] = NULL;
    }
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, &report));
    EXPECT_U64_EQ(PIECES / 2 * size, report.host_bytes);
    EXPECT_U64_EQ(MEND_MIB, report.asleep_bytes);
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    kit_release_row(&w, blocks, PIECES, size, w.streams[0]);
    kit_close(&w);
}

MEND_TEST(pool_sleep, what_is_dropped_takes_no_memory_of_the_host)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    const mend_sleep_rule rules[] = {{1, MEND_KEEP_HOST}, {2, MEND_KEEP_NOTHING}};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    options.rules = rules;
    options.rule_count = 2;
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, &options, &report));
    EXPECT_U64_EQ(SLEEP_BLOCKS / 2 * SLEEP_BLOCK, report.host_bytes);
    EXPECT_U64_EQ(SLEEP_BLOCKS / 2 * SLEEP_BLOCK, report.dropped_bytes);
    EXPECT_U64_EQ(report.dropped_bytes, mend_world_stats(&r.w).dropped_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).chunk_bytes);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    for (int i = 1; i < SLEEP_BLOCKS; i += 2) { /* undefined now, and usable */
        kit_write(&r.w, NULL, r.blocks[i], SLEEP_BLOCK);
    }
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep, blocks_are_freed_asleep_and_what_was_kept_of_them_goes)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        uint64_t kept = mend_world_stats(&r.w).kept_host_bytes;
        kit_free(&r.w, r.blocks[i], r.w.streams[i % 2]);
        r.blocks[i] = NULL;
        EXPECT_U64_EQ(kept - SLEEP_BLOCK, mend_world_stats(&r.w).kept_host_bytes);
        EXPECT_TRUE(mend_world_check(&r.w));
    }
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_allocations);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).asleep_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).mapped_bytes);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL)); /* nothing sleeps */
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).wakes);
    sleep_rig_close(&r);
}

/* Many small blocks in few chunks, of which every other one is freed asleep. */
MEND_TEST(pool_sleep, parts_of_chunks_are_freed_asleep)
{
    enum { SMALL = 64 };
    mend_world w;
    void *blocks[SMALL];
    ASSERT_TRUE(kit_open_default(&w));
    for (int i = 0; i < SMALL; i++) {
        blocks[i] = kit_alloc_written(&w, 24 * MEND_KIB + 512, w.streams[0]);
    }
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    for (int i = 0; i < SMALL; i += i < SMALL / 2 ? 1 : 2) { /* the first chunks go */
        kit_free(&w, blocks[i], w.streams[1]);
        blocks[i] = NULL;
        EXPECT_TRUE(mend_world_check(&w));
    }
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_check(&w));
    kit_release_row(&w, blocks, SMALL, 24 * MEND_KIB + 512, w.streams[0]);
    kit_close(&w);
}

/* A block over several chunks becomes one claimed part in each. */
MEND_TEST(pool_sleep, a_block_over_many_chunks_is_freed_asleep)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *small[6];
    for (int i = 0; i < 6; i++) {
        small[i] = kit_alloc_written(&w, MEND_MIB, w.streams[0]);
    }
    for (int i = 1; i < 5; i++) {
        kit_free(&w, small[i], w.streams[0]);
    }
    void *large = kit_alloc_written(&w, 4 * MEND_MIB, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    uint64_t chunks = mend_world_stats(&w).asleep_bytes;
    kit_free(&w, large, w.streams[1]);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_U64_EQ(chunks - 4 * MEND_MIB, mend_world_stats(&w).asleep_bytes);
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    kit_release(&w, small[0], MEND_MIB, w.streams[0]);
    kit_release(&w, small[5], MEND_MIB, w.streams[0]);
    kit_close(&w);
}

MEND_TEST(pool_sleep, pages_with_blocks_that_stay_awake_stay_and_the_report_says_so)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_set_sleep_tag(1);
    void *first = kit_alloc_written(&w, 32 * MEND_KIB, w.streams[0]);
    mend_set_sleep_tag(2);
    void *second = kit_alloc_written(&w, 32 * MEND_KIB, w.streams[0]);
    mend_set_sleep_tag(0);
    const mend_sleep_rule rule = {1, MEND_KEEP_HOST};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    options.rules = &rule;
    options.rule_count = 1;
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, &options, &report));
    EXPECT_U64_EQ(32 * MEND_KIB, report.shared_bytes);
    EXPECT_U64_EQ(32 * MEND_KIB, report.stayed_bytes);
    EXPECT_U64_EQ(0, report.asleep_bytes);
    EXPECT_U64_EQ(0, report.copied_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&w).sleeps);
    kit_release(&w, first, 32 * MEND_KIB, w.streams[0]);
    kit_release(&w, second, 32 * MEND_KIB, w.streams[0]);
    kit_close(&w);
}

MEND_TEST(pool_sleep, free_memory_goes_back_unless_it_is_to_stay)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    void *gone = kit_alloc(&r.w, 2 * MEND_MIB, NULL);
    kit_free(&r.w, gone, NULL);
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    const mend_sleep_rule rule = {1, MEND_KEEP_HOST};
    options.rules = &rule;
    options.rule_count = 1;
    options.keep_free = 1;
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, &options, NULL));
    EXPECT_TRUE(mend_world_stats(&r.w).free_empty_bytes >= 2 * MEND_MIB);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    options.keep_free = 0;
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, &options, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).free_empty_bytes);
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep, regions_name_what_sleeps)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    sleep_rig_sleep(&r, 1, MEND_KEEP_HOST);
    size_t count = 0;
    mend_region *regions = mend_regions_of(r.w.pool, &count);
    uint64_t asleep_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        asleep_bytes += regions[i].is_asleep ? regions[i].size_bytes : 0;
        EXPECT_INT_EQ(0, regions[i].is_unmapped);
    }
    EXPECT_U64_EQ(SLEEP_BLOCKS / 2 * SLEEP_BLOCK, asleep_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).unmapped_blocks);
    free(regions);
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep, the_history_tells_of_each_chunk)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *block = kit_alloc_written(&w, MEND_MIB, NULL);
    EXPECT_RESULT(MEND_OK, mend_history_start(w.pool, 64));
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    mend_history_event events[16];
    uint64_t next = 0;
    size_t count = 0;
    ASSERT_TRUE(mend_history_read(w.pool, &next, events, sizeof(events[0]), 16, &count) == MEND_OK);
    static const mend_event_kind expected[] = {MEND_EVENT_HOST_WAIT, MEND_EVENT_SLEEP,
                                               MEND_EVENT_RELEASE, MEND_EVENT_CREATE,
                                               MEND_EVENT_WAKE};
    ASSERT_TRUE(count == sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < count; i++) {
        EXPECT_INT_EQ((int)expected[i], events[i].kind);
    }
    EXPECT_PTR_EQ(block, events[1].address);
    EXPECT_U64_EQ(MEND_MIB, events[4].size_bytes);
    kit_release(&w, block, MEND_MIB, NULL);
    kit_close(&w);
}

MEND_TEST(pool_sleep, a_pool_is_destroyed_while_it_sleeps)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    const mend_sleep_rule rules[] = {{1, MEND_KEEP_HOST}, {2, MEND_KEEP_FILE}};
    options.rules = rules;
    options.rule_count = 2;
    options.directory = sleep_rig_directory();
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, &options, NULL));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(r.w.pool));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_allocations);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).reservations);
    EXPECT_RESULT(MEND_OK, mend_world_create_pool(&r.w, &r.w.pool));
    kit_close(&r.w);
}

MEND_TEST(pool_sleep, a_thousand_cycles_leak_nothing)
{
    enum { CYCLES = 1000 };
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    void *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = kit_alloc_written(&w, 192 * MEND_KIB, w.streams[0]);
    }
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    int files = mend_test_open_files();
    mend_sim_ledger before = mend_world_ledger(&w);
    mend_stats were = mend_world_stats(&w);
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.directory = sleep_rig_directory();
    for (int i = 0; i < CYCLES; i++) {
        options.others = i % 16 == 15 ? MEND_KEEP_FILE : MEND_KEEP_HOST;
        ASSERT_TRUE(mend_sleep(w.pool, &options, NULL) == MEND_OK);
        ASSERT_TRUE(mend_wake(w.pool, NULL, 0, NULL) == MEND_OK);
    }
    mend_sim_ledger after = mend_world_ledger(&w);
    EXPECT_U64_EQ(before.chunk_bytes, after.chunk_bytes);
    EXPECT_U64_EQ(before.handles, after.handles);
    EXPECT_U64_EQ(before.mappings, after.mappings);
    EXPECT_U64_EQ(before.address_bytes, after.address_bytes);
    EXPECT_U64_EQ(before.streams, after.streams);
    EXPECT_U64_EQ(before.events, after.events);
    EXPECT_U64_EQ(0, after.host_bytes);
    EXPECT_TRUE(mend_test_files_are(files));
    EXPECT_U64_EQ(were.reserved_bytes, mend_world_stats(&w).reserved_bytes);
    EXPECT_U64_EQ(CYCLES, mend_world_stats(&w).wakes);
    kit_release_row(&w, blocks, 3, 192 * MEND_KIB, w.streams[0]);
    kit_close(&w);
}
