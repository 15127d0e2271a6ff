/*
 * The usual case of the two most frequent calls: an allocation from the front cache, and a free
 * into it. Every other case goes to alloc/block.c.
 *
 * Functions here are inline to save host time; bench/counts.py checks the number of instructions.
 */
#include "alloc/heap.h"
#include "alloc/users.h"

/* ---- allocate -------------------------------------------------------------------------------- */

/* Of the cached spans that hold the request and are ready for the stream, the one that a search
 * would find first; and the bytes of its run. */
static inline mend_span *first_fit(const mend_heap *heap, const mend_cache *cache,
                                   uint64_t size_bytes, uint32_t stream, uint64_t *run_bytes)
{
    mend_span *first = NULL;
    *run_bytes = 0;
    for (uint32_t i = 0; i < cache->count; i++) {
        mend_span *span = cache->spans[i];
        assert(span->cached);
        assert(span->waits.others == NULL);
        uint64_t bytes = mend_cache_run_bytes(span);
        bool is_before = first == NULL || bytes < *run_bytes ||
                         (bytes == *run_bytes && span->address < first->address);
        if (bytes >= size_bytes && is_before &&
            mend_stamp_is_ready(&heap->streams, span->waits.first, stream)) {
            first = span;
            *run_bytes = bytes;
        }
    }
    return first;
}

/* Whether using the span would break an empty chunk. */
__attribute__((noinline)) static bool breaks_a_chunk(const mend_span *span)
{
    const mend_chunk *chunk = span->chunk;
    while (!mend_chunk_is_empty(chunk)) {
        if (mend_span_end(span) - chunk->address <= chunk->size_bytes) {
            return false;
        }
        chunk = mend_chunk_next(chunk);
        assert(chunk != NULL);
    }
    return true;
}

uint64_t mend_heap_alloc_cached(mend_heap *heap, uint64_t requested_bytes, mend_stream handle)
{
    assert(mend_mutex_is_held(&heap->state));
    /* Rounded up; 0, which no span has, for a size near the end of all numbers. */
    const uint64_t size_bytes =
        (requested_bytes + (MEND_GRANULE_BYTES - 1)) & ~(uint64_t)(MEND_GRANULE_BYTES - 1);
    mend_zone *zone = requested_bytes <= heap->config.placement.small_request_bytes
                          ? &heap->zones[MEND_ZONE_SMALL]
                          : &heap->zones[MEND_ZONE_LARGE]; /* the address of an index would be
                                                            * computed again for each field */
    uint32_t stream = mend_users_known_stream(heap, handle);
    if (stream == MEND_STREAM_UNKNOWN) {
        return 0;
    }
    uint64_t run_bytes;
    mend_span *span = first_fit(heap, &zone->cache, size_bytes, stream, &run_bytes);
    if (span == NULL || span->size_bytes != size_bytes ||
        (span->first_at != zone->changes &&
         !mend_cache_comes_first(heap, zone, span, run_bytes, stream))) {
        return 0;
    }
    /* If memory is short, a search spares empty chunks. The pressure does not change while the
     * cache is open, because only a thread that holds the grow lock reserves memory, gives it back
     * or updates the peaks. */
    if (heap->caching.keeps_empty_chunks && span->zone == MEND_ZONE_LARGE && breaks_a_chunk(span)) {
        return 0;
    }
    mend_cache_remove(&zone->cache, span);
    mend_layout_set_live(heap, zone, span, true);
    heap->counters.cache_hits++;
    mend_layout_count_alloc(heap, zone, span, requested_bytes, handle);
    if (mend_history_is_on(&heap->history)) {
        mend_events_alloc(heap, span, (mend_service){MEND_CAUSE_HIT, 0});
    }
    return span->address;
}

/* ---- free ------------------------------------------------------------------------------------ */

/* Whether the cache can keep a freed block: it begins the run that it will be part of, it is in the
 * zone where its size is searched for, and it is not in a frozen chunk. A cached neighbour on the
 * right goes back into runs first. */
static inline bool lies_well(mend_heap *heap, const mend_span *span)
{
    assert(span->live);
    if (span->previous != NULL && !span->previous->live) {
        return false;
    }
    if (span->next != NULL && span->next->cached) {
        mend_cache_put_back(heap, span->next);
    }
    return (span->next == NULL || span->next->live || span->next->run != NULL) &&
           (span->zone == MEND_ZONE_SMALL) ==
               (span->requested_bytes <= heap->config.placement.small_request_bytes) &&
           mend_layout_frozen_under(heap, span) == NULL;
}

/* Frees a block into the cache, if one stamp is enough to say when it is ready. False: the block is
 * still live. */
static inline bool keep(mend_heap *heap, mend_zone *zone, mend_span *span, uint32_t freed_on)
{
    mend_cache *cache = &zone->cache;
    if (heap->caching.closings > 0 || span->waits.others != NULL || span->is_exported ||
        span->in_one_chunk || span->chunk->sleep_tag != 0 ||
        !mend_stamp_is_ready(&heap->streams, span->waits.first, freed_on) ||
        !lies_well(heap, span)) {
        return false;
    }
    if (cache->count == cache->promised && !mend_cache_make_room(heap, cache, span->zone)) {
        return false;
    }
    span->waits.first = mend_streams_stamp(&heap->streams, freed_on, span->size_bytes);
    mend_layout_set_live(heap, zone, span, false);
    mend_cache_add(cache, span);
    return true;
}

__attribute__((always_inline)) static inline mend_result
free_block(mend_heap *heap, mend_span *span, uint32_t freed_on)
{
    assert(span->live);
    assert(freed_on != MEND_STREAM_UNKNOWN);
    assert(heap->streams.items[freed_on].graph_pool == 0);
    mend_zone *zone = span->zone == MEND_ZONE_SMALL ? &heap->zones[MEND_ZONE_SMALL]
                                                    : &heap->zones[MEND_ZONE_LARGE];
    if (!keep(heap, zone, span, freed_on)) {
        return mend_block_free_into_runs(heap, span,
                                         (mend_block_users){freed_on, MEND_STREAM_UNKNOWN});
    }
    mend_layout_count_free(heap, zone, span);
    if (mend_history_is_on(&heap->history)) {
        mend_events_free(heap, span, heap->streams.items[freed_on].handle);
    }
    if (mend_block_wants_early_fence(heap)) {
        mend_block_record_early_fence(heap, freed_on);
    }
    return MEND_OK;
}

mend_result mend_block_free(mend_heap *heap, mend_span *span, mend_block_users users)
{
    const bool is_ordered =
        users.first != MEND_STREAM_UNKNOWN && heap->streams.items[users.first].graph_pool == 0;
    return is_ordered ? free_block(heap, span, users.first)
                      : mend_block_free_into_runs(heap, span, users);
}

/* The unusual cases: bad pointers, streams to be looked up, graph pools. */
__attribute__((noinline)) mend_result mend_heap_free_in_graph_pool(mend_heap *heap,
                                                                   uint64_t address,
                                                                   mend_order order,
                                                                   uint32_t graph_pool)
{
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    mend_block_users users;
    if (span != NULL && span->chunk == NULL && span->live) {
        return mend_block_free_passed(heap, address, order);
    }
    MEND_TRY(mend_block_find_to_free(heap, address, order, graph_pool, &span, &users));
    return mend_block_free(heap, span, users);
}

mend_result mend_heap_free(mend_heap *heap, uint64_t address, mend_order order)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    bool is_usual = span != NULL && span->live && span->chunk != NULL && order.capture == 0;
    uint32_t freed_on =
        is_usual ? mend_users_known_stream(heap, order.stream) : MEND_STREAM_UNKNOWN;
    return freed_on != MEND_STREAM_UNKNOWN ? free_block(heap, span, freed_on)
                                           : mend_heap_free_in_graph_pool(heap, address, order, 0);
}

mend_span *mend_heap_find(mend_heap *heap, uint64_t address)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    return span == NULL || !span->live ? NULL : span;
}

mend_result mend_heap_free_found(mend_heap *heap, mend_span *span, mend_order order)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(mend_heap_find(heap, span->address) == span);
    uint32_t freed_on = order.capture == 0 && span->chunk != NULL
                            ? mend_users_known_stream(heap, order.stream)
                            : MEND_STREAM_UNKNOWN;
    return freed_on != MEND_STREAM_UNKNOWN
               ? mend_block_free(heap, span, (mend_block_users){freed_on, MEND_STREAM_UNKNOWN})
               : mend_heap_free_in_graph_pool(heap, span->address, order, 0);
}
