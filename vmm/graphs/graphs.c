/* The calls about graph pools. A graph pool has a pointer to its pool, which outlives it. Graph
 * pools themselves: alloc/heap.h. */
#include <stdlib.h>

#include "alloc/heap.h"
#include "mend/mend_graph_pools.h"
#include "pool/pool.h"

mend_result mend_graph_pool_create(mend_pool *pool, mend_graph_pool **graph_pool)
{
    MEND_INVALID_IF(pool == NULL || graph_pool == NULL,
                    "mend_graph_pool_create: pool or graph pool is NULL");
    MEND_TRY(mend_pool_check_process(pool));
    MEND_TRY(mend_pool_needs_chunks(pool, "mend_graph_pool_create"));
    mend_graph_pool *made = malloc(sizeof(*made));
    if (made == NULL) {
        return mend_publish(mend_no_host_memory("a graph pool"));
    }
    mend_result result = mend_pool_enter(pool);
    if (result != MEND_OK) {
        free(made);
        return result;
    }
    mend_graph_pool_enter(&pool->heap, made, pool);
    *graph_pool = made;
    return mend_pool_leave(pool, MEND_OK);
}

/* While a graph pool is begun no event of the context may be recorded: records one before if much
 * memory was freed without a stream. No request needs it, so nothing fails. A thread that holds
 * `grow` records the events that it needs, and may be inside a driver call. */
static void close_before(mend_heap *heap)
{
    mend_driver_scope scope;
    if (!mend_fallback_lacks_context_event(heap) || !mend_mutex_try_lock(&heap->grow)) {
        return;
    }
    if (mend_driver_scope_open(heap, &scope) == MEND_OK) {
        (void)mend_streams_record_context(&heap->streams, MEND_STREAM_UNKNOWN);
        mend_driver_scope_close(heap, &scope);
    }
    mend_mutex_unlock(&heap->grow);
}

static mend_result set_begun(mend_graph_pool *graph_pool, mend_stream stream, bool is_begun,
                             const char *mistake)
{
    mend_pool *pool = graph_pool->pool;
    MEND_TRY(mend_pool_enter(pool));
    if (is_begun) {
        close_before(&pool->heap);
    }
    if (graph_pool->is_begun == is_begun) {
        return mend_pool_leave(pool, mend_pool_invalid(mistake));
    }
    mend_graph_pool_set_begun(&pool->heap, graph_pool, stream, is_begun);
    return mend_pool_leave(pool, MEND_OK);
}

mend_result mend_graph_pool_begin(mend_graph_pool *graph_pool, mend_stream stream)
{
    MEND_INVALID_IF(graph_pool == NULL || stream == MEND_NO_STREAM,
                    "mend_graph_pool_begin: graph pool is NULL, or MEND_NO_STREAM");
    mend_result result = set_begun(graph_pool, stream, true,
                                   "mend_graph_pool_begin: the graph pool is already begun");
    if (result == MEND_OK) {
        mend_process_await_unsafe_call(); /* the program may begin its capture now */
    }
    return result;
}

mend_result mend_graph_pool_end(mend_graph_pool *graph_pool)
{
    MEND_INVALID_IF(graph_pool == NULL, "mend_graph_pool_end: graph pool is NULL");
    return set_begun(graph_pool, NULL, false, "mend_graph_pool_end: the graph pool was not begun");
}

/* Only a wait for the context, and for the contexts of other devices whose streams used the memory,
 * makes it idle. A stream that was met in its capture may be of any device that may access the
 * memory: from now on waits cover all of those. */
static mend_result close_on_none(mend_heap *heap, const mend_graph_pool *graph_pool)
{
    bool is_unidentified = false;
    mend_status status = MEND_DRIVER_OK;
    mend_driver_scope scope;
    MEND_SLOTS_EACH(i, &heap->streams, graph_pool->number) {
        is_unidentified |= heap->streams.items[i].id == 0;
    }
    if (!is_unidentified) {
        return MEND_OK;
    }
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    for (int i = 0; i < heap->allowed.count && status == MEND_DRIVER_OK; i++) {
        const int device = heap->allowed.devices[i];
        if (device != heap->config.device) {
            status = mend_foreign_admit_device(&heap->streams, device);
        }
    }
    mend_driver_scope_close(heap, &scope);
    return mend_streams_driver_result(&heap->streams, MEND_CALL_device_open, status);
}

/* Releases the memory of a graph pool, which is idle after the work queued so far on `stream`
 * (MEND_NO_STREAM: after a wait for the context). After a failure the graph pool stays. */
static mend_result leave(mend_heap *heap, const mend_graph_pool *graph_pool, mend_stream stream)
{
    mend_streams *streams = &heap->streams;
    MEND_TRY(mend_streams_keep_captured(streams, graph_pool->number));
    MEND_SLOTS_EACH(i, streams, graph_pool->number) {
        mend_streams_stamp(streams, i, 0); /* for blocks that are still live */
    }
    if (stream == MEND_NO_STREAM) {
        MEND_TRY(close_on_none(heap, graph_pool));
    } else { /* records events on it, which is behind the last launch, for all use of the memory */
        uint32_t recorder;
        mend_driver_scope scope;
        MEND_TRY(mend_users_find_stream(heap, stream, 0, &recorder));
        MEND_TRY(mend_driver_scope_open(heap, &scope));
        const mend_result result =
            mend_streams_close_graph_pool(streams, graph_pool->number, recorder);
        mend_driver_scope_close(heap, &scope);
        MEND_TRY(result);
    }
    mend_streams_release_graph_pool(streams, graph_pool->number);
    return MEND_OK;
}

mend_result mend_graph_pool_destroy(mend_graph_pool *graph_pool, mend_stream stream)
{
    MEND_INVALID_IF(graph_pool == NULL || stream == MEND_EVERY_STREAM,
                    "mend_graph_pool_destroy: graph pool is NULL, or MEND_EVERY_STREAM");
    mend_pool *pool = graph_pool->pool;
    MEND_TRY(mend_pool_enter_all(pool));
    mend_result result =
        graph_pool->is_begun
            ? mend_pool_invalid("mend_graph_pool_destroy: the graph pool was not ended")
            : leave(&pool->heap, graph_pool, stream);
    if (result == MEND_OK) {
        mend_graph_pool_drop(&pool->heap, graph_pool);
        free(graph_pool);
        mend_retry_all(&pool->heap);
    }
    return mend_pool_leave_all(pool, result);
}

/* ---- blocks of a graph pool ------------------------------------------------------------------ */

mend_result mend_graph_pool_free(mend_graph_pool *graph_pool, void *pointer, mend_stream stream)
{
    MEND_INVALID_IF(
        graph_pool == NULL || stream == MEND_NO_STREAM || stream == MEND_EVERY_STREAM,
        "mend_graph_pool_free: graph pool is NULL, or MEND_NO_STREAM, or MEND_EVERY_STREAM");
    if (pointer == NULL) {
        return MEND_OK;
    }
    mend_pool *pool = graph_pool->pool;
    mend_order order = {.stream = stream};
    MEND_TRY(mend_pool_find_capture(pool, stream, &order.capture));
    MEND_TRY(mend_pool_take_to_free(pool));
    return mend_pool_leave(pool,
                           mend_heap_free_in_graph_pool(&pool->heap, (uint64_t)(uintptr_t)pointer,
                                                        order, graph_pool->number));
}

mend_result mend_graph_pool_record_stream(mend_graph_pool *graph_pool, void *pointer,
                                          mend_stream stream)
{
    MEND_INVALID_IF(graph_pool == NULL || pointer == NULL || stream == MEND_NO_STREAM ||
                        stream == MEND_EVERY_STREAM,
                    "mend_graph_pool_record_stream: graph pool or pointer is NULL, or"
                    " MEND_NO_STREAM, or MEND_EVERY_STREAM");
    mend_pool *pool = graph_pool->pool;
    mend_order order = {.stream = stream};
    MEND_TRY(mend_pool_find_capture(pool, stream, &order.capture));
    MEND_TRY(mend_pool_take(pool));
    return mend_pool_leave(pool, mend_heap_record_stream(&pool->heap, (uint64_t)(uintptr_t)pointer,
                                                         order, graph_pool->number));
}
