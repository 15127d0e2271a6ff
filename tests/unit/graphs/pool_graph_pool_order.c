/* Captures of several streams that wait for each other. */

#include "mend/mend_frameworks.h"
#include "tests/support/kit.h"

/* Of a block of the graph pool that a branch used: as frameworks do that name it. */
KIT_TEST_IN(pool_graph_pool_order, a_joined_branch_leaves_a_block_of_a_named_graph_pool,
            kit_open_with(w, 8 * MEND_MIB, NULL))
{
    mend_graph_pool *graph_pool = NULL;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    void *blocks[2] = {NULL, NULL};
    EXPECT_OK(mend_graph_pool_create(w->pool, &graph_pool));
    options.graph_pool = graph_pool;
    kit_begin_capture(w, S(0));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_alloc_with(w->pool, 5 * MEND_MIB, S(0), &options, &blocks[i]));
        EXPECT_OK(mend_sim_stream_wait(w->sim, S(1), S(0)));
        EXPECT_OK(mend_graph_pool_record_stream(graph_pool, blocks[i], S(1)));
        kit_use(w, S(1), blocks[i], 5 * MEND_MIB, 100);
        EXPECT_OK(mend_sim_stream_wait(w->sim, S(0), S(1)));
        EXPECT_OK(mend_graph_pool_free(graph_pool, blocks[i], S(0)));
    }
    EXPECT_PTR_EQ(blocks[0], blocks[1]);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_graph_pool_record_stream(graph_pool, NULL, S(1)));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    kit_launch_graph(w, graph, S(2));
    mend_sim_graph_destroy(w->sim, graph);
}
