/* Memory that other streams freed: the driver calls before a request can use it. */
#include "alloc/heap.h"

#include "plan/constants.h"

static uint64_t behind_fences(const mend_stream_state *state)
{
    uint64_t bytes = 0;
    for (size_t k = 0; k < state->fence_count; k++) {
        bytes += state->fences[k].bytes;
    }
    return bytes;
}

/* Whether more than so many bytes were freed that no stream's own fence covers: without a stream,
 * or on streams out of reach. At most the free memory counts, because a stream may use memory again
 * that it freed. With `covered`, frees that events of the context cover count too, and for a
 * request without a stream also frees behind fences, because no stream can wait for it. */
static bool has_unfenced(const mend_heap *heap, uint32_t asking, bool covered, uint64_t most_bytes)
{
    const mend_streams *streams = &heap->streams;
    uint64_t bytes = 0;
    if (heap->chunks.reserved_bytes <= most_bytes ||
        heap->chunks.reserved_bytes - most_bytes <= mend_heap_awake_bytes(heap)) {
        return false;
    }
    MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
        const mend_stream_state *state = &streams->items[i];
        if (i == asking && i != MEND_STREAM_UNKNOWN) {
            continue;
        }
        bytes += state->open ? state->open_bytes : 0;
        bytes += covered && asking == MEND_STREAM_UNKNOWN ? behind_fences(state) : 0;
        for (uint32_t k = 0; covered && k < streams->context_event_count; k++) {
            const mend_awaited *awaited = &state->awaited[k];
            bytes += awaited->epoch > state->passed_epoch ? awaited->bytes : 0;
        }
    }
    return bytes > most_bytes;
}

/* Twice as much after each capture that this cost. */
static uint64_t unfenced_allowed(const mend_heap *heap)
{
    enum { MOST_DOUBLINGS = 16 };
    if (!heap->config.allow_context_fences) {
        return UINT64_MAX;
    }
    const uint64_t doublings = mend_min_u64(heap->streams.hidden_captures, MOST_DOUBLINGS);
    return mend_max_u64(heap->config.placement.unfenced_bytes,
                        heap->counters.live_bytes / UNFENCED_OF_LIVE)
           << doublings;
}

bool mend_fallback_lacks_context_event(const mend_heap *heap)
{
    return mend_streams_are_several(&heap->streams) && !heap->streams.lacks_context_events &&
           has_unfenced(heap, MEND_STREAM_UNKNOWN, false, unfenced_allowed(heap));
}

/* Records fences for frees of other streams than `except`, so that a poll can find them passed, and
 * the event of the context if much memory waits for it alone. */
static mend_result close_others(mend_heap *heap, uint32_t except, uint64_t allowed_bytes)
{
    mend_streams *streams = &heap->streams;
    for (uint32_t i = streams->items[MEND_STREAM_UNKNOWN].in[MEND_SLOTS_UNPASSED].next;
         i != MEND_STREAM_UNKNOWN; i = streams->items[i].in[MEND_SLOTS_UNPASSED].next) {
        if (i != except && streams->items[i].open) {
            MEND_TRY(mend_streams_close_epoch(streams, i));
        }
    }
    return !streams->lacks_context_events && has_unfenced(heap, except, false, allowed_bytes)
               ? mend_streams_record_context(streams, except)
               : MEND_OK;
}

mend_result mend_fallback_close_all(mend_heap *heap, bool is_captured)
{
    mend_streams *streams = &heap->streams;
    if (mend_streams_are_several(streams)) {
        MEND_TRY(close_others(heap, MEND_STREAM_UNKNOWN,
                              is_captured ? UINT64_MAX : unfenced_allowed(heap)));
    }
    /* Copies that may still run, because the driver refused the wait for them, hold all mappings,
     * however little was freed. Not where an event has cost a capture before. */
    return mend_retire_copies_have_ended(heap) || is_captured ||
                   !heap->config.allow_context_fences || streams->hidden_captures > 0 ||
                   mend_stamp_has_fence(streams, heap->retire.copies)
               ? MEND_OK
               : mend_streams_record_context(streams, MEND_STREAM_UNKNOWN);
}

void mend_fallback_look_for_ends(mend_heap *heap)
{
    mend_driver_scope scope;
    if (mend_list_is_empty(&heap->usage.pending) || !mend_mutex_try_lock(&heap->grow)) {
        return;
    }
    if (mend_driver_scope_open(heap, &scope) == MEND_OK) {
        (void)close_others(heap, MEND_STREAM_UNKNOWN, UINT64_MAX);
        mend_streams_poll(&heap->streams);
        mend_driver_scope_close(heap, &scope);
    }
    mend_mutex_unlock(&heap->grow);
}

bool mend_fallback_awaits_much(const mend_heap *heap, const mend_request *request)
{
    const uint64_t allowed_bytes = unfenced_allowed(heap);
    return mend_layout_stamps_matter(heap, request->stream) &&
           allowed_bytes <= UINT64_MAX / WAIT_OF_UNFENCED &&
           has_unfenced(heap, request->stream, true, allowed_bytes * WAIT_OF_UNFENCED);
}

bool mend_fallback_waits_on_host(const mend_heap *heap, const mend_request *request)
{
    return request->stream == MEND_STREAM_UNKNOWN || request->graph_pool != 0 ||
           !heap->config.allow_stream_waits || heap->streams.lacks_context_events;
}

mend_result mend_fallback_ask_others(mend_heap *heap, const mend_request *request)
{
    if (request->graph_pool != 0 && request->capture != 0) {
        mend_streams_learn_order(&heap->streams, request->stream, request->capture);
    }
    MEND_TRY(close_others(heap, request->stream, unfenced_allowed(heap)));
    mend_streams_poll(&heap->streams);
    return MEND_OK;
}

mend_outcome mend_fallback_behind_device_waits(mend_heap *heap, const mend_request *request,
                                               uint64_t order, mend_place_try *try_place,
                                               mend_span **span)
{
    mend_reach reach = MEND_REACH_GONE;
    /* Graphs of a graph pool may be launched on any stream. */
    if (!heap->config.allow_stream_waits || request->graph_pool != 0 ||
        !mend_streams_are_several(&heap->streams)) {
        return MEND_NOTHING;
    }
    if (mend_streams_reach(&heap->streams, request->stream, &reach) != MEND_OK) {
        return MEND_FAILED;
    }
    if (reach != MEND_REACH_OPEN) { /* also of a request without a stream */
        return MEND_NOTHING;
    }
    mend_request behind = *request;
    behind.behind_wait = order;
    /* Each wait is queued without the `state` lock, so the search begins again. No wait is queued
     * twice. */
    mend_outcome outcome;
    do {
        outcome = try_place(heap, &behind, span);
    } while (outcome == MEND_AGAIN);
    return outcome;
}

/* For a request without a stream the oldest work first, until little is left. For others no fence
 * of a stream, which their stream may wait for on the device. */
static mend_result wait_while_much(mend_heap *heap, const mend_request *request)
{
    mend_streams *streams = &heap->streams;
    if (request->stream != MEND_STREAM_UNKNOWN) {
        return mend_streams_wait_unfenced(streams, request->stream);
    }
    mend_result result = MEND_OK;
    bool waited = true;
    mend_streams_begin_host_waits(streams);
    while (result == MEND_OK && waited && mend_fallback_awaits_much(heap, request)) {
        result = mend_streams_wait_oldest(streams, MEND_STREAM_UNKNOWN, false, &waited);
    }
    return result;
}

mend_outcome mend_fallback_place_without_growth(mend_heap *heap, const mend_request *request,
                                                mend_span **span)
{
    mend_request free_only = *request;
    free_only.creates_nothing = true;
    const bool is_block = request->pages == NULL;
    if (is_block) {
        MEND_TRY_NEXT(mend_place(heap, &free_only, span));
        MEND_TRY_NEXT(
            mend_fallback_behind_device_waits(heap, &free_only, MEND_ANY_FENCE, mend_place, span));
    }
    if (!mend_fallback_waits_on_host(heap, request)) {
        return MEND_NOTHING;
    }
    if (is_block) { /* cheaper than a CPU stall: beside memory in use, and in a part of an empty
                     * chunk that other plans would spare */
        mend_request breaking = free_only;
        breaking.zone = MEND_ZONE_LARGE;
        breaking.may_break = true;
        MEND_TRY_NEXT(mend_place_in_stretch(heap, &free_only, span));
        MEND_TRY_NEXT(mend_place(heap, &breaking, span));
    }
    const bool any_begun = atomic_load(&mend_process_begun_count) > 0;
    const mend_result result = any_begun ? MEND_OK : wait_while_much(heap, request);
    return result == MEND_OK || result == MEND_ERROR_CAPTURING ? MEND_NOTHING : MEND_FAILED;
}

/* ---- before the pool grows without end ------------------------------------------------------- */

mend_outcome mend_fallback_place_before_growth(mend_heap *heap, const mend_request *request,
                                               mend_span **span)
{
    const mend_streams *streams = &heap->streams;
    const uint64_t most_bytes = mend_max_u64(heap->budget.headroom.most_live_bytes,
                                             mend_heap_awake_bytes(heap) + request->size_bytes);
    if (heap->chunks.reserved_bytes + request->size_bytes <=
            mend_percent_of(most_bytes, (uint64_t)heap->config.growth_percent) ||
        request->pages != NULL || mend_fallback_waits_on_host(heap, request) ||
        !mend_streams_are_several(streams)) {
        return MEND_NOTHING;
    }
    uint64_t waiting_bytes = 0; /* that others freed behind fences */
    uint64_t oldest = UINT64_MAX;
    MEND_SLOTS_EACH_IN(i, streams, MEND_SLOTS_UNPASSED) {
        const mend_stream_state *state = &streams->items[i];
        if (i != request->stream && state->fence_count > 0) {
            waiting_bytes += behind_fences(state);
            oldest = mend_min_u64(oldest, state->fences[0].order);
        }
    }
    if (waiting_bytes < request->size_bytes) {
        return MEND_NOTHING;
    }
    mend_request free_only = *request;
    free_only.creates_nothing = true;
    MEND_TRY_NEXT(mend_place(heap, &free_only, span));
    /* For fences ever half as young: a wait for the latest would run one stream behind the other.
     */
    for (uint64_t younger_bytes = streams->closed_bytes - oldest;
         younger_bytes >= request->size_bytes; younger_bytes /= 2) {
        MEND_TRY_NEXT(mend_fallback_behind_device_waits(
            heap, &free_only, streams->closed_bytes - younger_bytes, mend_place, span));
    }
    return mend_fallback_behind_device_waits(heap, &free_only, MEND_ANY_FENCE, mend_place, span);
}
