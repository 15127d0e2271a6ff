/*
 * The usual case of the two most frequent calls: an allocation from the front cache, and a free
 * into it. Every other case goes to alloc/block.c.
 *
 * Functions here are inline to save host time. bench/counts.py checks the number of instructions.
 */
#ifndef MEND_ALLOC_FAST_H
#define MEND_ALLOC_FAST_H

#include "alloc/heap.h"

/* Whether using the span would break an empty chunk. */
bool mend_fast_breaks_a_chunk(const mend_span *span);

/* ---- allocate -------------------------------------------------------------------------------- */

/* Of the cached spans that hold the request and are ready for the stream, the one that a search
 * would find first. */
static inline mend_span *mend_fast_first_fit(const mend_heap *heap, const mend_cache *cache,
                                             uint64_t size_bytes, uint32_t stream)
{
    mend_span *first = NULL;
    uint64_t run_bytes = UINT64_MAX;
    for (uint32_t i = 0; i < cache->count; i++) {
        mend_span *span = cache->spans[i];
        assert(span->cached);
        assert(span->waits.others == NULL);
        uint64_t bytes = mend_cache_run_bytes(span);
        bool is_before =
            bytes < run_bytes || (bytes == run_bytes && span->address < first->address);
        if (bytes >= size_bytes && is_before &&
            mend_stamp_is_ready(&heap->streams, span->waits.first, stream)) {
            first = span;
            run_bytes = bytes;
        }
    }
    return first;
}

/* An allocation from the front cache, with the alignment that every block has. NULL: the cache has
 * no such block, or the request is wrong. Nothing changed, and mend_heap_alloc decides. */
__attribute__((always_inline)) static inline const mend_span *
mend_heap_alloc_cached(mend_heap *heap, uint64_t requested_bytes, mend_stream handle)
{
    assert(mend_mutex_is_held(&heap->state));
    /* Rounded up. 0, which no span has, for a size near the end of all numbers. */
    const uint64_t size_bytes =
        (requested_bytes + (MEND_GRANULE_BYTES - 1)) & ~(uint64_t)(MEND_GRANULE_BYTES - 1);
    mend_zone *zone = requested_bytes <= heap->config.placement.small_request_bytes
                          ? &heap->zones[MEND_ZONE_SMALL]
                          : &heap->zones[MEND_ZONE_LARGE]; /* the address of an index would be
                                                            * computed again for each field */
    uint32_t stream = mend_users_known_stream(heap, handle);
    if (stream == MEND_STREAM_UNKNOWN) {
        return NULL;
    }
    mend_span *span = mend_fast_first_fit(heap, &zone->cache, size_bytes, stream);
    if (span == NULL || span->size_bytes != size_bytes ||
        (span->first_at != zone->changes && !mend_cache_comes_first(heap, zone, span, stream))) {
        return NULL;
    }
    /* If memory is short, a search spares empty chunks. The pressure does not change while the
     * cache is open, because only a thread that holds the grow lock reserves memory, gives it back
     * or updates the peaks. */
    if (heap->caching.keeps_empty_chunks && span->zone == MEND_ZONE_LARGE &&
        mend_fast_breaks_a_chunk(span)) {
        return NULL;
    }
    mend_cache_remove(&zone->cache, span);
    mend_layout_set_live(heap, zone, span, true);
    heap->counters.cache_hits++;
    mend_layout_count_alloc(heap, zone, span, requested_bytes, handle);
    if (mend_events_has(&heap->events, MEND_EVENT_ALLOC)) {
        mend_events_alloc(heap, span, (mend_service){MEND_CAUSE_HIT, 0});
    }
    return span;
}

/* ---- free ------------------------------------------------------------------------------------ */

/* Whether the cache can take a freed block: it begins its future run, and is not in a frozen chunk.
 * A cached neighbor on the right returns to the runs first. */
static inline bool mend_fast_lies_well(mend_heap *heap, const mend_span *span)
{
    assert(span->live);
    if (span->previous != NULL && !span->previous->live) {
        return false;
    }
    mend_span *next = span->next;
    if (next != NULL && !next->live && next->run == NULL) { /* cached, or claimed */
        if (!next->cached) {
            return false;
        }
        mend_cache_put_back(heap, next);
    }
    return mend_layout_frozen_under(heap, span) == NULL;
}

/* Frees a block into the cache, if one stamp is enough to say when it is ready. False: the block is
 * still live. */
static inline bool mend_fast_keep(mend_heap *heap, mend_zone *zone, mend_span *span,
                                  uint32_t freed_on)
{
    mend_cache *cache = &zone->cache;
    if (span->waits.others != NULL || span->is_exported || span->in_one_chunk ||
        span->skips_cache || span->chunk->sleep_tag != 0 ||
        !mend_stamp_is_ready(&heap->streams, span->waits.first, freed_on) ||
        !mend_fast_lies_well(heap, span)) {
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
mend_fast_free_block(mend_heap *heap, mend_span *span, uint32_t freed_on)
{
    assert(span->live);
    assert(freed_on != MEND_STREAM_UNKNOWN);
    assert(heap->streams.items[freed_on].graph_pool == 0);
    mend_zone *zone = span->zone == MEND_ZONE_SMALL ? &heap->zones[MEND_ZONE_SMALL]
                                                    : &heap->zones[MEND_ZONE_LARGE];
    if (!mend_fast_keep(heap, zone, span, freed_on)) {
        return mend_block_free_into_runs(heap, span,
                                         (mend_block_users){freed_on, MEND_STREAM_UNKNOWN});
    }
    mend_layout_count_free(heap, zone, span);
    if (mend_events_has(&heap->events, MEND_EVENT_FREE)) {
        mend_events_free(heap, span, heap->streams.items[freed_on].handle);
    }
    if (mend_block_wants_early_fence(heap)) {
        mend_block_record_early_fence(heap, freed_on);
    }
    return MEND_OK;
}

/* mend_free. `span` is what the pointer map has at the address, or NULL. The caller holds
 * `state`. */
__attribute__((always_inline)) static inline mend_result
mend_heap_free(mend_heap *heap, mend_span *span, uint64_t address, mend_order order)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(span == NULL || span->address == address);
    bool is_usual = span != NULL && span->live && span->chunk != NULL && order.capture == 0;
    uint32_t freed_on =
        is_usual ? mend_users_known_stream(heap, order.stream) : MEND_STREAM_UNKNOWN;
    return freed_on != MEND_STREAM_UNKNOWN ? mend_fast_free_block(heap, span, freed_on)
                                           : mend_heap_free_in_graph_pool(heap, address, order, 0);
}

#endif
