/* Graphs that were captured before a sleep are launched after the wake. */
#include "tests/unit/sleep/sleep_rig.h"

static const uint64_t size_bytes = 3 * MEND_MIB;

/* What was kept of the block goes with it, though a graph may need the memory around it; the rest
 * goes with the graph. */
KIT_TEST(pool_sleep_graphs, contents_go_with_the_last_block_and_the_rest_with_the_group)
{
    mend_group *group = kit_begin_captured_group(w, S(0));
    kit_leave_in_flight(w, size_bytes, S(0), 10, S(0));
    void *held = kit_alloc(w, size_bytes - MEND_MIB, S(0));
    mend_sim_graph *graph = kit_end_captured_group(w, S(0), group);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_TRUE(mend_world_stats(w).kept_host_bytes > 0);
    kit_free(w, held, S(0));
    EXPECT_STATS(w, kept_host_bytes, 0);
    EXPECT_LEDGER(w, host_allocations, 0);
    EXPECT_TRUE(mend_world_stats(w).asleep_bytes > 0);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_launch_graph(w, graph, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(mend_group_release(group, S(0)));
    EXPECT_STATS(w, asleep_bytes, 0);
}

KIT_TEST(pool_sleep_graphs, a_capture_outside_of_groups_keeps_its_memory_too)
{
    kit_begin_capture(w, S(0));
    kit_leave_in_flight(w, size_bytes, S(0), 10, S(0));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_STATS(w, reserved_bytes, 0);
    EXPECT_TRUE(mend_world_stats(w).asleep_bytes >= size_bytes);
    const uint64_t any = 77; /* it wakes with each call */
    EXPECT_OK(mend_wake(w->pool, &any, 1, NULL));
    kit_launch_graph(w, graph, S(1));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    mend_sim_graph_destroy(w->sim, graph); /* nobody needs the memory any more */
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_STATS(w, asleep_bytes, 0);
}

KIT_TEST(pool_sleep_graphs, a_sleep_of_a_tag_leaves_it)
{
    kit_begin_capture(w, S(0));
    kit_leave_in_flight(w, size_bytes, S(0), 10, S(0));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    mend_set_sleep_tag(5);
    void *block = kit_alloc_written(w, size_bytes, S(0));
    mend_set_sleep_tag(0);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(5, MEND_KEEP_HOST, ), NULL));
    EXPECT_TRUE(mend_world_stats(w).reserved_bytes >= size_bytes);
    kit_launch_graph(w, graph, S(1));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, block, size_bytes, S(0));
    mend_sim_graph_destroy(w->sim, graph);
}

SLEEP_TEST(pool_sleep_graphs, a_wake_during_a_capture_does_not_harm_it)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_begin_capture(w, S(1));
    void *used = kit_alloc_used(w, size_bytes, S(1), 10);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_free(w, used, S(1));
    mend_sim_graph *graph = kit_end_capture(w, S(1));
    kit_launch_graph(w, graph, S(1));
    mend_sim_graph_destroy(w->sim, graph);
}

KIT_TEST(pool_sleep_graphs, tags_come_from_the_thread_or_from_the_options)
{
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    void *block = NULL;
    options.tag = 9;
    EXPECT_OK(mend_alloc_with(w->pool, 512, S(0), &options, &block));
    mend_block_info info = kit_info(w, block);
    EXPECT_U64_EQ(9, info.sleep_tag);
    kit_free(w, block, S(0));
    EXPECT_U64_EQ(0, mend_set_sleep_tag(3));
    EXPECT_OK(mend_alloc_with(w->pool, 512, S(0), &options, &block));
    info = kit_info(w, block);
    EXPECT_FIELDS(info, sleep_tag, 3, tag, 9);
    kit_free(w, block, S(0));
    for (int i = 0; i < 2; i++) { /* the second time from the front cache */
        block = kit_alloc(w, 512, S(0));
        info = kit_info(w, block);
        EXPECT_FIELDS(info, sleep_tag, 3, tag, 0);
        kit_free(w, block, S(0));
    }
    EXPECT_U64_EQ(3, mend_set_sleep_tag(0));
    block = kit_alloc(w, 512, S(0));
    info = kit_info(w, block);
    EXPECT_U64_EQ(0, info.sleep_tag);
}
