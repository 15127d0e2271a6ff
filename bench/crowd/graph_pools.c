/* Graph pools and graphs that keep memory, and graph pools whose blocks are restored. */
#include "crowd/graph_pools.h"

/* Each holds a block's free memory for its graphs. */
static void make_graph_pool_of(crowd *c, uint64_t size_bytes)
{
    mend_crowd_require(mend_graph_pool_create(c->pool, &c->graph_pool) == MEND_OK,
                       "mend_graph_pool_create");
    mend_crowd_require(mend_graph_pool_begin(c->graph_pool, c->streams[0]) == MEND_OK,
                       "mend_graph_pool_begin");
    mend_crowd_free_on(c, mend_crowd_alloc_bytes(c, size_bytes, c->streams[0]), c->streams[0]);
    mend_crowd_require(mend_graph_pool_end(c->graph_pool) == MEND_OK, "mend_graph_pool_end");
}

void mend_crowd_make_graph_pool(crowd *c)
{
    make_graph_pool_of(c, GRAPH_POOL_BYTES);
}

void mend_crowd_fill_blocks_and_a_graph_pool(crowd *c)
{
    mend_crowd_fill_blocks(c);
    mend_crowd_make_graph_pool(c);
}

void mend_crowd_fill_graph_pools(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        mend_crowd_make_graph_pool(c);
    }
}

void mend_crowd_fill_graph_pools_of_chunks(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        make_graph_pool_of(c, PAGE);
    }
}

/* The graphs live on, and each keeps a block's memory. */
void mend_crowd_fill_graphs(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        mend_sim_graph *graph = NULL;
        (void)mend_sim_begin_capture(c->sim, c->streams[1], MEND_SIM_CAPTURE_RELAXED);
        mend_crowd_free_on(c, mend_crowd_alloc_bytes(c, GRAPH_POOL_BYTES, c->streams[1]),
                           c->streams[1]);
        mend_crowd_require(mend_sim_end_capture(c->sim, c->streams[1], &graph) == MEND_OK,
                           "a capture");
    }
}

void mend_crowd_release_graph_pool(crowd *c)
{
    mend_crowd_require(mend_graph_pool_destroy(c->graph_pool, c->streams[0]) == MEND_OK,
                       "mend_graph_pool_destroy");
}

void mend_crowd_restore_nothing(crowd *c)
{
    mend_crowd_require(
        mend_graph_pool_restore(c->graph_pool, NULL, sizeof(mend_graph_pool_block), 0) == MEND_OK,
        "mend_graph_pool_restore");
}

static void take_in_graph_pool(crowd *c, uint64_t size_bytes)
{
    mend_crowd_require(mend_graph_pool_begin(c->graph_pool, c->streams[0]) == MEND_OK,
                       "mend_graph_pool_begin");
    for (size_t i = 0; i < c->count; i++) {
        c->blocks[i] = mend_crowd_alloc_bytes(c, size_bytes, c->streams[0]);
        c->listed[i] = (mend_graph_pool_block){c->blocks[i], size_bytes, c->streams[0], 0};
    }
    mend_crowd_require(mend_graph_pool_end(c->graph_pool) == MEND_OK, "mend_graph_pool_end");
    mend_crowd_restore_nothing(c);
}

void mend_crowd_fill_graph_pool_of_blocks(crowd *c)
{
    mend_crowd_make_graph_pool(c);
    take_in_graph_pool(c, GRAPH_POOL_BYTES);
}

/* Each block has a chunk, and one block of all of them was in the graph pool since. */
void mend_crowd_move_chunks(crowd *c)
{
    mend_crowd_restore_nothing(c);
    mend_crowd_require(mend_graph_pool_begin(c->graph_pool, c->streams[0]) == MEND_OK,
                       "mend_graph_pool_begin");
    mend_crowd_free_on(c, mend_crowd_alloc_bytes(c, c->count * CHUNK, c->streams[0]),
                       c->streams[0]);
    mend_crowd_require(mend_graph_pool_end(c->graph_pool) == MEND_OK, "mend_graph_pool_end");
}

void mend_crowd_fill_graph_pool_of_chunks(crowd *c)
{
    mend_crowd_make_graph_pool(c);
    take_in_graph_pool(c, CHUNK);
    mend_crowd_move_chunks(c);
}

void mend_crowd_restore_blocks(crowd *c)
{
    mend_crowd_require(mend_graph_pool_restore(c->graph_pool, c->listed,
                                               sizeof(mend_graph_pool_block), c->count) == MEND_OK,
                       "mend_graph_pool_restore");
}
