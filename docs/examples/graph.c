/*
 * Memory of a captured graph. A graph uses its blocks at every launch, long after they were freed
 * in its capture. So they belong to a graph pool: no other request gets them until the graph pool
 * is destroyed.
 */
#include <mend/mend.h>
#include <mend/mend_sim.h>
#include <stdio.h>

enum { MIB = 1 << 20 };

static mend_pool *open_pool(mend_sim **sim)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    device.memory_bytes = 64ull * MIB;
    if (mend_sim_create(&device, sim) != MEND_OK) {
        return NULL;
    }
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(*sim);
    mend_pool *pool = NULL;
    return mend_pool_create(&config, &pool) == MEND_OK ? pool : NULL;
}

/* Work of the GPU on a block: a program would launch a kernel here. */
static void use(mend_sim *sim, void *block, uint64_t size_bytes, mend_stream stream)
{
    const mend_sim_work work = {
        .struct_size = sizeof(mend_sim_work),
        .kind = MEND_SIM_WORK_TOUCH,
        .address = (uint64_t)(uintptr_t)block,
        .size_bytes = size_bytes,
    };
    mend_sim_launch(sim, stream, &work);
}

/* Two blocks, one after the other: within the graph pool the second uses the first one's memory
 * again. On a GPU, use cuStreamBeginCapture and cuStreamEndCapture. */
static mend_sim_graph *capture(mend_sim *sim, mend_pool *pool, mend_stream stream)
{
    mend_sim_graph *graph = NULL;
    mend_sim_begin_capture(sim, stream, MEND_SIM_CAPTURE_GLOBAL);
    for (int i = 0; i < 2; i++) {
        void *block = NULL;
        if (mend_alloc(pool, 40ull * MIB, stream, &block) == MEND_OK) {
            use(sim, block, 40ull * MIB, stream);
            mend_free(pool, block, stream);
        }
    }
    mend_sim_end_capture(sim, stream, &graph);
    return graph;
}

int main(void)
{
    mend_sim *sim = NULL;
    mend_stream stream = NULL;
    mend_graph_pool *graph_pool = NULL;
    void *block = NULL;
    mend_pool *pool = open_pool(&sim);
    if (pool == NULL || mend_sim_stream_create(sim, NULL, &stream) != MEND_OK ||
        mend_graph_pool_create(pool, &graph_pool) != MEND_OK ||
        mend_graph_pool_begin(graph_pool, stream) != MEND_OK) { /* before the capture begins */
        return 1;
    }
    mend_sim_graph *graph = capture(sim, pool, stream);
    mend_graph_pool_end(graph_pool); /* from here on `stream` allocates as before */

    mend_sim_graph_launch(sim, graph, stream, 0);
    mend_sim_graph_launch(sim, graph, stream, 0);
    mend_result while_held = mend_alloc(pool, 40ull * MIB, stream, &block);

    /* No launch follows: the graph pool's memory is free after the earlier launches. */
    mend_sim_graph_destroy(sim, graph);
    mend_graph_pool_destroy(graph_pool, stream);
    mend_result released = mend_alloc(pool, 40ull * MIB, stream, &block);
    printf("while the graph pool holds it: %s; released: %s\n", mend_result_name(while_held),
           mend_result_name(released));

    mend_free(pool, block, stream);
    mend_pool_destroy(pool);
    int broken = mend_sim_first_violation(sim)[0] != 0;
    mend_sim_destroy(sim);
    return broken || while_held != MEND_ERROR_OUT_OF_MEMORY || released != MEND_OK;
}
