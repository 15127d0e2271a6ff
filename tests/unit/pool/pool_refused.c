/* Results of a pool without host memory for a call. */

#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

KIT_TEST(pool_refused, graph_pools_and_callbacks_need_host_memory)
{
    mend_graph_pool *graph_pool = NULL;
    int calls = 0;
    mend_test_fail_host_memory_after(0, UINT64_MAX);
    mend_test_watch_host_memory(true);
    mend_result of_graph_pool = mend_graph_pool_create(w->pool, &graph_pool);
    mend_result of_callback = mend_add_pressure_callback(w->pool, kit_count_pressure, &calls);
    mend_test_watch_host_memory(false);
    mend_test_heal_host_memory();
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, of_graph_pool);
    EXPECT_PTR_EQ(NULL, graph_pool);
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, of_callback);
    EXPECT_OK(mend_graph_pool_create(w->pool, &graph_pool));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, NULL));
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    EXPECT_OK(mend_remove_pressure_callback(w->pool, kit_count_pressure, &calls));
}
