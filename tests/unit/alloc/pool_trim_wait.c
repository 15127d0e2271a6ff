/* A trim that waits for the GPU, and trims in each step of a program. */
#include "tests/support/kit.h"

static void leave_in_flight(mend_world *w, void *block, uint64_t size_bytes, int stream,
                            uint64_t duration_ns)
{
    kit_use(w, w->streams[stream], block, size_bytes, duration_ns);
    kit_free(w, block, w->streams[stream]);
}

static uint64_t trim_wait(mend_world *w, uint64_t keep_bytes)
{
    uint64_t released_bytes = 12345;
    EXPECT_RESULT(MEND_OK, mend_trim(w->pool, keep_bytes, MEND_TRIM_WAIT, &released_bytes));
    mend_world_check(w);
    return released_bytes;
}

#define TRIM_WAIT_TEST(suite, name, ...)                                                           \
    KIT_CASE(suite, name, mend_world, w, kit_open_with(w, __VA_ARGS__), kit_close(w))

TRIM_WAIT_TEST(pool_trim_wait, leaves_the_memory_of_graph_pools, 32 * MEND_MIB, NULL)
{
    void *beside = kit_alloc(w, MEND_MIB / 4, w->streams[1]);
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, w->streams[0]);
    void *block = kit_alloc(w, MEND_MIB / 4, w->streams[0]); /* in the same chunk */
    leave_in_flight(w, block, MEND_MIB / 4, 0, 1000);
    EXPECT_RESULT(MEND_OK, mend_graph_pool_end(graph_pool));
    leave_in_flight(w, beside, MEND_MIB / 4, 1, 1000); /* and now that is empty */
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(w).free_empty_bytes);
    EXPECT_U64_EQ(0, trim_wait(w, 0));
    EXPECT_STATS(w, host_waits, 0); /* in vain: the chunk is held for graphs */
    EXPECT_RESULT(MEND_OK, mend_graph_pool_destroy(graph_pool, w->streams[0]));
    EXPECT_U64_EQ(MEND_MIB, trim_wait(w, 0));
}

/* A program that empties the pool in each step, of 16 blocks, in the smallest chunks that there
 * are: from the third step on the chunks that it creates again are fewer. */
KIT_SET_TEST(pool_trim_wait, a_pool_that_is_emptied_in_each_step_makes_fewer_chunks,
             w->sim_config.memory_bytes = 4 * MEND_GIB,
             w->sim_config.content = MEND_SIM_CONTENT_NONE, w->sim_config.page_bytes = 2 * MEND_MIB,
             w->pool_config.strategy = 5, w->placement = (mend_test_sizes){0})
{
    enum { BLOCKS = 16, STEPS = 4 };
    uint64_t created[STEPS + 1] = {0};
    for (int i = 0; i < STEPS; i++) {
        void *blocks[BLOCKS];
        kit_alloc_row(w, blocks, BLOCKS, 12 * MEND_MIB, S(0));
        kit_free_row(w, blocks, BLOCKS, S(0));
        EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
        created[i + 1] = mend_world_stats(w).chunks_created;
    }
    EXPECT_U64_EQ(created[2] - created[1], created[1]);
    EXPECT_TRUE(2 * (created[4] - created[3]) <= created[1]);
}

KIT_EACH(pool_trim_wait, memory_of_graphs_that_ended_goes_back, int, waits, 2, kit_open_default(w))
{
    kit_begin_capture(w, S(0));
    kit_leave_in_flight(w, 3 * MEND_MIB, S(0), 1000, S(0));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    if (waits) {
        kit_launch_graph(w, graph, S(1));
    }
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(mend_trim(w->pool, 0, waits ? MEND_TRIM_WAIT : MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, reserved_bytes, 0);
}
