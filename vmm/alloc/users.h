/* Users of blocks: streams, found by their handles, and the graph pool of a request. Guarded by the
 * heap's `state` lock. */
#ifndef MEND_ALLOC_USERS_H
#define MEND_ALLOC_USERS_H

#include "layout/state.h"

/* The stream of a handle, if the handle identifies it and no graph pool can take it. Otherwise
 * MEND_STREAM_UNKNOWN. */
static inline uint32_t mend_users_known_stream(mend_heap *heap, mend_stream handle)
{
    mend_streams *streams = &heap->streams;
    if (handle == streams->last_handle) {
        return streams->last_found;
    }
    return mend_streams_handle_suffices(streams, handle) && !streams->serves_graph_pools
               ? mend_streams_lookup_other(streams, handle, 0)
               : MEND_STREAM_UNKNOWN;
}

/* Finds or registers a stream. Calls the driver if necessary. Errors of mend_streams_find. */
mend_result mend_users_learn_stream(mend_heap *heap, mend_stream stream, uint32_t graph_pool,
                                    uint32_t *index);
static inline mend_result mend_users_find_stream(mend_heap *heap, mend_stream stream,
                                                 uint32_t graph_pool, uint32_t *index)
{
    if (mend_streams_handle_suffices(&heap->streams, stream)) {
        *index = mend_streams_lookup(&heap->streams, stream, graph_pool);
        if (*index != MEND_STREAM_UNKNOWN) {
            return MEND_OK;
        }
    }
    return mend_users_learn_stream(heap, stream, graph_pool, index);
}

/* Records a fence for frees on a stream that the current call names, inside an open driver scope.
 * If the driver refuses, the fence is recorded when it is needed, or when a call names the stream
 * again. Without either, a wait for the context covers it. */
void mend_users_record_fence(mend_heap *heap, uint32_t stream);

/* As mend_unregister_stream. The caller holds both locks. */
mend_result mend_users_unregister_stream(mend_heap *heap, mend_stream stream);

/* ---- users.c --------------------------------------------------------------------------------- */

/* Registers the stream of a request and finds its graph pool. A request without a stream gets only
 * idle memory, and belongs to no graph pool. Errors of mend_streams_find. */
mend_result mend_requester_find(mend_heap *heap, mend_request *request);

/* The stream that this finds without the driver, as it does for almost all, or UNKNOWN. */
static inline uint32_t mend_requester_known(mend_heap *heap, const mend_request *request)
{
    const bool is_usual = request->owner == 0 && request->capture == 0;
    return is_usual ? mend_users_known_stream(heap, request->handle) : MEND_STREAM_UNKNOWN;
}

/* The stream of an order, in a graph pool (0: none). The graph pools of the stream watch it from
 * now on. Errors of mend_streams_find. */
mend_result mend_requester_find_stream(mend_heap *heap, mend_order order, uint32_t graph_pool,
                                       uint32_t *index);

/* The graph pool for allocations in this order: begun by the program, or of the capture. 0: none.
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_requester_find_graph_pool(mend_heap *heap, mend_order order, uint32_t *graph_pool);

/* ---- users.c --------------------------------------------------------------------------------- */

struct mend_graph_pool {
    mend_list link;  /* of all graph pools of the heap. Begun ones first, the latest before the
                      * others */
    mend_pool *pool; /* for the calls of mend.h. NULL: a graph pool of a capture */
    uint32_t number; /* from 1 */
    bool is_begun;
    mend_watch watch; /* of its stream, or MEND_EVERY_STREAM. While it is begun, until the stream is
                       * unregistered */

    /* Only for a graph pool of a capture, which the pool made (users.c). */
    uint64_t capture;             /* id. 0: the program's own graph pool */
    struct mend_capture_end *end; /* set when the graph has ended */
};

/* The caller allocated the graph pool with malloc. */
/* Without the lock this may miss a graph pool that another thread begins at this moment. */
static inline bool mend_heap_has_begun_graph_pools(const mend_heap *heap)
{
    return atomic_load_explicit(&heap->graph_pools.begun_count, memory_order_relaxed) > 0;
}

static inline void mend_graph_pools_init(mend_heap *heap)
{
    mend_list_init(&heap->graph_pools.list);
}
void mend_graph_pool_enter(mend_heap *heap, mend_graph_pool *graph_pool, mend_pool *pool);

/* Whether the block was allocated in the graph pool. A stream of the graph pool that was only
 * declared for a block (mend_record_stream) does not make it one of the graph pool. */
bool mend_graph_pool_owns(const mend_heap *heap, uint32_t number, const mend_span *span);

/* The number of the graph pool of a live block. 0: none. */
uint32_t mend_graph_pool_number_of(const mend_heap *heap, const mend_span *span);

/* The program's graph pool with this number. NULL: none, or the graph pool of a capture. */
mend_graph_pool *mend_graph_pool_numbered(const mend_heap *heap, uint32_t number);

/* The caller checked that this changes the state. */
void mend_graph_pool_set_begun(mend_heap *heap, mend_graph_pool *graph_pool, mend_stream stream,
                               bool is_begun);

/* Removes the graph pool from the list. Its memory was released, or is released with the heap. */
void mend_graph_pool_drop(mend_heap *heap, mend_graph_pool *graph_pool);

/* The stream is used again: all begun graph pools of the stream watch it, even if an earlier stream
 * with this handle was forgotten. */
void mend_graph_pool_watch_again(mend_heap *heap, mend_stream stream);

/* Releases the graph pool's memory, which is idle after the work queued so far on `stream`
 * (MEND_NO_STREAM: after a wait for the context). The caller then drops the graph pool. Under both
 * locks. Calls the driver. MEND_ERROR_CAPTURING, MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST, MEND_ERROR_OUT_OF_HOST_MEMORY: the graph pool stays. */
mend_result mend_graph_pool_leave(mend_heap *heap, mend_graph_pool *graph_pool, mend_stream stream);

/* Releases the graph pools whose graphs have ended. Does not call the driver. */
void mend_capture_graph_pools_collect_all(mend_heap *heap);
static inline void mend_capture_graph_pools_collect(mend_heap *heap)
{
    if (heap->graph_pools.capture_count > 0) {
        mend_capture_graph_pools_collect_all(heap);
    }
}

/* Waits as mend_streams_wait_oldest. If nothing else is left and *has_graphs is set, it waits once
 * for the context, for launches of graphs that were destroyed: those keep their memory until they
 * end. Then it collects. */
mend_result mend_capture_graph_pools_wait_oldest(mend_heap *heap, uint32_t asking, bool with_asking,
                                                 bool *has_graphs, bool *waited);

/* Frees all graph pools, of a heap that has ended. Ends of graphs are then ignored. */
void mend_graph_pools_free(mend_heap *heap);

#endif
