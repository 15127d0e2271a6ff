/* Moves of live blocks to the host and back: same addresses, same bytes, all memory accounted for.
 */
#include "tests/unit/host/host_rig.h"

static const uint64_t one = 1;
static const uint64_t three = 3;

MEND_TEST(pool_host_move, blocks_go_there_and_come_back)
{
    host_rig r;
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, &one, 1, &report));
    EXPECT_U64_EQ(4 * HOST_BLOCK, report.moved_bytes);
    EXPECT_U64_EQ(4 * HOST_BLOCK, report.copied_bytes);
    EXPECT_U64_EQ(0, report.stayed_bytes);
    EXPECT_INT_EQ(4, host_rig_count_on_host(&r));
    EXPECT_U64_EQ(4 * HOST_BLOCK, mend_world_stats(&r.w).reserved_bytes);
    EXPECT_U64_EQ(4 * HOST_BLOCK, mend_world_stats(&r.w).host_live_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    for (int i = 0; i < HOST_BLOCKS; i++) { /* they are used there, too */
        kit_verify(&r.w, r.w.streams[0], r.blocks[i], HOST_BLOCK);
        kit_write(&r.w, r.w.streams[0], r.blocks[i], HOST_BLOCK);
    }
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, NULL, 0, &report));
    EXPECT_U64_EQ(4 * HOST_BLOCK, report.moved_bytes);
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_chunks);
    EXPECT_U64_EQ(4 * HOST_BLOCK, mend_world_stats(&r.w).moved_to_host_bytes);
    EXPECT_U64_EQ(4 * HOST_BLOCK, mend_world_stats(&r.w).moved_to_device_bytes);
    host_rig_close(&r);
}

MEND_TEST(pool_host_move, what_overflowed_comes_back_when_there_is_room)
{
    host_rig r;
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    host_rig_overflow(&r, 2 * MEND_MIB);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_move_to_device(r.w.pool, &three, 1, &report));
    kit_expect_words("no memory of the device for 2097152 bytes");
    EXPECT_U64_EQ(0, report.moved_bytes);
    EXPECT_TRUE(host_rig_is_on_host(&r, r.there));
    for (int i = 0; i < 2; i++) {
        kit_release(&r.w, r.blocks[5 * i], HOST_BLOCK, r.w.streams[0]);
        r.blocks[5 * i] = NULL;
    }
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, &three, 1, &report));
    EXPECT_U64_EQ(2 * MEND_MIB, report.moved_bytes);
    EXPECT_TRUE(!host_rig_is_on_host(&r, r.there));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_chunks);
    kit_release(&r.w, r.there, 2 * MEND_MIB, r.w.streams[0]);
    r.there = NULL;
    host_rig_close(&r);
}

/* Room that blocks left behind serves others, also in the middle of larger ones. */
MEND_TEST(pool_host_move, the_device_has_room_for_others_meanwhile)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, &one, 1, NULL));
    void *large = kit_alloc_written(&r.w, 4 * HOST_BLOCK, r.w.streams[1]);
    EXPECT_TRUE(!host_rig_is_on_host(&r, large));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_move_to_device(r.w.pool, NULL, 0, NULL));
    EXPECT_INT_EQ(4, host_rig_count_on_host(&r));
    kit_release(&r.w, large, 4 * HOST_BLOCK, r.w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, NULL, 0, NULL));
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    host_rig_close(&r);
}

MEND_TEST(pool_host_move, blocks_that_share_a_chunk_move_together)
{
    host_rig r;
    void *pair[2];
    const uint64_t tags[] = {1, 2};
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    ASSERT_TRUE(host_rig_open(&r));
    for (int i = 0; i < 2; i++) {
        mend_set_sleep_tag(tags[i]);
        pair[i] = kit_alloc_written(&r.w, MEND_MIB / 4, r.w.streams[0]);
    }
    mend_set_sleep_tag(0);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, tags, 1, &report));
    EXPECT_U64_EQ(MEND_MIB / 4, report.shared_bytes);
    EXPECT_U64_EQ(MEND_MIB / 4, report.stayed_bytes);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, tags, 2, &report));
    EXPECT_U64_EQ(MEND_MIB, report.moved_bytes);
    EXPECT_U64_EQ(MEND_MIB / 2, report.copied_bytes);
    EXPECT_TRUE(host_rig_is_on_host(&r, pair[0]) && host_rig_is_on_host(&r, pair[1]));
    kit_release(&r.w, pair[0], MEND_MIB / 4, r.w.streams[0]);
    EXPECT_TRUE(mend_world_check(&r.w));
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, &tags[1], 1, &report));
    EXPECT_U64_EQ(MEND_MIB / 4, report.copied_bytes);
    void *again = kit_alloc_written(&r.w, MEND_MIB / 4, r.w.streams[0]); /* what is free serves */
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(&r.w).reserved_bytes);
    kit_release(&r.w, again, MEND_MIB / 4, r.w.streams[0]);
    kit_release(&r.w, pair[1], MEND_MIB / 4, r.w.streams[0]);
    host_rig_close(&r);
}

MEND_TEST(pool_host_move, a_graph_replays_from_the_host)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    kit_begin_capture(&r.w, r.w.streams[0]);
    kit_write(&r.w, r.w.streams[0], r.blocks[0], HOST_BLOCK);
    mend_sim_graph *graph = kit_end_capture(&r.w, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, NULL, 0, NULL));
    EXPECT_INT_EQ(HOST_BLOCKS, host_rig_count_on_host(&r));
    kit_launch_graph(&r.w, graph, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, NULL, 0, NULL));
    kit_launch_graph(&r.w, graph, r.w.streams[0]);
    mend_sim_graph_destroy(r.w.sim, graph);
    host_rig_close(&r);
}

MEND_TEST(pool_host_move, the_limit_of_the_host_bounds_a_move)
{
    host_rig r;
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    host_rig_overflow(&r, HOST_LIMIT - 2 * HOST_BLOCK);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, &one, 1, &report));
    EXPECT_U64_EQ(2 * HOST_BLOCK, report.moved_bytes);
    EXPECT_U64_EQ(2 * HOST_BLOCK, report.lacking_bytes);
    EXPECT_U64_EQ(HOST_LIMIT, mend_world_stats(&r.w).host_bytes);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_move_to_host(r.w.pool, &one, 1, &report));
    kit_expect_words("no memory of the host for 2097152 bytes");
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, &one, 1, &report));
    EXPECT_U64_EQ(2 * HOST_BLOCK, report.moved_bytes);
    kit_release(&r.w, r.there, HOST_LIMIT - 2 * HOST_BLOCK, r.w.streams[0]);
    r.there = NULL;
    host_rig_close(&r);
}

MEND_TEST(pool_host_move, sleep_and_moves_pass_by_each_other)
{
    host_rig r;
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, &one, 1, NULL));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL)); /* those on the device */
    EXPECT_U64_EQ(4 * HOST_BLOCK, mend_world_stats(&r.w).asleep_live_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).reserved_bytes);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, NULL, 0, &report));
    EXPECT_U64_EQ(0, report.moved_bytes);
    kit_verify(&r.w, r.w.streams[0], r.blocks[0], HOST_BLOCK);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_INT_EQ(4, host_rig_count_on_host(&r));
    host_rig_close(&r);
}

MEND_TEST(pool_host_move, a_hundred_round_trips_leave_nothing)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    mend_sim_ledger before = mend_world_ledger(&r.w);
    for (int i = 0; i < 100; i++) {
        EXPECT_RESULT(MEND_OK,
                      mend_move_to_host(r.w.pool, i % 2 == 0 ? &one : NULL, i % 2 == 0, NULL));
        EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, NULL, 0, NULL));
    }
    mend_sim_ledger after = mend_world_ledger(&r.w);
    EXPECT_U64_EQ(before.chunks, after.chunks);
    EXPECT_U64_EQ(before.handles, after.handles);
    EXPECT_U64_EQ(before.mappings, after.mappings);
    EXPECT_U64_EQ(before.address_bytes, after.address_bytes);
    EXPECT_U64_EQ(0, after.host_chunks);
    host_rig_close(&r);
}

MEND_TEST(pool_host_move, the_limit_of_the_device_holds)
{
    host_rig r;
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    EXPECT_RESULT(MEND_OK, mend_move_to_host(r.w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 3 * HOST_BLOCK));
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, NULL, 0, &report));
    EXPECT_U64_EQ(3 * HOST_BLOCK, report.moved_bytes);
    EXPECT_U64_EQ(5 * HOST_BLOCK, report.lacking_bytes);
    EXPECT_U64_EQ(3 * HOST_BLOCK, mend_world_stats(&r.w).reserved_bytes);
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 0));
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, NULL, 0, NULL));
    host_rig_close(&r);
}

/* What stays free for others, and what processes share, is memory of the device. */
MEND_TEST(pool_host_move, limits_of_the_device_do_not_count_the_host)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open_with(&r, NULL, 2 * HOST_BLOCK));
    void *most = kit_alloc_written(&r.w, HOST_DEVICE - 2 * HOST_BLOCK, r.w.streams[0]);
    kit_expect_none(&r.w, HOST_BLOCK, r.w.streams[0], "");
    host_rig_overflow(&r, HOST_BLOCK);
    EXPECT_TRUE(host_rig_is_on_host(&r, r.there));
    kit_release(&r.w, most, HOST_DEVICE - 2 * HOST_BLOCK, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, NULL, 0, NULL));
    kit_release(&r.w, r.there, HOST_BLOCK, r.w.streams[0]);
    r.there = NULL;
    host_rig_close(&r);
}
