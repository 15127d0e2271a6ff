/* Memory of captured graphs: who may use it, when it moves, and how it comes back. */
#include "tests/support/kit.h"

/* Of a device of 8 MiB, so that two blocks of 5 MiB do not fit. */
static const uint64_t block_bytes = 5 * MEND_MIB;

static void without_stream_waits(mend_world *w)
{
    w->pool_config.allow_stream_waits = -1;
}

/* A group with a graph that uses a block of 5 MiB for a microsecond. */
static mend_sim_graph *capture_block(mend_world *w, mend_stream stream, mend_group **group)
{
    *group = kit_begin_captured_group(w, stream);
    kit_leave_in_flight(w, block_bytes, stream, 1000, stream);
    mend_sim_graph *graph = kit_end_captured_group(w, stream, *group);
    return graph;
}

MEND_TEST(pool_groups, memory_freed_on_a_stream_of_the_group_is_used_again_there)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *first = kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
    void *second = kit_alloc(&w, block_bytes, w.streams[0]);
    EXPECT_PTR_EQ(first, second);
    kit_use(&w, w.streams[0], second, block_bytes, 1000);
    kit_free(&w, second, w.streams[0]);
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    kit_launch_graph(&w, graph, w.streams[1]);
    kit_launch_graph(&w, graph, w.streams[1]);
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    mend_sim_graph_destroy(w.sim, graph);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[1]));
    kit_close(&w);
}

/* Two branches of a graph run beside each other. */
MEND_TEST(pool_groups, another_stream_of_the_group_does_not_get_it)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = kit_begin_group(&w, MEND_EVERY_STREAM);
    kit_begin_capture(&w, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(w.sim, w.streams[1], w.streams[0]));
    void *block = kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
    void *other = kit_alloc(&w, 3 * MEND_MIB, w.streams[1]);
    kit_expect_none(&w, block_bytes, w.streams[1], "Releasing groups");
    kit_use(&w, w.streams[1], other, 3 * MEND_MIB, 10);
    EXPECT_PTR_EQ(block, kit_alloc(&w, block_bytes, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(w.sim, w.streams[0], w.streams[1]));
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    kit_launch_graph(&w, graph, w.streams[2]);
    mend_sim_graph_destroy(w.sim, graph);
    kit_close(&w); /* with the group and its blocks: they end with the pool */
}

MEND_TEST(pool_groups, nobody_else_gets_it)
{
    for (int waits = 0; waits < 2; waits++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, waits ? NULL : without_stream_waits));
        mend_group *group;
        mend_sim_graph *graph = capture_block(&w, w.streams[0], &group);
        mend_stream others[] = {w.streams[0], w.streams[1], NULL, KIT_PER_THREAD};
        for (int i = 0; i < 4; i++) {
            kit_launch_graph(&w, graph, others[i]);
            void *beside = kit_alloc(&w, 3 * MEND_MIB, others[i]);
            kit_expect_none(&w, block_bytes, others[i], "Releasing groups");
            kit_use(&w, others[i], beside, 3 * MEND_MIB, 10);
            kit_free(&w, beside, others[i]);
        }
        mend_group *second = kit_begin_group(&w, w.streams[0]);
        kit_expect_none(&w, block_bytes, w.streams[0], "Releasing groups");
        EXPECT_RESULT(MEND_OK, mend_group_end(second));
        EXPECT_RESULT(MEND_OK, mend_group_release(second, w.streams[0]));
        mend_sim_graph_destroy(w.sim, graph);
        kit_close(&w);
    }
}

/* The memory a stream freed outside is its own at once, but a graph may run elsewhere. */
MEND_TEST(pool_groups, what_a_stream_freed_outside_is_not_ready_inside)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    const uint64_t size = 3 * MEND_MIB; /* too little for a fence at its free */
    kit_alloc(&w, 5 * MEND_MIB, w.streams[1]);
    void *block = kit_leave_in_flight(&w, size, w.streams[0], 1000, w.streams[0]);
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    kit_expect_none(&w, size, w.streams[0], "Ending the capture");
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
    EXPECT_PTR_EQ(block, kit_alloc(&w, size, w.streams[0]));
    kit_expect_waits(&w, 0, 1);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    kit_close(&w);
}

static void live_at_the_end_is_freed_on(mend_stream (*freed_on)(const mend_world *))
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    kit_alloc(&w, 3 * MEND_MIB, w.streams[1]);
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 1000);
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    kit_launch_graph(&w, graph, w.streams[1]);
    kit_free(&w, block, freed_on(&w));
    kit_launch_graph(&w, graph, w.streams[1]);
    kit_expect_none(&w, block_bytes, w.streams[2], "Releasing groups");
    kit_expect_none(&w, block_bytes, w.streams[0], "Releasing groups");
    kit_launch_graph(&w, graph, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[1]));
    kit_alloc_used(&w, block_bytes, w.streams[2], 10);
    mend_sim_graph_destroy(w.sim, graph);
    kit_close(&w);
}

static mend_stream an_eager_stream(const mend_world *w)
{
    return w->streams[2];
}

static mend_stream its_own_stream(const mend_world *w)
{
    return w->streams[0];
}

static mend_stream no_stream(const mend_world *w)
{
    (void)w;
    return MEND_NO_STREAM;
}

MEND_TEST(pool_groups, a_block_freed_after_the_capture_stays_with_the_group)
{
    live_at_the_end_is_freed_on(an_eager_stream);
    live_at_the_end_is_freed_on(its_own_stream);
    live_at_the_end_is_freed_on(no_stream);
}

/* Freed only after the group's end, a block still waits for the launches before it. */
MEND_TEST(pool_groups, a_block_that_outlives_its_group_waits_for_the_launches)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 1000);
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    kit_launch_graph(&w, graph, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[1]));
    EXPECT_U64_EQ(0, mend_world_stats(&w).groups);
    kit_free(&w, block, w.streams[2]);
    kit_alloc_used(&w, block_bytes, w.streams[2], 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    mend_sim_graph_destroy(w.sim, graph);
    kit_close(&w);
}

/* The graph goes on using the old addresses of chunks that moved inside its group. */
MEND_TEST(pool_groups, old_mappings_stay_until_the_release)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = kit_begin_captured_group(&w, w.streams[0]);
    kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
    void *large = kit_alloc_aligned(&w, 8 * MEND_MIB, MEND_GIB, w.streams[0]);
    kit_use(&w, w.streams[0], large, 8 * MEND_MIB, 1000);
    kit_free(&w, large, w.streams[0]);
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    EXPECT_TRUE(mend_world_stats(&w).retired_bytes >= block_bytes);
    for (int i = 0; i < 3; i++) {
        kit_launch_graph(&w, graph, w.streams[i]);
        EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
        kit_expect_none(&w, MEND_MIB, w.streams[1], "Releasing groups");
        EXPECT_TRUE(mend_world_stats(&w).retired_bytes >= block_bytes);
        mend_sim_advance(w.sim, 10000);
    }
    kit_launch_graph(&w, graph, w.streams[2]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[2]));
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_TRUE(mend_world_stats(&w).retired_bytes >= block_bytes);
    mend_sim_advance(w.sim, 10000);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).retired_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&w).chunk_bytes);
    mend_sim_graph_destroy(w.sim, graph);
    kit_close(&w);
}

MEND_TEST(pool_groups, released_memory_waits_for_the_launches_before)
{
    for (int waits = 0; waits < 2; waits++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, waits ? NULL : without_stream_waits));
        mend_group *group;
        mend_sim_graph *graph = capture_block(&w, w.streams[0], &group);
        kit_launch_graph(&w, graph, w.streams[1]);
        EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[1]));
        EXPECT_U64_EQ(0, mend_world_ledger(&w).host_syncs);
        kit_alloc_used(&w, block_bytes, w.streams[0], 10);
        mend_stats stats = mend_world_stats(&w);
        EXPECT_U64_EQ(waits ? 1 : 0, stats.stream_waits);
        EXPECT_U64_EQ(waits ? 0 : 1, stats.host_waits);
        mend_sim_graph_destroy(w.sim, graph);
        kit_close(&w);
    }
}

MEND_TEST(pool_groups, released_without_a_stream_it_waits_for_the_context)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group;
    mend_sim_graph *graph = capture_block(&w, w.streams[0], &group);
    kit_launch_graph(&w, graph, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, MEND_NO_STREAM));
    EXPECT_U64_EQ(0, mend_world_ledger(&w).host_syncs);
    kit_alloc_used(&w, block_bytes, w.streams[0], 10);
    EXPECT_U64_EQ(1, mend_world_ledger(&w).host_syncs);
    mend_sim_graph_destroy(w.sim, graph);
    kit_close(&w);
}

/* The only stream the pool knows is that of the group, whose memory lies before all that is idle.
 */
MEND_TEST(pool_groups, idle_memory_behind_that_of_a_group_is_for_everybody)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 256 * MEND_KIB, NULL));
    mend_group *group = kit_begin_group(&w, w.streams[0]);
    kit_free(&w, kit_alloc(&w, 8192, w.streams[0]), w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    for (int i = 0; i < 31; i++) {
        kit_alloc_used(&w, 8192, w.streams[i % 2], 10);
    }
    kit_expect_none(&w, 512, w.streams[0], "");
    kit_close(&w);
}

/* More free runs of the group than a request looks at, each of the size it asks for. */
MEND_TEST(pool_groups, many_holes_of_a_group_do_not_hide_what_is_idle)
{
    enum { HOLES = 40 };
    mend_world w;
    void *holes[HOLES];
    ASSERT_TRUE(kit_open_with(&w, 256 * MEND_KIB, NULL));
    mend_group *group = kit_begin_group(&w, w.streams[0]);
    for (int i = 0; i < HOLES; i++) {
        holes[i] = kit_alloc(&w, 4096, w.streams[0]);
        kit_alloc(&w, 512, w.streams[1]);
    }
    for (int i = 0; i < HOLES; i++) {
        kit_free(&w, holes[i], w.streams[0]);
    }
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_TRUE(kit_alloc(&w, 4096, w.streams[1]) != NULL);
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    kit_close(&w);
}

/* Eager work under pressure, beside the launches of graphs that share a group. */
static void eager_work_beside_launches(uint64_t seed, bool waits)
{
    enum { GRAPHS = 3, STEPS = 400, SLOTS = 12 };
    mend_world w;
    mend_test_random random;
    mend_sim_graph *graphs[GRAPHS];
    void *blocks[SLOTS] = {NULL};
    mend_test_random_init(&random, seed);
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, waits ? NULL : without_stream_waits));
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(w.pool, &group));
    for (int g = 0; g < GRAPHS; g++) {
        mend_stream stream = w.streams[g];
        EXPECT_RESULT(MEND_OK, mend_group_begin(group, stream));
        kit_begin_capture(&w, stream);
        for (int i = 0; i < 6; i++) {
            uint64_t size = (1 + mend_test_random_below(&random, 24)) * 64 * MEND_KIB;
            kit_leave_in_flight(&w, size, stream, 100, stream);
        }
        graphs[g] = kit_end_captured_group(&w, stream, group);
    }
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        mend_stream stream = w.streams[mend_test_random_below(&random, MEND_WORLD_STREAMS)];
        void **slot = &blocks[mend_test_random_below(&random, SLOTS)];
        uint64_t size = (1 + mend_test_random_below(&random, 64)) * 64 * MEND_KIB;
        mend_result result = MEND_OK;
        if (*slot == NULL) {
            result = mend_alloc(w.pool, size, stream, slot);
        }
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
        if (*slot != NULL) {
            mend_block_info info = MEND_BLOCK_INFO_INIT;
            EXPECT_RESULT(MEND_OK, mend_get_block_info(w.pool, *slot, &info));
            kit_use(&w, info.stream, *slot, info.usable_bytes, 50);
            if (mend_test_random_below(&random, 2) == 0) {
                kit_free(&w, *slot, info.stream);
                *slot = NULL;
            }
        }
        if (mend_test_random_below(&random, 4) == 0) { /* in the order of captures: one stream */
            for (int g = 0; g < GRAPHS; g++) {
                kit_launch_graph(&w, graphs[g], w.streams[2]);
            }
        }
        mend_sim_advance(w.sim, mend_test_random_below(&random, 400));
        mend_world_check(&w);
    }
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[2]));
    for (int i = 0; i < SLOTS; i++) {
        kit_free(&w, blocks[i], MEND_NO_STREAM);
    }
    kit_alloc_used(&w, 16 * MEND_MIB, w.streams[0], 10);
    for (int g = 0; g < GRAPHS; g++) {
        mend_sim_graph_destroy(w.sim, graphs[g]);
    }
    kit_close(&w);
}

MEND_TEST(pool_groups, eager_work_under_pressure_never_meets_that_of_graphs)
{
    uint64_t seed = mend_test_seed();
    eager_work_beside_launches(seed, true);
    eager_work_beside_launches(seed + 1, false);
}
