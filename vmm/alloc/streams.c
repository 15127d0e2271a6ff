/* Memory that other streams freed: the driver calls before a request can use it. */
#include "alloc/fallback.h"

#include "map/map.h"
#include "plan/constants.h"

/* Bytes freed behind events of the context that have not passed, as far as is known. */
static uint64_t behind_context(const mend_streams *streams, const mend_stream_state *state)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < streams->context_event_count; k++) {
        const mend_awaited *awaited = &state->awaited[k];
        bytes += awaited->epoch > state->passed_epoch ? awaited->bytes : 0;
    }
    return bytes;
}

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
        if (i != asking || i == MEND_STREAM_UNKNOWN) {
            bytes += state->open ? state->open_bytes : 0;
            bytes += covered ? behind_context(streams, state) : 0;
            bytes += covered && asking == MEND_STREAM_UNKNOWN ? behind_fences(state) : 0;
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
    const uint32_t doublings = heap->streams.hidden_captures < MOST_DOUBLINGS
                                   ? heap->streams.hidden_captures
                                   : MOST_DOUBLINGS;
    return mend_max_u64(heap->config.placement.unfenced_bytes,
                        heap->counters.live_bytes / UNFENCED_OF_LIVE)
           << doublings;
}

/* Records the event of the context if much memory waits for it alone. */
static mend_result close_unfenced(mend_heap *heap, uint32_t asking, uint64_t allowed_bytes)
{
    mend_streams *streams = &heap->streams;
    bool recorded = false;
    return !streams->lacks_context_events && has_unfenced(heap, asking, false, allowed_bytes)
               ? mend_streams_record_context(streams, asking, &recorded)
               : MEND_OK;
}

void mend_fallback_close_before_graph_pool(mend_heap *heap)
{
    const uint64_t allowed_bytes = unfenced_allowed(heap);
    mend_driver_scope scope;
    /* A thread that holds `grow` records the events that it needs, and may be inside a driver
     * call. */
    if (!mend_streams_are_several(&heap->streams) ||
        !has_unfenced(heap, MEND_STREAM_UNKNOWN, false, allowed_bytes) ||
        !mend_mutex_try_lock(&heap->grow)) {
        return;
    }
    if (mend_driver_scope_open(heap, &scope) == MEND_OK) {
        (void)close_unfenced(heap, MEND_STREAM_UNKNOWN, allowed_bytes);
        mend_driver_scope_close(heap, &scope);
    }
    mend_mutex_unlock(&heap->grow);
}

/* Records fences for frees of other streams than `except`, so that a poll can find them passed. */
static mend_result close_others(mend_heap *heap, uint32_t except, uint64_t allowed_bytes)
{
    mend_streams *streams = &heap->streams;
    for (uint32_t i = streams->items[MEND_STREAM_UNKNOWN].in[MEND_SLOTS_UNPASSED].next;
         i != MEND_STREAM_UNKNOWN; i = streams->items[i].in[MEND_SLOTS_UNPASSED].next) {
        if (i != except && streams->items[i].open) {
            MEND_TRY(mend_streams_close_epoch(streams, i));
        }
    }
    return close_unfenced(heap, except, allowed_bytes);
}

/* Copies that may still run, because the driver refused the wait for them, hold all mappings,
 * however little was freed. Not where an event has cost a capture before. */
static mend_result close_copies(mend_heap *heap)
{
    mend_streams *streams = &heap->streams;
    bool recorded = false;
    return !heap->config.allow_context_fences || streams->hidden_captures > 0 ||
                   mend_stamp_has_fence(streams, heap->retire.copies)
               ? MEND_OK
               : mend_streams_record_context(streams, MEND_STREAM_UNKNOWN, &recorded);
}

mend_result mend_fallback_close_all(mend_heap *heap, bool is_captured)
{
    MEND_TRY(mend_streams_are_several(&heap->streams)
                 ? close_others(heap, MEND_STREAM_UNKNOWN,
                                is_captured ? UINT64_MAX : unfenced_allowed(heap))
                 : MEND_OK);
    return mend_retire_copies_have_ended(heap) || is_captured ? MEND_OK : close_copies(heap);
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
    const bool has_others =
        request->stream == MEND_STREAM_UNKNOWN || mend_streams_are_several(&heap->streams);
    return has_others && allowed_bytes <= UINT64_MAX / WAIT_OF_UNFENCED &&
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

/* False for a graph pool, because its graphs may be launched on any stream, and for a request
 * without a stream. */
/* Whether the request's stream may be made to wait for others, on the device. Calls the driver. */
static mend_result may_wait_behind(mend_heap *heap, const mend_request *request, bool *may_wait)
{
    *may_wait = false;
    if (!heap->config.allow_stream_waits || request->graph_pool != 0 ||
        !mend_streams_are_several(&heap->streams)) {
        return MEND_OK;
    }
    mend_reach reach = MEND_REACH_GONE;
    mend_result result = mend_streams_reach(&heap->streams, request->stream, &reach);
    *may_wait = result == MEND_OK && reach == MEND_REACH_OPEN;
    return result;
}

mend_outcome mend_fallback_behind_device_waits(mend_heap *heap, const mend_request *request,
                                               uint64_t order, mend_place_try *try_place,
                                               mend_span **span)
{
    bool may_wait;
    mend_result result = may_wait_behind(heap, request, &may_wait);
    if (result != MEND_OK || !may_wait) {
        return result != MEND_OK ? MEND_FAILED : MEND_NOTHING;
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

/* Places cheaper than a CPU stall: beside memory in use, and in a part of an empty chunk that other
 * plans would spare. */
static mend_outcome place_before_host_wait(mend_heap *heap, const mend_request *free_only,
                                           mend_span **span)
{
    mend_request breaking = *free_only;
    breaking.zone = MEND_ZONE_LARGE;
    breaking.may_break = true;
    mend_outcome outcome = mend_place_in_stretch(heap, free_only, span);
    return outcome == MEND_NOTHING ? mend_place(heap, &breaking, span) : outcome;
}

mend_outcome mend_fallback_place_without_growth(mend_heap *heap, const mend_request *request,
                                                mend_span **span)
{
    mend_request free_only = *request;
    free_only.creates_nothing = true;
    const bool is_block = request->pages == NULL;
    mend_outcome outcome = is_block ? mend_place(heap, &free_only, span) : MEND_NOTHING;
    if (outcome == MEND_NOTHING && is_block) {
        outcome =
            mend_fallback_behind_device_waits(heap, &free_only, MEND_ANY_FENCE, mend_place, span);
    }
    const bool is_waiting = outcome == MEND_NOTHING && mend_fallback_waits_on_host(heap, request);
    if (is_waiting && is_block) {
        outcome = place_before_host_wait(heap, &free_only, span);
    }
    if (is_waiting && outcome == MEND_NOTHING && !mend_process_has_begun()) {
        mend_result result = wait_while_much(heap, request);
        outcome = result == MEND_OK || result == MEND_ERROR_CAPTURING ? MEND_NOTHING : MEND_FAILED;
    }
    return outcome;
}

/* ---- before the pool grows without end ------------------------------------------------------- */

/* Memory that other streams freed behind fences, and the order of the oldest fence. */
static uint64_t waiting_of_others(const mend_streams *streams, uint32_t asking, uint64_t *oldest)
{
    uint64_t bytes = 0;
    *oldest = UINT64_MAX;
    MEND_SLOTS_EACH_IN(i, streams, MEND_SLOTS_UNPASSED) {
        const mend_stream_state *state = &streams->items[i];
        if (i != asking && state->fence_count > 0) {
            bytes += behind_fences(state);
            *oldest = mend_min_u64(*oldest, state->fences[0].order);
        }
    }
    return bytes;
}

static bool would_grow_beyond(const mend_heap *heap, const mend_request *request)
{
    const uint64_t percent = (uint64_t)heap->config.growth_percent;
    const uint64_t most_bytes = mend_max_u64(heap->budget.headroom.most_live_bytes,
                                             mend_heap_awake_bytes(heap) + request->size_bytes);
    return heap->chunks.reserved_bytes + request->size_bytes >
           most_bytes / 100 * percent + most_bytes % 100 * percent / 100;
}

mend_outcome mend_fallback_place_before_growth(mend_heap *heap, const mend_request *request,
                                               mend_span **span)
{
    const mend_streams *streams = &heap->streams;
    uint64_t oldest;
    if (!would_grow_beyond(heap, request) || request->pages != NULL ||
        mend_fallback_waits_on_host(heap, request) || !mend_streams_are_several(streams) ||
        waiting_of_others(streams, request->stream, &oldest) < request->size_bytes) {
        return MEND_NOTHING;
    }
    mend_request free_only = *request;
    free_only.creates_nothing = true;
    mend_outcome outcome = mend_place(heap, &free_only, span);
    /* For fences ever half as young: a wait for the latest would run one stream behind the other.
     */
    for (uint64_t younger_bytes = streams->closed_bytes - oldest;
         outcome == MEND_NOTHING && younger_bytes >= request->size_bytes; younger_bytes /= 2) {
        const uint64_t order = streams->closed_bytes - younger_bytes;
        outcome = mend_fallback_behind_device_waits(heap, &free_only, order, mend_place, span);
    }
    if (outcome == MEND_NOTHING) {
        outcome =
            mend_fallback_behind_device_waits(heap, &free_only, MEND_ANY_FENCE, mend_place, span);
    }
    return outcome;
}
