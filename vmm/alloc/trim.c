/* Releasing memory: at once, after CPU stalls, to a peer pool, or because of a lower limit. */
#include "alloc/fallback.h"

#include "alloc/users.h"
#include "map/map.h"

/* Why an empty chunk is not idle: bits of mend_waits_blocked_by. With `is_due`, CPU stalls include
 * the chunk's stamps. Retired mappings of it wait for nothing more. */
static unsigned look_at_chunk(mend_heap *heap, const mend_chunk *chunk, bool is_due)
{
    unsigned holds = 0;
    const mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], chunk->address);
    uint64_t end = chunk->address + chunk->size_bytes;
    assert(mend_chunk_is_empty(chunk));
    if (run == NULL) { /* not mapped */
        return holds;
    }
    for (const mend_span *span = run->first; span != run->last->next && span->address < end;
         span = span->next) {
        if (mend_span_end(span) > chunk->address) {
            holds |= mend_waits_blocked_by(&heap->streams, &span->waits, MEND_STREAM_UNKNOWN);
            if (is_due) {
                mend_waits_make_due(&heap->streams, &span->waits);
            }
        }
    }
    return holds;
}

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

bool mend_fallback_trim_addresses(mend_heap *heap, uint32_t asking)
{
    const uint64_t range_bytes = heap->range_space.address_bytes;
    const uint64_t block_bytes = heap->space.address_bytes;
    const uint64_t taken_bytes = heap->space.taken_bytes;
    mend_retry_these(heap, MEND_DEFERRED_RANGE, MEND_DEFERRED_RANGE, asking);
    mend_trim_between(heap, 0, UINT64_MAX, asking);
    mend_space_trim(&heap->space, 0);
    return heap->space.taken_bytes < taken_bytes || heap->space.address_bytes < block_bytes ||
           heap->range_space.address_bytes < range_bytes;
}

/* The CPU stalls are for all empty chunks, except chunks that wait for graphs, which may be
 * launched again, and for copies that hold all mappings. False if there is no such chunk. */
static bool begin_waits(mend_heap *heap)
{
    bool any = false;
    mend_streams_begin_host_waits(&heap->streams, false);
    mend_streams_make_due(&heap->streams, heap->retire.copies);
    for (mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, 0, 0); at != NULL;
         at = mend_chunk_empty_next(at)) {
        if ((look_at_chunk(heap, at, false) & MEND_BLOCKED_BY_GRAPH_POOLS) == 0) {
            any = true;
            look_at_chunk(heap, at, true);
        }
    }
    return any;
}

/* After the first trim, if that left more than `keep_bytes`. */
static mend_result wait_and_trim(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes)
{
    bool is_captured = false;
    mend_result result = MEND_OK;
    MEND_TRY(mend_streams_find_capture(&heap->streams, MEND_STREAM_UNKNOWN, &is_captured));
    if (is_captured && mend_chunks_empty_bytes(&heap->chunks) > 0) {
        return mend_failure(
            MEND_ERROR_CAPTURING,
            "a stream is being captured: the pool can neither wait for the GPU nor unmap; "
            "trim after the capture");
    }
    bool has_graphs = !is_captured && heap->graph_pools.capture_count > 0;
    bool goes_on = begin_waits(heap) || has_graphs;
    while (result == MEND_OK && goes_on && heap->chunks.reserved_bytes > keep_bytes) {
        uint64_t bytes = 0;
        bool waited = false;
        result = mend_capture_graph_pools_wait_oldest(heap, MEND_STREAM_UNKNOWN, true, &has_graphs,
                                                      &waited);
        if (result == MEND_OK) { /* some chunks may have become idle during the trim before */
            result = trim_to(heap, keep_bytes, false, &bytes);
        }
        *released_bytes += bytes;
        goes_on = waited || bytes > 0;
    }
    return result;
}

/* Whether something waits for the context that is not in reserved_bytes. */
static bool has_others(const mend_heap *heap)
{
    return mend_deferred_any(&heap->chunks.deferred, MEND_DEFERRED_MAPPING);
}

/* Releases it, too, unless a capture forbids the wait. */
static mend_result wait_for_others(mend_heap *heap)
{
    bool is_captured = false;
    MEND_TRY(mend_streams_find_capture(&heap->streams, MEND_STREAM_UNKNOWN, &is_captured));
    if (!is_captured) {
        MEND_TRY(mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN));
        mend_retire_flush(heap, MEND_STREAM_UNKNOWN);
        mend_retry(heap, MEND_DEFERRED_RANGE, MEND_STREAM_UNKNOWN);
    }
    return MEND_OK;
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
    mend_effective_limit_set(heap, (mend_effective_limit){0});
    MEND_TRY(result);
    const uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    result = trim_to(heap, keep_bytes, false, released_bytes);
    if (result == MEND_OK && waits && heap->chunks.reserved_bytes > keep_bytes) {
        result = wait_and_trim(heap, keep_bytes, released_bytes);
    }
    if (result == MEND_OK && waits && has_others(heap)) {
        result = wait_for_others(heap);
    }
    mend_driver_scope_close(heap, &scope);
    note_trim(heap, result, *released_bytes);
    mend_budget_note_emptying(heap, reserved_bytes, *released_bytes);
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
        mend_effective_limit_set(heap, (mend_effective_limit){0});
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

mend_result mend_fallback_set_limit(mend_heap *heap, uint64_t limit_bytes)
{
    mend_events_begin_call(&heap->events, MEND_CAUSE_LIMIT);
    uint64_t total_bytes = heap->device.total_bytes;
    heap->config.limit_bytes = limit_bytes == 0 ? heap->config.default_limit_bytes
                                                : mend_min_u64(limit_bytes, total_bytes);
    mend_events_note(&heap->events, MEND_EVENT_LIMIT, 0, heap->config.limit_bytes, 0);
    uint64_t released_bytes = 0;
    return heap->chunks.reserved_bytes > mend_budget_limit_of_chunks(heap)
               ? mend_fallback_trim(heap, mend_budget_limit_of_chunks(heap), false, &released_bytes)
               : MEND_OK;
}
