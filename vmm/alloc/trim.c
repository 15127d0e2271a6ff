/* Releasing memory: at once, after CPU stalls, to a peer pool, or because of a lower limit. And the
 * safe point of calls that move memory. */
#include "alloc/heap.h"

/* ---- at once --------------------------------------------------------------------------------- */

/* Also releases graph pools of captures whose graphs have ended, and addresses of destroyed
 * ranges. */
static mend_result trim_to(mend_heap *heap, uint64_t keep_bytes, bool is_captured,
                           uint64_t *released_bytes)
{
    mend_capture_graph_pools_collect(heap);
    mend_retry(heap, MEND_DEFERRED_RANGE, MEND_STREAM_UNKNOWN);
    MEND_TRY(heap->chunks.reserved_bytes > keep_bytes && mend_chunks_empty_bytes(&heap->chunks) > 0
                 ? mend_fallback_close_all(heap, is_captured)
                 : MEND_OK);
    return mend_trim_to(heap, keep_bytes, false, released_bytes);
}

/* Whether a wait may free an empty chunk: graph pools of the program hold theirs beyond it. */
static bool has_awaited_chunk(mend_heap *heap)
{
    mend_chunk *chunk = mend_chunk_empty_at_least(&heap->chunks, 0, 0);
    for (; chunk != NULL; chunk = mend_chunk_empty_next(chunk)) {
        bool is_held = false;
        MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
            is_held |= mend_waits_for_graphs(&heap->streams, &span->waits);
        }
        if (!is_held || heap->graph_pools.capture_count > 0) {
            return true;
        }
    }
    return false;
}

/* Waits for all work, then releases what it kept busy, unless there is nothing of that kind. */
static mend_result wait_and_trim(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes)
{
    uint64_t bytes = 0;
    if ((heap->chunks.reserved_bytes <= keep_bytes || !has_awaited_chunk(heap)) &&
        !mend_deferred_any(&heap->chunks.deferred, MEND_DEFERRED_MAPPING)) {
        return MEND_OK;
    }
    MEND_TRY(mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN));
    mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
    const mend_result result = trim_to(heap, keep_bytes, false, &bytes);
    *released_bytes += bytes;
    return result;
}

static void note_trim(mend_heap *heap, mend_result result, uint64_t released_bytes)
{
    if (result == MEND_OK) {
        mend_events_note(&heap->events, MEND_EVENT_TRIM, 0, released_bytes, 0);
    }
}

mend_result mend_fallback_trim(mend_heap *heap, uint64_t keep_bytes, bool waits,
                               uint64_t *released_bytes)
{
    mend_events_begin_call(&heap->events, MEND_CAUSE_TRIM);
    mend_driver_scope scope;
    mend_result result = mend_enter(heap, &scope);
    mend_effective_limit_forget(heap);
    MEND_TRY(result);
    result = trim_to(heap, keep_bytes, false, released_bytes);
    if (result == MEND_OK && waits) {
        result = wait_and_trim(heap, keep_bytes, released_bytes);
    }
    mend_driver_scope_close(heap, &scope);
    note_trim(heap, result, *released_bytes);
    mend_budget_note_emptying(heap);
    return result;
}

static uint64_t above_soft_limit(const mend_heap *heap)
{
    uint64_t soft = heap->config.soft_limit_bytes;
    return soft != 0 && heap->chunks.reserved_bytes > soft ? heap->chunks.reserved_bytes - soft : 0;
}

/* First chunks that no block has used for long. Then, if that was less, the memory for others or
 * above the soft limit, whichever is more. */
mend_result mend_fallback_collect(mend_heap *heap, uint64_t unused_ns, uint64_t wants_bytes,
                                  uint64_t keep_bytes, uint64_t *released_bytes)
{
    mend_events_begin_call(&heap->events, MEND_CAUSE_BACKGROUND_TRIM);
    mend_driver_scope scope;
    mend_result result = MEND_OK;
    *released_bytes = 0;
    MEND_TRY(mend_enter(heap, &scope));
    mend_capture_graph_pools_collect(heap);
    mend_retry(heap, MEND_DEFERRED_GRAPHS, MEND_STREAM_UNKNOWN);
    const bool wants_any = unused_ns > 0 || wants_bytes > 0 || above_soft_limit(heap) > 0;
    if (wants_any && mend_chunks_empty_bytes(&heap->chunks) > 0) {
        result = mend_fallback_close_all(heap, false);
    }
    if (result == MEND_OK && unused_ns > 0) {
        result = mend_trim_unused(heap, unused_ns, keep_bytes, released_bytes);
    }
    uint64_t left = wants_bytes > *released_bytes ? wants_bytes - *released_bytes : 0;
    left = mend_max_u64(left, above_soft_limit(heap));
    if (result == MEND_OK && left > 0 && mend_chunks_empty_bytes(&heap->chunks) > 0) {
        uint64_t reserved = heap->chunks.reserved_bytes;
        uint64_t bytes = 0;
        const uint64_t to_bytes = mend_max_u64(keep_bytes, reserved > left ? reserved - left : 0);
        result = mend_trim_to(heap, to_bytes, false, &bytes);
        *released_bytes += bytes;
    }
    mend_driver_scope_close(heap, &scope);
    heap->counters.background_trimmed_bytes += *released_bytes;
    if (*released_bytes > 0) {
        note_trim(heap, result, *released_bytes);
    }
    return result;
}

bool mend_fallback_give_back(mend_heap *heap, uint64_t bytes, bool waits, bool is_captured)
{
    const uint64_t chunk_bytes = heap->chunks.reserved_bytes;
    const uint64_t before_bytes = chunk_bytes + heap->space.address_bytes;
    const uint64_t keep_bytes = chunk_bytes - mend_min_u64(bytes, chunk_bytes);
    uint64_t released_bytes = 0;
    mend_driver_scope scope;
    mend_events_begin_call(&heap->events, MEND_CAUSE_PEER);
    if (mend_enter(heap, &scope) == MEND_OK) {
        mend_result result = trim_to(heap, keep_bytes, is_captured, &released_bytes);
        if (waits && result == MEND_OK && heap->chunks.reserved_bytes > keep_bytes) {
            result = wait_and_trim(heap, keep_bytes, &released_bytes);
        }
        mend_space_trim(&heap->space, 0);
        mend_driver_scope_close(heap, &scope);
        note_trim(heap, result, released_bytes);
    }
    return heap->chunks.reserved_bytes + heap->space.address_bytes < before_bytes;
}

mend_result mend_safe_point_begin(mend_heap *heap, bool gives_back)
{
    mend_result result = mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN);
    mend_capture_graph_pools_collect(heap);
    MEND_TRY(result);
    MEND_TRY(mend_retry_restores(heap));
    if (gives_back) {
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        mend_retry(heap, MEND_DEFERRED_GRAPHS, MEND_STREAM_UNKNOWN);
    }
    return MEND_OK;
}
