/* Users of blocks: streams, from the first driver query to their end. And the stream of a request,
 * with the graph pool that will own the block. */
#include "alloc/heap.h"

#include <stdatomic.h>
#include <stdlib.h>

void mend_users_record_fence(mend_heap *heap, uint32_t stream)
{
    mend_result result = mend_streams_close_named(&heap->streams, stream);
    if (result != MEND_OK) {
        mend_driver_work_around(heap, result);
    }
}

mend_result mend_users_learn_stream(mend_heap *heap, mend_stream stream, uint32_t graph_pool,
                                    uint32_t *index)
{
    assert(stream != MEND_NO_STREAM);
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    /* Collects unused slots, also slots whose last fence has passed: no other thread may ask about
     * it, or uses an unmarked slot while it holds `grow`. */
    if (heap->streams.wants_collection && mend_mutex_try_lock(&heap->grow)) {
        (void)mend_streams_poll(&heap->streams);
        mend_slots_collect(&heap->streams);
        mend_mutex_unlock(&heap->grow);
    }
    mend_result result = mend_streams_find(&heap->streams, stream, graph_pool, index);
    if (result == MEND_OK && heap->streams.verify) { /* no other stream gets the slot meanwhile */
        mend_streams_begin_call(&heap->streams, *index);
        mend_users_record_fence(heap, *index);
        mend_streams_end_call(&heap->streams, *index);
        if (!heap->streams.items[*index].known) { /* it was unregistered meanwhile: this is later */
            result = mend_streams_find(&heap->streams, stream, graph_pool, index);
        }
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}

/* ---- streams that end: the driver is not asked about them any more --------------------------- */

/* A stream that the pool knows only from graph pools must not be forgotten during its capture
 * either. */
static mend_result check_captures_of_graph_pools(mend_heap *heap, mend_stream stream)
{
    const uint32_t index = mend_streams_lookup_captured(&heap->streams, stream);
    if (index == MEND_STREAM_UNKNOWN) {
        return MEND_OK;
    }
    mend_driver_scope scope;
    mend_reach reach = MEND_REACH_GONE;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = mend_streams_reach(&heap->streams, index, &reach);
    mend_driver_scope_close(heap, &scope);
    return result == MEND_OK && reach == MEND_REACH_CAPTURED
               ? mend_failure(MEND_ERROR_CAPTURING, "the stream %p is being captured",
                              (void *)stream)
               : result;
}

static void leave_graph_pools(mend_heap *heap, mend_stream stream, uint64_t id)
{
    MEND_LIST_EACH(mend_graph_pool, graph_pool, link, &heap->graph_pools.list) {
        if (!graph_pool->is_begun) {
            break;
        }
        if (graph_pool->watch.handle == stream) {
            mend_watch_end(&graph_pool->watch);
        }
    }
    mend_streams_leave_graph_pools(&heap->streams, stream, id);
}

/* The last fence comes first: if the driver refuses it, the stream is known as before. Then no call
 * finds the slot any more. Waits for calls that have found it before, because the program may
 * destroy the stream after this. */
mend_result mend_users_unregister_stream(mend_heap *heap, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    uint32_t index;
    if (!mend_streams_handle_suffices(&heap->streams, stream)) {
        MEND_TRY(mend_users_find_stream(heap, stream, 0, &index));
    } else if ((index = mend_streams_lookup(&heap->streams, stream, 0)) == MEND_STREAM_UNKNOWN) {
        MEND_TRY(check_captures_of_graph_pools(heap, stream));
        leave_graph_pools(heap, stream, 0);
        return MEND_OK;
    }
    mend_driver_scope scope;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    uint64_t id = heap->streams.items[index].id;
    /* One last fence, for memory that was freed and for blocks that the stream still uses. */
    mend_streams_stamp(&heap->streams, index, 0);
    mend_result result = mend_streams_forget(&heap->streams, index);
    if (result == MEND_OK) {
        mend_streams_await_calls(&heap->streams, index, &heap->state);
    }
    mend_driver_scope_close(heap, &scope);
    MEND_TRY(result);
    leave_graph_pools(heap, stream, id);
    return MEND_OK;
}

/* ---- graph pools ----------------------------------------------------------------------------- */

/* Graph pools: blocks that belong to captured graphs. While a graph pool is begun, requests on its
 * streams go to streams of the graph pool (memory/stream.h). No other stream gets memory that is
 * freed there. A block of a graph pool has a mark among its users, which stays on whatever stream
 * it is freed. */

void mend_graph_pool_enter(mend_heap *heap, mend_graph_pool *graph_pool, mend_pool *pool)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(heap->graph_pools.last_number + 1 < MEND_GRAPH_POOL_OF_CAPTURE);
    *graph_pool = (mend_graph_pool){.pool = pool, .number = ++heap->graph_pools.last_number};
    mend_list_append(&heap->graph_pools.list, &graph_pool->link);
    heap->graph_pools.count++;
}

static bool takes(const mend_graph_pool *graph_pool, mend_stream stream)
{
    const mend_stream taken = graph_pool->watch.handle;
    const bool takes_legacy = taken == NULL || taken == MEND_STREAM_LEGACY;
    return taken == MEND_EVERY_STREAM || taken == stream ||
           (takes_legacy && (stream == NULL || stream == MEND_STREAM_LEGACY));
}

/* The number of the graph pool that takes requests on a stream now. 0: none. */
static uint32_t taking(const mend_heap *heap, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(stream != MEND_NO_STREAM);
    MEND_LIST_EACH(const mend_graph_pool, graph_pool, link, &heap->graph_pools.list) {
        if (!graph_pool->is_begun || takes(graph_pool, stream)) {
            return graph_pool->is_begun ? graph_pool->number : 0;
        }
    }
    return 0;
}

/* The mark of its graph pool is the oldest user of a block. */
uint32_t mend_graph_pool_number_of(const mend_heap *heap, const mend_span *span)
{
    assert(span->live);
    uint32_t owner = 0;
    for (const mend_wait *at = span->of_graph_pool ? span->waits.others : NULL; at != NULL;
         at = at->next) {
        owner = at->stamp.epoch == 0 ? heap->streams.items[at->stamp.stream].graph_pool : owner;
    }
    return owner;
}

mend_graph_pool *mend_graph_pool_numbered(const mend_heap *heap, uint32_t number)
{
    assert(mend_mutex_is_held(&heap->state));
    if (number == 0 || (number & MEND_GRAPH_POOL_OF_CAPTURE) != 0) {
        return NULL;
    }
    MEND_LIST_EACH(mend_graph_pool, graph_pool, link, &heap->graph_pools.list) {
        if (graph_pool->number == number) {
            return graph_pool;
        }
    }
    return NULL;
}

void mend_graph_pool_watch_again(mend_heap *heap, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    MEND_LIST_EACH(mend_graph_pool, graph_pool, link, &heap->graph_pools.list) {
        if (!graph_pool->is_begun) {
            return;
        }
        if (takes(graph_pool, stream)) {
            mend_watch_begin(&heap->streams, &graph_pool->watch,
                             heap->streams.contexts[MEND_OWN_CONTEXT]);
        }
    }
}

void mend_graph_pool_set_begun(mend_heap *heap, mend_graph_pool *graph_pool, mend_stream stream,
                               bool is_begun)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(graph_pool->is_begun != is_begun);
    assert(graph_pool->capture == 0);
    assert(is_begun || atomic_load(&heap->graph_pools.begun_count) > 0);
    mend_list_remove(&graph_pool->link);
    mend_watch_end(&graph_pool->watch);
    atomic_fetch_add_explicit(&heap->graph_pools.begun_count, is_begun ? 1u : UINT_MAX,
                              memory_order_relaxed);
    mend_process_note_begun(is_begun);
    heap->streams.serves_graph_pools = mend_heap_has_begun_graph_pools(heap);
    mend_streams_look_up_anew(&heap->streams);
    graph_pool->is_begun = is_begun;
    graph_pool->watch.handle = stream;
    if (is_begun) {
        mend_list_insert_after(&heap->graph_pools.list, &graph_pool->link);
        mend_graph_pool_watch_again(heap, stream);
    } else {
        mend_list_append(&heap->graph_pools.list, &graph_pool->link);
    }
}

void mend_graph_pool_drop(mend_heap *heap, mend_graph_pool *graph_pool)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(heap->graph_pools.count > heap->graph_pools.capture_count || graph_pool->capture != 0);
    if (graph_pool->capture == 0 && mend_events_has(&heap->events, MEND_EVENT_GRAPH_POOL_DESTROY)) {
        mend_events_put_step(&heap->events,
                             &(mend_history_event){.kind = MEND_EVENT_GRAPH_POOL_DESTROY,
                                                   .stream = MEND_NO_STREAM,
                                                   .graph_pool = graph_pool});
    }
    mend_list_remove(&graph_pool->link);
    heap->graph_pools.count--;
}

/* ---- graph pools of captures ----------------------------------------------------------------- */

/* A graph uses its memory again at every launch: memory allocated on a captured stream outside of
 * the program's own graph pools, or freed or declared there. So each capture that calls gets a
 * graph pool, whose memory no other request gets until the driver reports the end of the graph. */

#define GRAPH_POOL_OF(at) MEND_CONTAINER_OF(at, mend_graph_pool, link)

/* Shared by a graph pool and the driver. The last of the two frees it. The driver calls in any
 * thread, maybe long after the pool is destroyed. */
typedef struct mend_capture_end {
    atomic_bool has_come;
    atomic_int owners;
} mend_capture_end;

static void leave(mend_capture_end *end)
{
    if (atomic_fetch_sub(&end->owners, 1) == 1) {
        free(end);
    }
}

static void hear(void *context)
{
    mend_capture_end *end = context;
    atomic_store(&end->has_come, true);
    atomic_fetch_add(&mend_process_graph_ends, 1u);
    leave(end);
}

static void free_graph_pool(mend_graph_pool *graph_pool)
{
    if (graph_pool->end != NULL) {
        leave(graph_pool->end);
    }
    free(graph_pool);
}

void mend_graph_pools_free(mend_heap *heap)
{
    mend_list *graph_pools = &heap->graph_pools.list;
    while (!mend_list_is_empty(graph_pools)) {
        mend_graph_pool *graph_pool = GRAPH_POOL_OF(graph_pools->next);
        mend_list_remove(&graph_pool->link);
        if (graph_pool->is_begun) {
            mend_watch_end(&graph_pool->watch);
            mend_process_note_begun(false);
        }
        free_graph_pool(graph_pool);
    }
}

static mend_result make(mend_heap *heap, mend_order order, uint32_t *number)
{
    mend_graph_pool *graph_pool = malloc(sizeof(*graph_pool));
    mend_capture_end *end = calloc(1, sizeof(*end));
    if (end != NULL) {
        atomic_init(&end->owners, 2);
    }
    mend_driver_scope scope;
    mend_result result = graph_pool != NULL && end != NULL
                             ? mend_driver_scope_open(heap, &scope)
                             : mend_no_host_memory("the memory of a capture");
    if (result == MEND_OK) { /* asks the driver to report the end of the graph */
        const mend_status status =
            heap->driver->capture_keep(heap->driver, order.stream, hear, end);
        result = mend_driver_result(heap, MEND_ANSWER(capture_keep, status));
        mend_driver_scope_close(heap, &scope);
    }
    if (result != MEND_OK) {
        free(graph_pool);
        free(end);
        return result;
    }
    mend_graph_pool_enter(heap, graph_pool, NULL);
    graph_pool->number |= MEND_GRAPH_POOL_OF_CAPTURE;
    graph_pool->capture = order.capture;
    graph_pool->end = end;
    heap->graph_pools.capture_count++;
    *number = graph_pool->number;
    return MEND_OK;
}

/* Looks at the graph pools only if a graph of the process has ended since the last look. */
void mend_capture_graph_pools_collect_all(mend_heap *heap)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_list *end = &heap->graph_pools.list;
    const unsigned heard = atomic_load(&mend_process_graph_ends);
    if (heard == heap->graph_pools.ends_seen) {
        return;
    }
    heap->graph_pools.ends_seen = heard;
    for (mend_list *at = end->next, *next; at != end; at = next) {
        next = at->next;
        mend_graph_pool *graph_pool = GRAPH_POOL_OF(at);
        if (graph_pool->end != NULL && atomic_load(&graph_pool->end->has_come)) {
            mend_streams_end_graph_pool(&heap->streams, graph_pool->number, graph_pool->capture);
            mend_streams_release_graph_pool(&heap->streams, graph_pool->number);
            mend_graph_pool_drop(heap, graph_pool);
            free_graph_pool(graph_pool);
            heap->graph_pools.capture_count--;
        }
    }
}

/* ---- requesters ------------------------------------------------------------------------------ */

mend_result mend_requester_find_stream(mend_heap *heap, mend_order order, uint32_t graph_pool,
                                       uint32_t *index)
{
    MEND_TRY(mend_users_find_stream(heap, order.stream, graph_pool, index));
    if (graph_pool != 0) {
        mend_stream_state *state = &heap->streams.items[*index];
        state->used_outside |= order.capture == 0;
        state->named_in = order.capture;
        if (order.capture != 0 && (graph_pool & MEND_GRAPH_POOL_OF_CAPTURE) == 0 &&
            taking(heap, order.stream) != graph_pool) {
            /* of the program and not begun on the stream: no watch tells of the end */
            mend_slots_see(&heap->streams, *index, true, order.capture);
            state->serves_capture = true;
        }
        mend_graph_pool_watch_again(heap, order.stream);
    }
    return MEND_OK;
}

mend_result mend_requester_find_graph_pool(mend_heap *heap, mend_order order, uint32_t *graph_pool)
{
    *graph_pool = taking(heap, order.stream);
    if (*graph_pool != 0 || order.capture == 0) {
        return MEND_OK;
    }
    const mend_list *end = &heap->graph_pools.list;
    for (const mend_list *at = end->previous; at != end; at = at->previous) {
        if (GRAPH_POOL_OF(at)->capture == order.capture) {
            *graph_pool = GRAPH_POOL_OF(at)->number;
            return MEND_OK;
        }
    }
    return make(heap, order, graph_pool);
}

mend_result mend_requester_find(mend_heap *heap, mend_request *request)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(request->handle != MEND_EVERY_STREAM);
    mend_capture_graph_pools_collect(heap);
    if (request->handle == MEND_NO_STREAM) {
        heap->streams.may_be_several = true;
        heap->streams.serves_any = true;
        request->stream = MEND_STREAM_UNKNOWN;
        return MEND_OK;
    }
    request->graph_pool = request->owner;
    request->stream = mend_requester_known(heap, request);
    if (request->stream != MEND_STREAM_UNKNOWN) {
        return MEND_OK;
    }
    const mend_order order = {request->handle, request->capture};
    if (request->owner == 0 && request->pages == NULL) { /* pages belong to no graph pool */
        MEND_TRY(mend_requester_find_graph_pool(heap, order, &request->graph_pool));
    }
    return mend_requester_find_stream(heap, order, request->graph_pool, &request->stream);
}
