/* Graph pools: memory that belongs to captured graphs. */
#ifndef MEND_MEND_GRAPH_POOLS_H
#define MEND_MEND_GRAPH_POOLS_H

#include <stddef.h>
#include <stdint.h>

#include "mend/mend_results.h"
#include "mend/mend_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- graph pools: memory of captured graphs -------------------------------------------------- */

/*
 * A captured graph uses its blocks at every launch, long after the capture freed them, and perhaps
 * on another stream. So blocks of a capture belong to a graph pool. Freed memory stays mapped, and
 * in the graph pool, until mend_graph_pool_destroy. Later requests on the same stream in the graph
 * pool reuse it.
 *
 *     mend_graph_pool *graphs;
 *     mend_graph_pool_create(pool, &graphs);
 *     mend_graph_pool_begin(graphs, stream); // then capture on the stream
 *     mend_graph_pool_end(graphs);           // after the capture
 *     mend_graph_pool_destroy(graphs, stream); // after the last launch
 *
 * A graph pool may serve several captures. You may launch their graphs in any order, but not at the
 * same time, because they share memory. If a graph reads the output of another graph, launch no
 * graph that may use the memory between the two.
 *
 * Captures outside of graph pools are safe too, but do not share memory. The pool reserves all
 * memory that is allocated, freed or declared on a captured stream, until the driver reports that
 * the graph and its instances are destroyed and all launches are done. Blocks that are live then
 * stay live. Always name the stream: with MEND_NO_STREAM the pool cannot see the capture.
 */

/* Create a graph pool. You own it until mend_graph_pool_destroy. It also ends with its pool.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED (the pool has plain blocks alone);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_graph_pool_create(mend_pool *pool, mend_graph_pool **graph_pool);

/*
 * Direct allocations and frees on `stream` to the graph pool, before the capture begins.
 * MEND_EVERY_STREAM means all streams. Outside of a capture, only frees of blocks of the graph pool
 * belong to it. If several graph pools have the same stream, the last one begun applies.
 *
 * The stream must exist until mend_graph_pool_end or mend_unregister_stream: before each wait for
 * the context every pool of the device in this process asks the driver whether it is captured. With
 * MEND_EVERY_STREAM it asks about those that another pool saw captured, and blocking ones. Without
 * detect_destroyed_streams it also asks about the streams that calls have named.
 *
 * Calls the driver only if much memory was freed without a stream. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (begun already, or MEND_NO_STREAM); MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_graph_pool_begin(mend_graph_pool *graph_pool, mend_stream stream);

/* End mend_graph_pool_begin. The memory stays in the graph pool. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (it was not begun); MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_graph_pool_end(mend_graph_pool *graph_pool);

/*
 * Destroy a graph pool and release its memory in the order of `stream`, as mend_free. Never launch
 * a graph again that uses this memory. All launches, and other work on blocks freed in the graph
 * pool, must precede this point of `stream`. Live blocks stay live.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (it is begun, or MEND_EVERY_STREAM); MEND_ERROR_CAPTURING;
 * MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_graph_pool_destroy(mend_graph_pool *graph_pool, mend_stream stream);

/* ---- graph pools: their blocks --------------------------------------------------------------- */

/* A live block of a graph pool. */
typedef struct mend_graph_pool_block {
    void *pointer;
    uint64_t size_bytes; /* the size asked for */
    mend_stream stream;  /* the stream it was allocated for */
    uint64_t tag;        /* of mend_alloc_options. 0: none */
} mend_graph_pool_block;

/* List the live blocks of the graph pool, by address, for mend_graph_pool_restore. Array and
 * `capacity` as in mend_get_regions. The time is proportional to the blocks of the pool. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_graph_pool_checkpoint(mend_graph_pool *graph_pool,
                                                mend_graph_pool_block *blocks, size_t block_bytes,
                                                size_t capacity, size_t *count);

/*
 * Restore a checkpoint: afterwards exactly these `count` blocks of the graph pool are live, each at
 * its address. Other blocks of the graph pool are freed, on the stream that they were allocated
 * for. Contents do not change. `block_bytes` is sizeof(mend_graph_pool_block). A framework needs
 * this to record a graph that follows one of several graphs.
 *
 * The memory of the blocks must still belong to the graph pool, or be idle. A chunk that has moved
 * since, and is pinned or exported now, cannot be restored. Order all work on the freed blocks
 * before the next use of the restored ones. No other thread may allocate or free blocks of the
 * graph pool during the call.
 *
 * Calls the driver only for an unknown stream, and after a compaction that failed to map memory.
 * Never waits for the GPU.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (the message names the block and the reason);
 * MEND_ERROR_ASLEEP; MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_CAPTURING
 * (as mend_alloc); MEND_ERROR_DRIVER (also if it still does not map the memory);
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_graph_pool_restore(mend_graph_pool *graph_pool,
                                             const mend_graph_pool_block *blocks,
                                             size_t block_bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
