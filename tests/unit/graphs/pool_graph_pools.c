/* Memory of captured graphs: its users, when it moves, and how it is freed. */
#include "mend/mend_frameworks.h"
#include "tests/support/kit.h"

/* Of a device of 8 MiB, so that two blocks of 5 MiB do not fit. */
static const uint64_t block_bytes = 5 * MEND_MIB;

#define WORLD_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_with(w, 8 * MEND_MIB, NULL))

KIT_EACH(pool_graph_pools, one_of_the_legacy_stream_takes_no_other, int, is_other, 2,
         kit_open_with(w, 8 * MEND_MIB, NULL))
{
    size_t count = 1;
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, is_other ? S(0) : NULL);
    kit_alloc(w, 512, is_other ? NULL : S(0));
    EXPECT_OK(
        mend_graph_pool_checkpoint(graph_pool, NULL, sizeof(mend_graph_pool_block), 0, &count));
    EXPECT_U64_EQ(0, count);
    kit_end_graph_pool(graph_pool, S(0));
    kit_free(w, kit_alloc(w, 512, S(0)), S(0));
    kit_alloc(w, 512, S(0));
    EXPECT_STATS(w, cache_hits, 1); /* as before it began */
}

WORLD_TEST(pool_graph_pools, chunks_of_a_graph_pool_are_for_its_own_requests_until_it_ends)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    void *first = kit_alloc(w, 2 * MEND_MIB, S(0));
    kit_alloc(w, MEND_MIB, S(1));
    void *second = kit_alloc(w, 2 * MEND_MIB, S(0));
    kit_alloc(w, 3 * MEND_MIB, S(1));
    kit_expect_none(w, MEND_MIB, S(1), ""); /* pressure is critical */
    kit_free(w, first, S(0));
    kit_free(w, second, S(0));
    for (int i = 0; i < 2; i++) {
        kit_expect_none(w, 4 * MEND_MIB, S(1), "");
        EXPECT_OK(mend_validate(w->pool));
        /* From both places. The first one breaks a chunk. */
        kit_free(w, kit_alloc(w, (7 + (uint64_t)i) * MEND_MIB / 2, S(0)), S(0));
    }
    kit_expect_none(w, 4 * MEND_MIB, S(1), "");
    kit_end_graph_pool(graph_pool, S(0));
    kit_alloc(w, 4 * MEND_MIB, S(1));
    EXPECT_OK(mend_validate(w->pool));
}

/* Chunks of a graph pool move instead, since new ones could not move later. */
KIT_EACH(pool_graph_pools, the_last_memory_is_not_created_to_avoid_moves, uint64_t, in_graph_pool,
         2, kit_open_with(w, 8 * MEND_MIB, NULL))
{
    void *row[7];
    if (in_graph_pool) {
        (void)kit_begin_graph_pool(w, S(0));
    }
    kit_alloc_row(w, row, 7, MEND_MIB, S(0));
    kit_free(w, row[1], S(0));
    kit_free(w, row[3], S(0));
    kit_alloc(w, 2 * MEND_MIB, S(0));
    EXPECT_STATS(w, chunks_moved, in_graph_pool, moves_avoided, 1 - in_graph_pool);
    kit_alloc(w, MEND_MIB, S(1));
}

/* The graph orders the branches. An order that was found does not cover later frees. */
WORLD_TEST(pool_graph_pools, another_stream_of_a_capture_gets_what_its_graph_puts_before)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, MEND_EVERY_STREAM);
    kit_begin_capture(w, S(0));
    void *block = kit_alloc(w, block_bytes, S(0));
    void *other = kit_alloc(w, 512, S(0));
    kit_use(w, S(0), block, block_bytes, 10);
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_use(w, S(1), block, block_bytes, 100);
    kit_free(w, block, S(0));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture in progress and releasing");
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
    kit_use(w, S(0), other, 512, 10); /* behind the join, which is no longer the last */
    EXPECT_PTR_EQ(block, kit_alloc(w, block_bytes, S(0)));
    kit_use(w, S(0), block, block_bytes, 10);
    kit_free(w, block, S(0));
    kit_expect_none(w, block_bytes, S(1), "Ending the capture in progress and releasing");
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    EXPECT_PTR_EQ(block, kit_alloc(w, block_bytes, S(1)));
    kit_use(w, S(1), block, block_bytes, 10);
    kit_free(w, block, S(1));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture in progress and releasing");
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
    kit_free(w, other, S(0));
    EXPECT_OK(mend_validate(w->pool));
    mend_sim_graph *graph = kit_end_captured_graph_pool(w, S(0), graph_pool);
    kit_launch_graph(w, graph, S(2));
    mend_sim_graph_destroy(w->sim, graph);
}

WORLD_TEST(pool_graph_pools, what_a_stream_freed_outside_of_captures_is_in_no_graph_s_order)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, MEND_EVERY_STREAM);
    kit_leave_in_flight(w, block_bytes, S(1), 1000, S(1));
    kit_begin_capture(w, S(0));
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    kit_free(w, kit_alloc(w, 512, S(1)), S(1)); /* named in the capture, too */
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture in progress and releasing");
    mend_sim_graph_destroy(w->sim, kit_end_captured_graph_pool(w, S(0), graph_pool));
}

/* The memory a stream freed outside is its own at once, but a graph may run elsewhere. */
WORLD_TEST(pool_graph_pools, what_a_stream_freed_outside_is_not_ready_inside)
{
    const uint64_t size = 3 * MEND_MIB; /* too little for a fence at its free */
    kit_alloc(w, 5 * MEND_MIB, S(1));
    void *block = kit_leave_in_flight(w, size, S(0), 1000, S(0));
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(0));
    kit_expect_none(w, size, S(0), "Ending the capture");
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    EXPECT_PTR_EQ(block, kit_alloc(w, size, S(0)));
    kit_expect_waits(w, 0, 1);
    EXPECT_OK(mend_graph_pool_end(graph_pool));
}

/* A graph pool is over, and a graph of it still runs: its block may be freed anywhere. */
WORLD_TEST(pool_graph_pools, a_block_that_outlives_its_graph_pool_waits_for_the_last_launch)
{
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(0));
    void *block = kit_alloc(w, block_bytes, S(0));
    kit_use(w, S(0), block, block_bytes, 100000);
    mend_sim_graph *graph = kit_end_captured_graph_pool(w, S(0), graph_pool);
    kit_launch_graph(w, graph, S(1));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(1)));
    kit_free(w, block, S(2));
    kit_alloc_used(w, block_bytes, S(2), 10);
    mend_sim_graph_destroy(w->sim, graph);
}

KIT_EACH(pool_graph_pools, the_legacy_stream_is_one_by_either_name, int, by_number, 2,
         kit_open_with(w, 8 * MEND_MIB, NULL))
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, by_number ? MEND_STREAM_LEGACY : NULL);
    const void *block = kit_alloc(w, MEND_MIB, by_number ? NULL : MEND_STREAM_LEGACY);
    EXPECT_PTR_EQ(graph_pool, kit_info(w, block).graph_pool);
    EXPECT_OK(mend_graph_pool_end(graph_pool));
}

WORLD_TEST(pool_graph_pools, what_a_stream_freed_in_another_capture_is_in_no_graph_s_order)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, MEND_EVERY_STREAM);
    kit_begin_capture(w, S(1));
    void *block = kit_alloc(w, block_bytes, S(1));
    kit_use(w, S(1), block, block_bytes, 10);
    kit_free(w, block, S(1));
    mend_sim_graph *first = kit_end_capture(w, S(1));
    kit_begin_capture(w, S(0));
    void *other = kit_alloc(w, 512, S(0));
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
    kit_use(w, S(1), other, 512, 10); /* the pool is not told */
    EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
    kit_expect_none(w, block_bytes, S(0), "Ending the capture in progress and releasing");
    mend_sim_graph_destroy(w->sim, kit_end_captured_graph_pool(w, S(0), graph_pool));
    mend_sim_graph_destroy(w->sim, first);
}

WORLD_TEST(pool_graph_pools, a_block_that_is_freed_in_a_named_one_serves_it_alone)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    EXPECT_OK(mend_graph_pool_free(graph_pool, kit_alloc(w, block_bytes, S(0)), S(0)));
    kit_expect_none(w, 4 * MEND_MIB, S(0), "");
    kit_alloc_with(w, block_bytes, S(0), .graph_pool = graph_pool);
}

/* A block of the graph pool that a branch used, which has joined: as frameworks do that name it. */
WORLD_TEST(pool_graph_pools, a_joined_branch_leaves_a_block_of_a_named_graph_pool)
{
    mend_graph_pool *graph_pool = kit_graph_pool(w);
    void *blocks[2] = {NULL, NULL};
    kit_begin_capture(w, S(0));
    for (int i = 0; i < 2; i++) {
        blocks[i] = kit_alloc_with(w, block_bytes, S(0), .graph_pool = graph_pool);
        EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
        EXPECT_OK(mend_graph_pool_record_stream(graph_pool, blocks[i], S(1)));
        kit_use(w, S(1), blocks[i], block_bytes, 100);
        EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
        EXPECT_OK(mend_graph_pool_free(graph_pool, blocks[i], S(0)));
    }
    EXPECT_PTR_EQ(blocks[0], blocks[1]);
    EXPECT_INVALID(mend_graph_pool_record_stream(graph_pool, NULL, S(1)));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    kit_launch_graph(w, graph, S(2));
    mend_sim_graph_destroy(w->sim, graph);
}
