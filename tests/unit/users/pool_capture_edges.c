/* Captures at their edges: blocks that are not the capture's own and are declared in it, streams
 * that the pool meets in a capture for the first time, and captures without a trace once they are
 * over. */
#include "pool/pool.h"
#include "tests/support/graph_program.h"

#define MIB MEND_MIB

static const uint64_t block_bytes = 5 * MIB;
static const uint64_t work_ns = 100000;

static void may_vanish(mend_pool_config *config)
{
    config->streams_may_vanish = 1;
}

static void ask_in_groups_alone(mend_pool_config *config)
{
    config->capture_checks = -1;
}

/* In the capture of `stream`, another one joins it, uses the block, and is declared for it. */
static void declare_joined(graph_program *p, mend_stream stream, mend_stream joined, void *block)
{
    graph_program_begin_capture(p, stream);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(p->world.sim, joined, stream));
    graph_program_use(p, joined, block, block_bytes, 10);
    EXPECT_RESULT(MEND_OK, mend_record_stream(p->world.pool, block, joined));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(p->world.sim, stream, joined));
}

/* The memory comes back when the work is done, and not before. */
static void expect_after_work(graph_program *p)
{
    void *all = graph_program_alloc(p, 8 * MIB, p->streams[2]);
    graph_program_use(p, p->streams[2], all, 8 * MIB, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&p->world).stream_waits +
                         mend_world_stats(&p->world).host_waits);
}

MEND_TEST(pool_capture_edges, work_from_before_is_waited_for_though_another_stream_is_declared)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, work_ns);
    declare_joined(&p, p.streams[0], p.streams[1], block);
    graph_program_free(&p, block, p.streams[0]);
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    expect_after_work(&p);
    graph_program_close(&p);
}

/* The block is none of the group, though a capture of the group uses it. */
MEND_TEST(pool_capture_edges, work_after_it_is_waited_for_though_the_group_has_used_the_block)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    mend_group *group = graph_program_begin_group(&p, MEND_EVERY_STREAM);
    declare_joined(&p, p.streams[0], p.streams[1], block);
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    graph_program_use(&p, p.streams[0], block, block_bytes, work_ns);
    graph_program_free(&p, block, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[2]));
    expect_after_work(&p);
    graph_program_close(&p);
}

/* The promise to capture in groups alone is kept, and the graph uses the block at each launch. */
MEND_TEST(pool_capture_edges, a_block_freed_in_a_capture_of_a_group_stays_without_checks_too)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, ask_in_groups_alone));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 10);
    graph_program_free(&p, block, p.streams[0]);
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_expect_none(&p, block_bytes, p.streams[1], "");
    graph_program_launch(&p, graph, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[0]));
    EXPECT_TRUE(graph_program_alloc(&p, 8 * MIB, p.streams[1]) != NULL);
    mend_sim_advance(p.world.sim, work_ns);
    mend_sim_graph_destroy(p.world.sim, graph);
    graph_program_close(&p);
}

/* Memory that only a wait for the context makes idle, and a capture that such a wait would spoil.
 */
static mend_sim_graph *serve_and_want_more(graph_program *p, bool is_named_again)
{
    graph_program_free(p, graph_program_alloc(p, 4 * MIB, p->streams[1]), MEND_NO_STREAM);
    graph_program_begin_capture(p, p->streams[0]);
    graph_program_alloc(p, 1 * MIB, p->streams[0]);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_trim_wait(p->world.pool, 0, NULL));
    graph_program_expect_none(p, 6 * MIB, p->streams[1], "");
    mend_sim_graph *graph = graph_program_end_capture(p, p->streams[0]);
    if (is_named_again) {
        graph_program_alloc(p, 512, p->streams[0]);
        EXPECT_RESULT(MEND_OK, mend_trim_wait(p->world.pool, 0, NULL));
    }
    return graph;
}

MEND_TEST(pool_capture_edges, a_capture_that_is_served_is_not_spoilt_where_streams_may_vanish)
{
    for (int is_named_again = 0; is_named_again < 2; is_named_again++) {
        graph_program p;
        ASSERT_TRUE(graph_program_open(&p, 8 * MIB, may_vanish));
        mend_sim_graph *graph = serve_and_want_more(&p, is_named_again != 0);
        mend_sim_graph_destroy(p.world.sim, graph);
        EXPECT_RESULT(MEND_OK, mend_trim_wait(p.world.pool, 0, NULL));
        graph_program_close(&p);
    }
}

MEND_TEST(pool_capture_edges, a_stream_known_from_its_capture_alone_is_not_forgotten_in_it)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_alloc(&p, 1 * MIB, p.streams[0]);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_forget_stream(p.world.pool, p.streams[0]));
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(p.world.pool, p.streams[0]));
    mend_sim_graph_destroy(p.world.sim, graph);
    graph_program_close(&p);
}

MEND_TEST(pool_capture_edges, captures_that_are_over_leave_nothing_behind)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    uint32_t slots = 0;
    for (int i = 0; i < 50; i++) {
        graph_program_begin_capture(&p, p.streams[0]);
        void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
        graph_program_use(&p, p.streams[0], block, block_bytes, 10);
        graph_program_free(&p, block, p.streams[0]);
        mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
        graph_program_launch(&p, graph, p.streams[1]);
        mend_sim_advance(p.world.sim, work_ns);
        mend_sim_graph_destroy(p.world.sim, graph);
        EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
        mend_stats stats = mend_world_stats(&p.world);
        EXPECT_U64_EQ(0, stats.captures + stats.reserved_bytes);
        const uint32_t slots_now = p.world.pool->heap.streams.count;
        slots = i == 1 ? slots_now : slots;
        EXPECT_TRUE(i < 2 || slots_now == slots);
    }
    graph_program_close(&p);
}
