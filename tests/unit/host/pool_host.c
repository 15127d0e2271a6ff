/* Blocks that find no memory of the device, and get the host's, because the program lets them. */
#include "tests/unit/host/host_rig.h"

MEND_TEST(pool_host, a_block_goes_to_the_host_when_the_device_is_full)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    kit_expect_none(&r.w, 3 * MEND_MIB, r.w.streams[0], "");
    host_rig_overflow(&r, 3 * MEND_MIB);
    EXPECT_TRUE(host_rig_is_on_host(&r, r.there));
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    mend_stats stats = mend_world_stats(&r.w);
    EXPECT_U64_EQ(1, stats.placed_on_host);
    EXPECT_U64_EQ(3 * MEND_MIB, stats.host_bytes);
    EXPECT_U64_EQ(3 * MEND_MIB, stats.host_live_bytes);
    EXPECT_U64_EQ(HOST_DEVICE, stats.reserved_bytes);
    EXPECT_U64_EQ(HOST_DEVICE + 3 * MEND_MIB, stats.live_bytes);
    EXPECT_U64_EQ(3 * MEND_MIB, mend_world_ledger(&r.w).host_chunk_bytes);
    kit_release(&r.w, r.there, 3 * MEND_MIB, r.w.streams[0]);
    r.there = NULL;
    host_rig_close(&r);
}

MEND_TEST(pool_host, memory_of_the_device_comes_first)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    mend_set_host_allowed(1);
    host_rig_fill(&r);
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    void *freed = r.blocks[3];
    mend_sim_advance(r.w.sim, 1000000);
    kit_verify_until(&r.w, r.w.streams[1], freed, HOST_BLOCK, 3000000);
    EXPECT_RESULT(MEND_OK, mend_record_stream(r.w.pool, freed, r.w.streams[1]));
    kit_free(&r.w, freed, r.w.streams[0]);
    r.blocks[3] =
        kit_alloc_written(&r.w, HOST_BLOCK, r.w.streams[2]); /* the host, or a stream, waits */
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).placed_on_host);
    mend_set_host_allowed(0);
    mend_sim_advance(r.w.sim, 5000000);
    host_rig_close(&r);
}

MEND_TEST(pool_host, each_block_has_memory_of_its_own)
{
    host_rig r;
    void *small[4];
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    mend_set_host_allowed(1);
    for (int i = 0; i < 4; i++) {
        small[i] = kit_alloc_written(&r.w, 512, r.w.streams[0]);
        EXPECT_TRUE(host_rig_is_on_host(&r, small[i]));
    }
    mend_set_host_allowed(0);
    EXPECT_U64_EQ(4 * r.w.info.granularity_bytes, mend_world_stats(&r.w).host_bytes);
    kit_expect_none(&r.w, 512, r.w.streams[0], ""); /* what is free there serves nobody else */
    kit_release(&r.w, small[1], 512, r.w.streams[0]);
    mend_sim_advance(r.w.sim, 1000000);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL));
    EXPECT_U64_EQ(3 * r.w.info.granularity_bytes, mend_world_stats(&r.w).host_bytes);
    for (int i = 0; i < 4; i++) {
        if (i != 1) {
            kit_release(&r.w, small[i], 512, r.w.streams[0]);
        }
    }
    host_rig_close(&r);
}

/* Until the GPU has passed the free the memory is not given back. */
MEND_TEST(pool_host, memory_stays_while_the_gpu_uses_it)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    host_rig_overflow(&r, MEND_MIB);
    kit_use(&r.w, r.w.streams[0], r.there, MEND_MIB, 5000000);
    kit_free(&r.w, r.there, r.w.streams[0]);
    r.there = NULL;
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(&r.w).host_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).host_live_bytes);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL));
    EXPECT_U64_EQ(MEND_MIB, mend_world_ledger(&r.w).host_chunk_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    mend_sim_advance(r.w.sim, 10000000);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_chunk_bytes);
    host_rig_close(&r);
}

MEND_TEST(pool_host, the_limit_of_the_host_holds)
{
    host_rig r;
    void *there[2];
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    mend_set_host_allowed(1);
    there[0] = kit_alloc_written(&r.w, HOST_LIMIT - 2 * MEND_MIB, r.w.streams[0]);
    kit_expect_none(&r.w, 3 * MEND_MIB, r.w.streams[0], "");
    there[1] = kit_alloc_written(&r.w, 2 * MEND_MIB, r.w.streams[0]);
    EXPECT_U64_EQ(HOST_LIMIT, mend_world_stats(&r.w).host_bytes);
    kit_expect_none(&r.w, 512, r.w.streams[0], "");
    kit_release(&r.w, there[1], 2 * MEND_MIB, r.w.streams[0]);
    mend_sim_advance(r.w.sim, 1000000);
    there[1] = kit_alloc_written(&r.w, 2 * MEND_MIB, r.w.streams[0]); /* it was given back */
    mend_set_host_allowed(0);
    kit_release(&r.w, there[0], HOST_LIMIT - 2 * MEND_MIB, r.w.streams[0]);
    kit_release(&r.w, there[1], 2 * MEND_MIB, r.w.streams[0]);
    host_rig_close(&r);
}

MEND_TEST(pool_host, other_streams_use_the_block)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    host_rig_overflow(&r, MEND_MIB);
    mend_sim_advance(r.w.sim, 1000000);
    kit_verify_until(&r.w, r.w.streams[1], r.there, MEND_MIB, 9000000);
    EXPECT_RESULT(MEND_OK, mend_record_stream(r.w.pool, r.there, r.w.streams[1]));
    kit_free(&r.w, r.there, r.w.streams[0]);
    r.there = NULL;
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL));
    EXPECT_U64_EQ(MEND_MIB, mend_world_ledger(&r.w).host_chunk_bytes);
    mend_sim_advance(r.w.sim, 10000000);
    host_rig_close(&r);
}

MEND_TEST(pool_host, a_pinned_block_is_in_place)
{
    host_rig r;
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    host_rig_overflow(&r, MEND_MIB);
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, r.there, MEND_MIB));
    kit_release(&r.w, r.blocks[0], HOST_BLOCK, r.w.streams[0]);
    r.blocks[0] = NULL;
    EXPECT_RESULT(MEND_OK, mend_move_to_device(r.w.pool, NULL, 0, &report));
    EXPECT_U64_EQ(MEND_MIB, report.pinned_bytes);
    EXPECT_U64_EQ(0, report.moved_bytes);
    EXPECT_TRUE(host_rig_is_on_host(&r, r.there));
    kit_release(&r.w, r.there, MEND_MIB, r.w.streams[0]);
    mend_sim_advance(r.w.sim, 1000000);
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL));
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(&r.w).host_bytes); /* the pin outlives the block */
    EXPECT_TRUE(mend_world_check(&r.w));
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, r.there, MEND_MIB));
    r.there = NULL;
    kit_expect_none(&r.w, HOST_DEVICE, r.w.streams[0], ""); /* a search ends what is left */
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).host_bytes);
    host_rig_close(&r);
}

MEND_TEST(pool_host, the_pool_ends_with_blocks_there)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    host_rig_overflow(&r, MEND_MIB);
    mend_sim_advance(r.w.sim, 1000000);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(r.w.pool));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).host_chunks);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.w).mappings);
    EXPECT_STR_EQ("", mend_sim_first_violation(r.w.sim));
    mend_sim_destroy(r.w.sim);
}

MEND_TEST(pool_host, groups_and_captures_stay_on_the_device)
{
    host_rig r;
    void *pointer = NULL;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    mend_set_host_allowed(1);
    mend_group *group = kit_begin_group(&r.w, r.w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(r.w.pool, MEND_MIB, r.w.streams[0], &pointer));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, r.w.streams[0]));
    kit_begin_capture(&r.w, r.w.streams[1]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(r.w.pool, MEND_MIB, r.w.streams[1], &pointer));
    mend_sim_graph_destroy(r.w.sim, kit_end_capture(&r.w, r.w.streams[1]));
    mend_set_host_allowed(0);
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).placed_on_host);
    host_rig_close(&r);
}

/* A graph that used the block may run again: the memory stays with it. */
MEND_TEST(pool_host, a_graph_keeps_what_it_uses)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    host_rig_overflow(&r, MEND_MIB);
    mend_sim_advance(r.w.sim, 1000000);
    kit_begin_capture(&r.w, r.w.streams[0]);
    kit_write(&r.w, r.w.streams[0], r.there, MEND_MIB);
    kit_free(&r.w, r.there, r.w.streams[0]);
    r.there = NULL;
    mend_sim_graph *graph = kit_end_capture(&r.w, r.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_trim_wait(r.w.pool, UINT64_MAX, NULL));
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(&r.w).host_bytes);
    kit_launch_graph(&r.w, graph, r.w.streams[0]);
    mend_sim_advance(r.w.sim, 1000000);
    EXPECT_TRUE(mend_world_check(&r.w));
    mend_sim_graph_destroy(r.w.sim, graph);
    host_rig_close(&r);
}

/* What is freed without a stream is idle after a wait for the context. */
MEND_TEST(pool_host, a_wait_brings_memory_back_that_was_freed_without_a_stream)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    for (int i = 0; i < 2; i++) {
        host_rig_overflow(&r, HOST_LIMIT); /* the second one waits for the first one */
        EXPECT_TRUE(host_rig_is_on_host(&r, r.there));
        kit_free(&r.w, r.there, MEND_NO_STREAM);
        r.there = NULL;
    }
    EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, NULL));
    EXPECT_U64_EQ(HOST_LIMIT, mend_world_stats(&r.w).host_bytes);
    EXPECT_RESULT(MEND_OK, mend_trim_wait(r.w.pool, UINT64_MAX, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).host_bytes);
    host_rig_close(&r);
}
