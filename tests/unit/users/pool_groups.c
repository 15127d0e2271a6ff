/* Memory of captured graphs: who may use it, when it moves, and how it comes back. */
#include "tests/support/graph_program.h"

#define MIB MEND_MIB

/* Of a device of 8 MiB, so that a block of 5 MiB is in everybody's way. */
static const uint64_t block_bytes = 5 * MIB;

static bool open_small(graph_program *p)
{
    return graph_program_open(p, 8 * MIB, NULL);
}

static void without_stream_waits(mend_pool_config *config)
{
    config->allow_stream_waits = -1;
}

/* A group with a graph that uses a block of 5 MiB for a microsecond. */
static mend_sim_graph *capture_block(graph_program *p, mend_stream stream, mend_group **group)
{
    *group = graph_program_begin_group(p, stream);
    graph_program_begin_capture(p, stream);
    void *block = graph_program_alloc(p, block_bytes, stream);
    graph_program_use(p, stream, block, block_bytes, 1000);
    graph_program_free(p, block, stream);
    mend_sim_graph *graph = graph_program_end_capture(p, stream);
    EXPECT_RESULT(MEND_OK, mend_group_end(*group));
    return graph;
}

MEND_TEST(pool_groups, memory_freed_on_a_stream_of_the_group_is_used_again_there)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    void *first = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], first, block_bytes, 1000);
    graph_program_free(&p, first, p.streams[0]);
    void *second = graph_program_alloc(&p, block_bytes, p.streams[0]);
    EXPECT_PTR_EQ(first, second);
    graph_program_use(&p, p.streams[0], second, block_bytes, 1000);
    graph_program_free(&p, second, p.streams[0]);
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_launch(&p, graph, p.streams[1]);
    graph_program_launch(&p, graph, p.streams[1]);
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).host_waits);
    mend_sim_graph_destroy(p.world.sim, graph);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[1]));
    graph_program_close(&p);
}

/* Two branches of a graph run beside each other. */
MEND_TEST(pool_groups, another_stream_of_the_group_does_not_get_it)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    mend_group *group = graph_program_begin_group(&p, MEND_EVERY_STREAM);
    graph_program_begin_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(p.world.sim, p.streams[1], p.streams[0]));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_free(&p, block, p.streams[0]);
    void *other = graph_program_alloc(&p, 3 * MIB, p.streams[1]);
    graph_program_expect_none(&p, block_bytes, p.streams[1], "Releasing groups");
    graph_program_use(&p, p.streams[1], other, 3 * MIB, 10);
    EXPECT_PTR_EQ(block, graph_program_alloc(&p, block_bytes, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(p.world.sim, p.streams[0], p.streams[1]));
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_launch(&p, graph, p.streams[2]);
    mend_sim_graph_destroy(p.world.sim, graph);
    graph_program_close(&p); /* with the group and its blocks: they end with the pool */
}

MEND_TEST(pool_groups, nobody_else_gets_it)
{
    for (int waits = 0; waits < 2; waits++) {
        graph_program p;
        ASSERT_TRUE(graph_program_open(&p, 8 * MIB, waits ? NULL : without_stream_waits));
        mend_group *group;
        mend_sim_graph *graph = capture_block(&p, p.streams[0], &group);
        mend_stream others[] = {p.streams[0], p.streams[1], NULL, PROGRAM_PER_THREAD};
        for (int i = 0; i < 4; i++) {
            graph_program_launch(&p, graph, others[i]);
            void *beside = graph_program_alloc(&p, 3 * MIB, others[i]);
            graph_program_expect_none(&p, block_bytes, others[i], "Releasing groups");
            graph_program_use(&p, others[i], beside, 3 * MIB, 10);
            graph_program_free(&p, beside, others[i]);
        }
        mend_group *second = graph_program_begin_group(&p, p.streams[0]);
        graph_program_expect_none(&p, block_bytes, p.streams[0], "Releasing groups");
        EXPECT_RESULT(MEND_OK, mend_group_end(second));
        EXPECT_RESULT(MEND_OK, mend_group_release(second, p.streams[0]));
        mend_sim_graph_destroy(p.world.sim, graph);
        graph_program_close(&p);
    }
}

/* The memory a stream freed outside is its own at once, but a graph may run elsewhere. */
MEND_TEST(pool_groups, what_a_stream_freed_outside_is_not_ready_inside)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    const uint64_t size = 3 * MIB; /* too little for a fence at its free */
    graph_program_alloc(&p, 5 * MIB, p.streams[1]);
    void *block = graph_program_alloc(&p, size, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, size, 1000);
    graph_program_free(&p, block, p.streams[0]);
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_expect_none(&p, size, p.streams[0], "Ending the capture");
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    EXPECT_PTR_EQ(block, graph_program_alloc(&p, size, p.streams[0]));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).stream_waits);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).host_waits);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_close(&p);
}

static void live_at_the_end_is_freed_on(mend_stream (*freed_on)(const graph_program *))
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    graph_program_alloc(&p, 3 * MIB, p.streams[1]);
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_launch(&p, graph, p.streams[1]);
    graph_program_free(&p, block, freed_on(&p));
    graph_program_launch(&p, graph, p.streams[1]);
    graph_program_expect_none(&p, block_bytes, p.streams[2], "Releasing groups");
    graph_program_expect_none(&p, block_bytes, p.streams[0], "Releasing groups");
    graph_program_launch(&p, graph, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[1]));
    block = graph_program_alloc(&p, block_bytes, p.streams[2]);
    graph_program_use(&p, p.streams[2], block, block_bytes, 10);
    mend_sim_graph_destroy(p.world.sim, graph);
    graph_program_close(&p);
}

static mend_stream an_eager_stream(const graph_program *p)
{
    return p->streams[2];
}

static mend_stream its_own_stream(const graph_program *p)
{
    return p->streams[0];
}

static mend_stream no_stream(const graph_program *p)
{
    (void)p;
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
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_launch(&p, graph, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[1]));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).groups);
    graph_program_free(&p, block, p.streams[2]);
    block = graph_program_alloc(&p, block_bytes, p.streams[2]);
    graph_program_use(&p, p.streams[2], block, block_bytes, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).stream_waits);
    mend_sim_graph_destroy(p.world.sim, graph);
    graph_program_close(&p);
}

/* The graph goes on using the old addresses of chunks that moved inside its group. */
MEND_TEST(pool_groups, old_mappings_stay_until_the_release)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_free(&p, block, p.streams[0]);
    void *large = NULL;
    ASSERT_RESULT(MEND_OK,
                  mend_alloc_aligned(p.world.pool, 8 * MIB, MEND_GIB, p.streams[0], &large));
    graph_program_use(&p, p.streams[0], large, 8 * MIB, 1000);
    graph_program_free(&p, large, p.streams[0]);
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_TRUE(mend_world_stats(&p.world).retired_bytes >= block_bytes);
    for (int i = 0; i < 3; i++) {
        graph_program_launch(&p, graph, p.streams[i]);
        EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
        graph_program_expect_none(&p, MIB, p.streams[1], "Releasing groups");
        EXPECT_TRUE(mend_world_stats(&p.world).retired_bytes >= block_bytes);
        mend_sim_advance(p.world.sim, 10000);
    }
    graph_program_launch(&p, graph, p.streams[2]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[2]));
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    EXPECT_TRUE(mend_world_stats(&p.world).retired_bytes >= block_bytes);
    mend_sim_advance(p.world.sim, 10000);
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).retired_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&p.world).chunk_bytes);
    mend_sim_graph_destroy(p.world.sim, graph);
    graph_program_close(&p);
}

MEND_TEST(pool_groups, released_memory_waits_for_the_launches_before)
{
    for (int waits = 0; waits < 2; waits++) {
        graph_program p;
        ASSERT_TRUE(graph_program_open(&p, 8 * MIB, waits ? NULL : without_stream_waits));
        mend_group *group;
        mend_sim_graph *graph = capture_block(&p, p.streams[0], &group);
        graph_program_launch(&p, graph, p.streams[1]);
        EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[1]));
        EXPECT_U64_EQ(0, mend_world_ledger(&p.world).host_syncs);
        void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
        graph_program_use(&p, p.streams[0], block, block_bytes, 10);
        mend_stats stats = mend_world_stats(&p.world);
        EXPECT_U64_EQ(waits ? 1 : 0, stats.stream_waits);
        EXPECT_U64_EQ(waits ? 0 : 1, stats.host_waits);
        mend_sim_graph_destroy(p.world.sim, graph);
        graph_program_close(&p);
    }
}

MEND_TEST(pool_groups, released_without_a_stream_it_waits_for_the_context)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    mend_group *group;
    mend_sim_graph *graph = capture_block(&p, p.streams[0], &group);
    graph_program_launch(&p, graph, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, MEND_NO_STREAM));
    EXPECT_U64_EQ(0, mend_world_ledger(&p.world).host_syncs);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 10);
    EXPECT_U64_EQ(1, mend_world_ledger(&p.world).host_syncs);
    mend_sim_graph_destroy(p.world.sim, graph);
    graph_program_close(&p);
}

/* A device of one chunk of the small zone. */
static bool open_tiny(graph_program *p)
{
    return graph_program_open(p, 256 * MEND_KIB, NULL);
}

/* The only stream the pool knows is that of the group, whose memory lies before all that is idle.
 */
MEND_TEST(pool_groups, idle_memory_behind_that_of_a_group_is_for_everybody)
{
    graph_program p;
    ASSERT_TRUE(open_tiny(&p));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_free(&p, graph_program_alloc(&p, 8192, p.streams[0]), p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    for (int i = 0; i < 31; i++) {
        void *block = graph_program_alloc(&p, 8192, p.streams[i % 2]);
        graph_program_use(&p, p.streams[i % 2], block, 8192, 10);
    }
    graph_program_expect_none(&p, 512, p.streams[0], "");
    graph_program_close(&p);
}

/* More free runs of the group than a request looks at, each of the size it asks for. */
MEND_TEST(pool_groups, many_holes_of_a_group_do_not_hide_what_is_idle)
{
    enum { HOLES = 40 };
    graph_program p;
    void *holes[HOLES];
    ASSERT_TRUE(open_tiny(&p));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    for (int i = 0; i < HOLES; i++) {
        holes[i] = graph_program_alloc(&p, 4096, p.streams[0]);
        graph_program_alloc(&p, 512, p.streams[1]);
    }
    for (int i = 0; i < HOLES; i++) {
        graph_program_free(&p, holes[i], p.streams[0]);
    }
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_TRUE(graph_program_alloc(&p, 4096, p.streams[1]) != NULL);
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).host_waits);
    graph_program_close(&p);
}

/* Eager work under pressure, beside the launches of graphs that share a group. */
static void eager_work_beside_launches(uint64_t seed, bool waits)
{
    enum { GRAPHS = 3, STEPS = 400, SLOTS = 12 };
    graph_program p;
    mend_test_random random;
    mend_sim_graph *graphs[GRAPHS];
    void *blocks[SLOTS] = {NULL};
    mend_test_random_init(&random, seed);
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, waits ? NULL : without_stream_waits));
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(p.world.pool, &group));
    for (int g = 0; g < GRAPHS; g++) {
        mend_stream stream = p.streams[g];
        EXPECT_RESULT(MEND_OK, mend_group_begin(group, stream));
        graph_program_begin_capture(&p, stream);
        for (int i = 0; i < 6; i++) {
            uint64_t size = (1 + mend_test_random_below(&random, 24)) * 64 * MEND_KIB;
            void *block = graph_program_alloc(&p, size, stream);
            graph_program_use(&p, stream, block, size, 100);
            graph_program_free(&p, block, stream);
        }
        graphs[g] = graph_program_end_capture(&p, stream);
        EXPECT_RESULT(MEND_OK, mend_group_end(group));
    }
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        mend_stream stream = p.streams[mend_test_random_below(&random, PROGRAM_STREAMS)];
        void **slot = &blocks[mend_test_random_below(&random, SLOTS)];
        uint64_t size = (1 + mend_test_random_below(&random, 64)) * 64 * MEND_KIB;
        mend_result result = MEND_OK;
        if (*slot == NULL) {
            result = mend_alloc(p.world.pool, size, stream, slot);
        }
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
        if (*slot != NULL) {
            mend_block_info info = MEND_BLOCK_INFO_INIT;
            EXPECT_RESULT(MEND_OK, mend_get_block_info(p.world.pool, *slot, &info));
            graph_program_use(&p, info.stream, *slot, info.usable_bytes, 50);
            if (mend_test_random_below(&random, 2) == 0) {
                graph_program_free(&p, *slot, info.stream);
                *slot = NULL;
            }
        }
        if (mend_test_random_below(&random, 4) == 0) { /* in the order of captures: one stream */
            for (int g = 0; g < GRAPHS; g++) {
                graph_program_launch(&p, graphs[g], p.streams[2]);
            }
        }
        mend_sim_advance(p.world.sim, mend_test_random_below(&random, 400));
        mend_world_check(&p.world);
    }
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[2]));
    for (int i = 0; i < SLOTS; i++) {
        graph_program_free(&p, blocks[i], MEND_NO_STREAM);
    }
    void *all = graph_program_alloc(&p, 16 * MIB, p.streams[0]);
    graph_program_use(&p, p.streams[0], all, 16 * MIB, 10);
    for (int g = 0; g < GRAPHS; g++) {
        mend_sim_graph_destroy(p.world.sim, graphs[g]);
    }
    graph_program_close(&p);
}

MEND_TEST(pool_groups, eager_work_under_pressure_never_meets_that_of_graphs)
{
    uint64_t seed = mend_test_seed();
    eager_work_beside_launches(seed, true);
    eager_work_beside_launches(seed + 1, false);
}
