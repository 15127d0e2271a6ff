/* Graphs that were captured before a sleep are launched after the wake. */
#include "tests/unit/sleep/sleep_rig.h"

static const uint64_t size_bytes = 3 * MEND_MIB;

/* A graph of a group whose block the capture allocates and frees: the memory is kept for it. */
MEND_TEST(pool_sleep_graphs, memory_kept_for_a_group_sleeps_and_wakes)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *used = kit_alloc(&w, size_bytes, w.streams[0]);
    kit_use(&w, w.streams[0], used, size_bytes, 10);
    kit_free(&w, used, w.streams[0]);
    void *held = kit_alloc(&w, size_bytes, w.streams[0]);
    kit_use(&w, w.streams[0], held, size_bytes, 10);
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    kit_launch_graph(&w, graph, w.streams[0]);
    void *plain = kit_alloc_written(&w, size_bytes, w.streams[1]);
    uint64_t reserved = mend_world_stats(&w).reserved_bytes;
    for (int i = 0; i < 3; i++) {
        EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
        EXPECT_U64_EQ(0, mend_world_stats(&w).reserved_bytes);
        EXPECT_TRUE(mend_world_check(&w));
        EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
        EXPECT_TRUE(mend_world_check(&w));
        kit_launch_graph(&w, graph, w.streams[0]);
    }
    EXPECT_TRUE(mend_world_stats(&w).reserved_bytes <= reserved);
    kit_release(&w, plain, size_bytes, w.streams[1]);
    mend_sim_graph_destroy(w.sim, graph);
    kit_free(&w, held, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[0]));
    kit_close(&w);
}

/* What was kept of the block goes with it, though a graph may need the memory around it; the rest
 * goes with the graph. */
MEND_TEST(pool_sleep_graphs, contents_go_with_the_last_block_and_the_rest_with_the_group)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *used = kit_alloc(&w, size_bytes, w.streams[0]);
    kit_use(&w, w.streams[0], used, size_bytes, 10);
    kit_free(&w, used, w.streams[0]);
    void *held = kit_alloc(&w, size_bytes - MEND_MIB, w.streams[0]);
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    EXPECT_TRUE(mend_world_stats(&w).kept_host_bytes > 0);
    kit_free(&w, held, w.streams[0]);
    EXPECT_U64_EQ(0, mend_world_stats(&w).kept_host_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&w).host_allocations);
    EXPECT_TRUE(mend_world_stats(&w).asleep_bytes > 0);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    kit_launch_graph(&w, graph, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    mend_sim_graph_destroy(w.sim, graph);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[0]));
    EXPECT_U64_EQ(0, mend_world_stats(&w).asleep_bytes);
    kit_close(&w);
}

MEND_TEST(pool_sleep_graphs, a_capture_outside_of_groups_keeps_its_memory_too)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    kit_begin_capture(&w, w.streams[0]);
    void *used = kit_alloc(&w, size_bytes, w.streams[0]);
    kit_use(&w, w.streams[0], used, size_bytes, 10);
    kit_free(&w, used, w.streams[0]);
    mend_sim_graph *graph = kit_end_capture(&w, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).reserved_bytes);
    EXPECT_TRUE(mend_world_stats(&w).asleep_bytes >= size_bytes);
    const uint64_t any = 77; /* it wakes with each call */
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, &any, 1, NULL));
    kit_launch_graph(&w, graph, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    mend_sim_graph_destroy(w.sim, graph); /* nobody needs the memory any more */
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).asleep_bytes);
    kit_close(&w);
}

/* If a tag stays awake, so does the memory that is kept for graphs. */
MEND_TEST(pool_sleep_graphs, a_sleep_of_a_tag_leaves_it)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    kit_begin_capture(&w, w.streams[0]);
    void *used = kit_alloc(&w, size_bytes, w.streams[0]);
    kit_use(&w, w.streams[0], used, size_bytes, 10);
    kit_free(&w, used, w.streams[0]);
    mend_sim_graph *graph = kit_end_capture(&w, w.streams[0]);
    mend_set_sleep_tag(5);
    void *block = kit_alloc_written(&w, size_bytes, w.streams[0]);
    mend_set_sleep_tag(0);
    const mend_sleep_rule rule = {5, MEND_KEEP_HOST};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.rules = &rule;
    options.rule_count = 1;
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, &options, NULL));
    EXPECT_TRUE(mend_world_stats(&w).reserved_bytes >= size_bytes);
    kit_launch_graph(&w, graph, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    kit_release(&w, block, size_bytes, w.streams[0]);
    mend_sim_graph_destroy(w.sim, graph);
    kit_close(&w);
}

MEND_TEST(pool_sleep_graphs, a_wake_during_a_capture_does_not_harm_it)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    kit_begin_capture(&r.w, r.w.streams[1]);
    void *used = kit_alloc(&r.w, size_bytes, r.w.streams[1]);
    kit_use(&r.w, r.w.streams[1], used, size_bytes, 10);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    kit_free(&r.w, used, r.w.streams[1]);
    mend_sim_graph *graph = kit_end_capture(&r.w, r.w.streams[1]);
    kit_launch_graph(&r.w, graph, r.w.streams[1]);
    mend_sim_graph_destroy(r.w.sim, graph);
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_graphs, tags_come_from_the_thread_or_from_the_options)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    void *block = NULL;
    options.tag = 9;
    EXPECT_RESULT(MEND_OK, mend_alloc_with(w.pool, 512, w.streams[0], &options, &block));
    EXPECT_RESULT(MEND_OK, mend_get_block_info(w.pool, block, &info));
    EXPECT_U64_EQ(9, info.sleep_tag);
    kit_free(&w, block, w.streams[0]);
    EXPECT_U64_EQ(0, mend_set_sleep_tag(3));
    EXPECT_RESULT(MEND_OK, mend_alloc_with(w.pool, 512, w.streams[0], &options, &block));
    EXPECT_RESULT(MEND_OK, mend_get_block_info(w.pool, block, &info));
    EXPECT_U64_EQ(3, info.sleep_tag);
    EXPECT_U64_EQ(9, info.tag);
    kit_free(&w, block, w.streams[0]);
    for (int i = 0; i < 2; i++) { /* the second time from the front cache */
        block = kit_alloc(&w, 512, w.streams[0]);
        EXPECT_RESULT(MEND_OK, mend_get_block_info(w.pool, block, &info));
        EXPECT_U64_EQ(3, info.sleep_tag);
        EXPECT_U64_EQ(0, info.tag);
        kit_free(&w, block, w.streams[0]);
    }
    EXPECT_U64_EQ(3, mend_set_sleep_tag(0));
    block = kit_alloc(&w, 512, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_get_block_info(w.pool, block, &info));
    EXPECT_U64_EQ(0, info.sleep_tag);
    kit_free(&w, block, w.streams[0]);
    kit_close(&w);
}
