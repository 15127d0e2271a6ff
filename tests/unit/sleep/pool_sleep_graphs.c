/* Graphs that were captured before a sleep are launched after the wake. */
#include "mend/mend_frameworks.h"
#include "tests/unit/sleep/sleep_rig.h"

static const uint64_t size_bytes = 3 * MEND_MIB;

/* A graph of memory that is free after the capture, which has this sleep tag. */
static mend_sim_graph *capture_with(mend_world *w, uint64_t tag)
{
    KIT_THREAD(.sleep_tag = tag);
    kit_begin_capture(w, S(0));
    kit_leave_in_flight(w, size_bytes, S(0), 10, S(0));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    mend_set_alloc_options(NULL, NULL);
    return graph;
}

/* The backup of the block goes with it, though a graph may need the memory around it. The rest goes
 * with the graph. */
KIT_EACH(pool_sleep_graphs, contents_go_with_the_last_block_and_the_rest_with_the_graph_pool, int,
         in_file, 2, kit_open_default(w))
{
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(0));
    kit_leave_in_flight(w, size_bytes, S(0), 10, S(0));
    void *held = kit_alloc(w, size_bytes - MEND_MIB, S(0));
    mend_sim_graph *graph = kit_end_captured_graph_pool(w, S(0), graph_pool);
    EXPECT_OK(mend_sleep(w->pool, in_file ? SLEEP_IN_FILE : NULL, NULL));
    EXPECT_TRUE(mend_world_stats(w).backup_host_bytes > 0 || in_file);
    kit_free(w, held, S(0));
    EXPECT_STATS(w, backup_host_bytes, 0, backup_file_bytes, 0);
    EXPECT_LEDGER(w, host_allocations, 0);
    EXPECT_TRUE(mend_world_stats(w).asleep_bytes > 0);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_launch_graph(w, graph, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(0)));
    EXPECT_STATS(w, asleep_bytes, 0);
}

KIT_TEST(pool_sleep_graphs, it_sleeps_by_the_tag_of_the_capture)
{
    mend_sim_graph *first = capture_with(w, 5);
    mend_sim_graph *other = capture_with(w, 6);
    void *block = kit_alloc_written(w, size_bytes, S(0));
    const mend_stats before = mend_world_stats(w);
    const struct {
        mend_sleep_rule rule;
        uint64_t later; /* a field of a later version */
    } rules[] = {{{6, MEND_STAY_RESIDENT}, 1}, {{5, MEND_BACKUP_HOST}, 6}};
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool,
                         KIT_OPTIONS(mend_sleep_options, .rules = &rules[0].rule, .rule_count = 2,
                                     .rule_bytes = sizeof(rules[0])),
                         &report));
    EXPECT_FIELDS(report, released_bytes, size_bytes, host_bytes, 0, unmatched_tags, 0,
                  matched_bytes, size_bytes);
    EXPECT_STATS(w, asleep_bytes, size_bytes, reserved_bytes, before.reserved_bytes - size_bytes);
    kit_launch_graph(w, other, S(1));
    mend_sim_graph *second = capture_with(w, 5); /* in other memory, while the first sleeps */
    kit_launch_graph(w, second, S(1));
    const uint64_t tags[] = {6, 5};
    EXPECT_OK(mend_wake(w->pool, tags, 1, NULL));
    EXPECT_STATS(w, asleep_bytes, size_bytes);
    EXPECT_OK(mend_wake(w->pool, tags, 2, NULL));
    EXPECT_STATS(w, asleep_bytes, 0);
    kit_launch_graph(w, first, S(1));
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(5, MEND_DISCARD, ), NULL));
    mend_sim_graph_destroy(w->sim, first); /* and so it ends asleep */
    mend_sim_graph_destroy(w->sim, second);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(7, MEND_DISCARD, .others = MEND_STAY_RESIDENT), NULL));
    EXPECT_STATS(w, asleep_bytes, 0);
    for (int stays = 0; stays < 2; stays++) { /* a graph may use a block that stays */
        EXPECT_OK(mend_sleep(
            w->pool,
            SLEEP_TAG(7, stays ? MEND_STAY_RESIDENT : MEND_BACKUP_HOST, .others = MEND_BACKUP_HOST),
            NULL));
        EXPECT_STATS(w, asleep_bytes, (stays ? 1 : 2) * size_bytes);
        EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    }
    kit_launch_graph(w, other, S(1));
    kit_release(w, block, size_bytes, S(0));
    mend_sim_graph_destroy(w->sim, other);
}

/* In one chunk with memory of a tag, which sleeps by a rule, it wakes with the next wake. */
KIT_TEST(pool_sleep_graphs, memory_without_a_tag_wakes_whatever_lies_beside_it)
{
    mend_sim_graph *graphs[2];
    const uint64_t tags[] = {0, 5}, other = 6;
    for (int i = 0; i < 2; i++) {
        KIT_THREAD(.sleep_tag = tags[i]);
        kit_begin_capture(w, S(0));
        kit_leave_in_flight(w, 128 * MEND_KIB, S(0), 10, S(0));
        graphs[i] = kit_end_capture(w, S(0));
        mend_set_alloc_options(NULL, NULL);
    }
    EXPECT_STATS(w, chunks, 1);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(5, MEND_DISCARD, .graphs = MEND_DISCARD), NULL));
    EXPECT_TRUE(mend_world_stats(w).asleep_bytes > 0);
    EXPECT_OK(mend_wake(w->pool, &other, 1, NULL));
    for (int i = 0; i < 2; i++) {
        kit_launch_graph(w, graphs[i], S(0));
        mend_sim_graph_destroy(w->sim, graphs[i]);
    }
}

KIT_TEST(pool_sleep_graphs, memory_without_a_tag_wakes_no_block)
{
    void *block = kit_alloc(w, 128 * MEND_KIB, S(0));
    kit_begin_capture(w, S(0));
    kit_leave_in_flight(w, 128 * MEND_KIB, S(0), 10, S(0));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, &(uint64_t){6}, 1, NULL));
    EXPECT_STATS(w, asleep_live_bytes, 128 * MEND_KIB);
    kit_free(w, block, S(0));
    mend_sim_graph_destroy(w->sim, graph);
}

/* Free memory of the graph lies in the chunk of the block, which is split between the two. */
KIT_TEST(pool_sleep_graphs, it_stays_awake_beside_blocks_that_sleep)
{
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(0));
    KIT_THREAD(.sleep_tag = 5);
    void *block = kit_alloc(w, 256 * MEND_KIB, S(0));
    mend_set_alloc_options(NULL, NULL);
    kit_leave_in_flight(w, 256 * MEND_KIB, S(0), 10, S(0));
    mend_sim_graph *graph = kit_end_captured_graph_pool(w, S(0), graph_pool);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(5, MEND_BACKUP_HOST, ), NULL));
    EXPECT_TRUE(mend_world_stats(w).asleep_live_bytes > 0);
    kit_launch_graph(w, graph, S(0));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_free(w, block, S(0));
    mend_sim_graph_destroy(w->sim, graph);
}

KIT_TEST(pool_sleep_graphs, free_memory_of_two_tags_stays_apart)
{
    enum { COUNT = 2, BYTES = 32 << 10 };
    EXPECT_OK(mend_set_limit(w->pool, COUNT * BYTES)); /* one chunk */
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(0));
    void *blocks[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        KIT_THREAD(.sleep_tag = 5 + i);
        blocks[i] = kit_alloc(w, BYTES, S(0));
    }
    mend_set_alloc_options(NULL, NULL);
    kit_free_row(w, blocks, COUNT, S(0));
    mend_sim_graph_destroy(w->sim, kit_end_captured_graph_pool(w, S(0), graph_pool));
    mend_sleep_tag_info infos[COUNT + 1];
    size_t count = 0;
    EXPECT_OK(mend_get_sleep_tags(w->pool, infos, sizeof(*infos), COUNT + 1, &count));
    ASSERT_U64_EQ(COUNT, count);
    EXPECT_U64_EQ(BYTES, infos[0].graph_bytes);
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(0)));
}

MEND_TEST(pool_sleep_graphs, a_launch_of_a_sleeping_graph_is_a_violation)
{
    mend_world world;
    mend_world *w = &world;
    mend_world_init(w);
    ASSERT_TRUE(kit_open_default(w));
    mend_sim_graph *graph = capture_with(w, 5);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(5, MEND_DISCARD, ), NULL));
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_sim_graph_launch(w->sim, graph, S(1), 0));
    EXPECT_LEDGER(w, violations, 1);
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
    mend_sim_destroy(w->sim);
}

/* The rest of its chunk, of another tag, sleeps without one. */
KIT_TEST(pool_sleep_graphs, memory_that_sleeps_by_a_rule_wakes_by_its_tag)
{
    const uint64_t tags[] = {5, 6, 7};
    kit_begin_capture(w, S(0));
    for (uint64_t i = 0; i < 2; i++) {
        KIT_THREAD(.sleep_tag = tags[i]);
        kit_leave_in_flight(w, (256 - 128 * i) * MEND_KIB, S(0), 10, S(0));
    }
    mend_set_alloc_options(NULL, NULL);
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    EXPECT_STATS(w, chunks, 1);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(6, MEND_DISCARD, .graphs = MEND_DISCARD), NULL));
    EXPECT_OK(mend_wake(w->pool, &tags[2], 1, NULL));
    EXPECT_TRUE(mend_world_stats(w).asleep_bytes > 0);
    EXPECT_OK(mend_wake(w->pool, &tags[1], 1, NULL));
    kit_launch_graph(w, graph, S(0));
    mend_sim_graph_destroy(w->sim, graph);
}
