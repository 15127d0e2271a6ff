/* Graph pools: memory that belongs to captured graphs. Part of mend.h, which includes this
 * header. */
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
 * A captured graph uses its blocks at every launch, long after they were freed in its capture, and
 * perhaps on another stream. So blocks allocated for a capture belong to a graph pool. They are
 * made of idle memory, of new chunks, or of memory freed on the same stream in the same graph pool.
 * Freed memory stays with the graph pool, and stays mapped, until the graph pool is released.
 *
 * A graph pool may serve several captures, and their graphs may be launched in any order. They
 * share memory, so they must not run at the same time. A graph that reads another one's output in a
 * block is launched after it, without a graph in between that may use the memory.
 *
 * Captures outside of graph pools are safe, too, as if each had a graph pool of its own: the pool
 * keeps for the graph what is allocated on a captured stream, and what is freed or declared there
 * (mend_free, mend_record_stream). It keeps this until the driver reports that the graph and
 * everything instantiated from it are destroyed and their launches done. A block that is still live
 * then stays live. Graphs that are to share memory need a graph pool. With MEND_NO_STREAM the pool
 * cannot know of the capture, so name the stream.
 */

/* Creates a graph pool, which ends with mend_graph_pool_destroy, or with the pool. No driver call.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_graph_pool_create(mend_pool *pool, mend_graph_pool **graph_pool);

/* From now on allocations and frees on `stream` (MEND_EVERY_STREAM: on all) belong to the graph
 * pool; call it before the capture begins. A free outside of a capture belongs to it only if the
 * block is of the graph pool. If several graph pools have the same stream, the one begun last is
 * used. Until mend_graph_pool_end the pool asks the driver whether the stream is captured before it
 * waits for the context: until then the stream must exist, or be unregistered
 * (mend_unregister_stream). With MEND_EVERY_STREAM it can ask about the streams that it knows: a
 * non-blocking stream that no call has named is not among them. Calls the driver only if much was
 * freed without a stream: no event of the context can be recorded while the graph pool is begun
 * (allow_context_fences). MEND_OK; MEND_ERROR_INVALID_ARGUMENT (begun already, or MEND_NO_STREAM);
 * MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_graph_pool_begin(mend_graph_pool *graph_pool, mend_stream stream);

/* Later allocations do not belong to the graph pool; its memory stays. No driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (it was not begun); MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_graph_pool_end(mend_graph_pool *graph_pool);

/*
 * Releases the graph pool's memory and frees the graph pool; no other call may use it. The caller
 * guarantees that no graph which uses the memory will be launched again, and that all launches, and
 * all work outside of captures on blocks freed in the graph pool, precede this point of `stream`
 * (MEND_NO_STREAM: the memory stays unavailable until a synchronization of the whole context). Live
 * blocks stay live and are freed as usual. May record an event, as mend_free. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (it is begun, or MEND_EVERY_STREAM); MEND_ERROR_CAPTURING (`stream`
 * is being captured); MEND_ERROR_UNKNOWN_STREAM; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. After an error the graph pool is unchanged.
 */
MEND_API mend_result mend_graph_pool_destroy(mend_graph_pool *graph_pool, mend_stream stream);

/* ---- graph pools: their blocks --------------------------------------------------------------- */

/*
 * As mend_free, for a block of the graph pool, or one that a graph of the graph pool uses: its
 * memory stays with the graph pool until the graph pool is released, and serves later requests of
 * the graph pool on `stream`. `stream` need not be captured. Results as mend_free;
 * MEND_ERROR_INVALID_ARGUMENT also for MEND_NO_STREAM.
 */
MEND_API mend_result mend_graph_pool_free(mend_graph_pool *graph_pool, void *pointer,
                                          mend_stream stream);

/*
 * As mend_record_stream, for a block of the graph pool that a capture of one of its graphs uses on
 * `stream`, if the graph pool is named by each call and not begun: the memory is ready again for
 * streams of the capture that its graph puts behind that use. If `stream` is not captured it is
 * mend_record_stream. Results as that; MEND_ERROR_INVALID_ARGUMENT also for a graph pool that is
 * NULL.
 */
MEND_API mend_result mend_graph_pool_record_stream(mend_graph_pool *graph_pool, void *pointer,
                                                   mend_stream stream);

/* A live block of a graph pool. Fields may be added at the end. */
typedef struct mend_graph_pool_block {
    void *pointer;
    uint64_t size_bytes; /* the size asked for */
    mend_stream stream;  /* the stream it was allocated for */
    uint64_t tag;        /* of mend_alloc_options; 0: none */
} mend_graph_pool_block;

/* The live blocks of the graph pool, by address: a checkpoint of it. Array and `capacity` as of
 * mend_get_regions, with sizeof(mend_graph_pool_block). The time is proportional to the blocks of
 * the pool. No driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_DEVICE_LOST. */
MEND_API mend_result mend_graph_pool_checkpoint(mend_graph_pool *graph_pool,
                                                mend_graph_pool_block *blocks, size_t block_bytes,
                                                size_t capacity, size_t *count);

/*
 * Goes back to a checkpoint, of `count` elements of `block_bytes` each
 * (sizeof(mend_graph_pool_block)): afterwards just these blocks of the graph pool are live, each at
 * its address. Blocks of the graph pool that are not in the list are freed, on the stream that they
 * were allocated for; blocks that are live with the same size and stream stay as they are; the
 * others are allocated. Contents do not change. For a framework that records a graph behind one of
 * several others: the allocator must be in the state that the graph before left.
 *
 * It can be done as long as the memory is the graph pool's, or idle: a graph pool keeps what is
 * freed in it (mend_graph_pool_free, or mend_free while it is begun) until its release. A chunk
 * that the graph pool has moved since, and that is now pinned or exported, cannot go back. The
 * caller guarantees that work which still uses the memory of freed blocks is ordered before the
 * next use of the restored ones, and that no other thread allocates or frees blocks of the graph
 * pool meanwhile. Calls the driver only for a stream that the pool does not know, and to map again
 * what a compaction could not. Never waits for the GPU.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (blocks overlap, a size or an address is not possible, the
 * memory of a block is in use outside of the graph pool, or elsewhere; mend_get_last_error says
 * which block and why); MEND_ERROR_ASLEEP (memory of the pool sleeps); MEND_ERROR_UNKNOWN_STREAM;
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_CAPTURING (as mend_alloc); MEND_ERROR_DRIVER (also: it
 * still does not map the memory of a block again); MEND_ERROR_DEVICE_LOST. After an error the graph
 * pool is unchanged.
 */
MEND_API mend_result mend_graph_pool_restore(mend_graph_pool *graph_pool,
                                             const mend_graph_pool_block *blocks,
                                             size_t block_bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
