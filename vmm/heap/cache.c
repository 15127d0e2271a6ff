#include "heap/cache.h"

#include <assert.h>

#include "heap/layout.h"
#include "heap/scarcity.h"

/* So many runs that are not ready for the stream are passed over. */
enum { LOOKS = 8 };

static void enter(mend_cache *cache, mend_span *span)
{
    span->cached = true;
    span->place = cache->count;
    cache->spans[cache->count++] = span;
    cache->bytes += span->size_bytes;
}

static void leave(mend_heap *heap, mend_span *span)
{
    mend_cache *cache = &heap->zones[span->zone].cache;
    mend_span *last = cache->spans[--cache->count];
    cache->spans[span->place] = last;
    last->place = span->place;
    cache->bytes -= span->size_bytes;
    span->cached = false;
    mend_slab_end_promise(&heap->run_slab, 1);
}

/* ---- back into runs -----------------------------------------------------------------------------
 */

static void put_back(mend_heap *heap, mend_span *span)
{
    leave(heap, span);
    mend_pointer_map_remove(&heap->blocks, span->address);
    mend_layout_end_claim(heap, span);
}

void mend_cache_flush_beside(mend_heap *heap, const mend_span *span)
{
    if (span->previous != NULL && span->previous->cached) {
        put_back(heap, span->previous);
    }
    if (span->next != NULL && span->next->cached) {
        put_back(heap, span->next);
    }
}

void mend_cache_flush(mend_heap *heap, int zone)
{
    mend_cache *cache = &heap->zones[zone].cache;
    while (cache->count > 0) {
        put_back(heap, cache->spans[cache->count - 1]);
    }
}

void mend_cache_close(mend_heap *heap)
{
    if (heap->cache_closings++ == 0) {
        mend_cache_flush(heap, MEND_ZONE_SMALL);
        mend_cache_flush(heap, MEND_ZONE_LARGE);
    }
}

void mend_cache_open(mend_heap *heap)
{
    assert(heap->cache_closings > 0);
    heap->cache_closings--;
}

/* ---- kept ---------------------------------------------------------------------------------------
 */

/* The zone in which a request of the size is searched for first. */
static int zone_of(const mend_heap *heap, uint64_t size_bytes)
{
    return size_bytes <= heap->config.small_request_bytes ? MEND_ZONE_SMALL : MEND_ZONE_LARGE;
}

/* It begins the run that it will be part of, in the zone where it would be searched for, and no
 * swap holds it. */
static bool lies_well(const mend_heap *heap, const mend_span *span)
{
    const mend_span *left = span->previous;
    const mend_span *right = span->next;
    return (left == NULL || left->live) && (right == NULL || right->live || right->run != NULL) &&
           span->zone == zone_of(heap, span->size_bytes) && !mend_layout_is_held(heap, span);
}

/* It will be ready for its stream, by one stamp. Where streams vanish a fence is recorded at each
 * free; what belongs to a group is marked by another wait. */
static bool waits_for_one(const mend_heap *heap, const mend_span *span, uint32_t freed_on)
{
    const mend_streams *streams = &heap->streams;
    return freed_on != MEND_STREAM_UNKNOWN && streams->items[freed_on].group == 0 &&
           span->waits.others == NULL && !streams->verify &&
           mend_stamp_is_ready(streams, span->waits.first, freed_on);
}

bool mend_cache_keep(mend_heap *heap, mend_span *span, uint32_t freed_on)
{
    mend_cache *cache = &heap->zones[span->zone].cache;
    if (heap->cache_closings > 0 || !waits_for_one(heap, span, freed_on) ||
        !lies_well(heap, span)) {
        return false;
    }
    if (cache->count == MEND_CACHE_SPANS) {
        mend_cache_flush(heap, span->zone);
    }
    if (!mend_slab_promise(&heap->run_slab, 1)) {
        return false;
    }
    span->waits.first = mend_streams_stamp(&heap->streams, freed_on, span->size_bytes);
    mend_layout_let_go(heap, span);
    enter(cache, span);
    return true;
}

/* ---- taken again --------------------------------------------------------------------------------
 */

/* The run on the right of a cached span; NULL when what lies there is live. */
static mend_run *run_behind(const mend_span *span)
{
    return span->next != NULL && !span->next->live ? span->next->run : NULL;
}

/* The size of the run that a cached span will begin. */
static uint64_t run_bytes(const mend_span *span)
{
    const mend_run *behind = run_behind(span);
    return span->size_bytes + (behind != NULL ? behind->size_bytes : 0);
}

/* Of the cached spans whose run holds the request and is ready for the stream, the one that a
 * search looks at first. */
static mend_span *first_fit(const mend_heap *heap, const mend_cache *cache, uint64_t size_bytes,
                            uint32_t stream)
{
    mend_span *first = NULL;
    uint64_t first_bytes = 0;
    for (uint32_t i = 0; i < cache->count; i++) {
        mend_span *span = cache->spans[i];
        uint64_t bytes = run_bytes(span);
        bool is_before = first == NULL || bytes < first_bytes ||
                         (bytes == first_bytes && span->address < first->address);
        if (bytes >= size_bytes && is_before &&
            mend_stamp_is_ready(&heap->streams, span->waits.first, stream)) {
            first = span;
            first_bytes = bytes;
        }
    }
    return first;
}

/* A search might place the request there: at either end, if it is ready. */
static bool is_usable(mend_heap *heap, mend_run *run, uint64_t size_bytes, uint32_t stream)
{
    uint64_t last = mend_run_end(run) - size_bytes;
    return mend_layout_is_ready(heap, run, run->address, size_bytes, stream, false) ||
           mend_layout_is_ready(heap, run, last, size_bytes, stream, false);
}

/* In order of (size, address). */
static bool comes_before(const mend_run *run, uint64_t size_bytes, uint64_t address)
{
    return run->size_bytes < size_bytes ||
           (run->size_bytes == size_bytes && run->address < address);
}

/* No run that could serve comes before the one it will begin. What was true stays so until runs
 * change. */
static bool is_before_runs(mend_heap *heap, const mend_zone *zone, mend_span *span, uint32_t stream)
{
    if (span->first_at == zone->changes) {
        return true;
    }
    uint64_t bytes = run_bytes(span);
    mend_run *run = mend_layout_run_at_least(zone, span->size_bytes);
    for (int looks = 0; run != NULL && comes_before(run, bytes, span->address); looks++) {
        if (run != run_behind(span) &&
            (looks == LOOKS || is_usable(heap, run, span->size_bytes, stream))) {
            return false;
        }
        run = mend_layout_run_larger(run);
    }
    span->first_at = zone->changes;
    return true;
}

/* It would break a wholly free chunk. */
static bool breaks_a_chunk(const mend_span *span)
{
    const mend_chunk *chunk = span->chunk;
    while (!mend_chunk_is_whole(chunk)) {
        if (mend_span_end(span) - chunk->address <= chunk->size_bytes) {
            return false;
        }
        chunk = mend_chunk_next(chunk);
    }
    return true;
}

/* Where room is scarce a search spares wholly free chunks, if it can. */
static bool would_be_spared(const mend_heap *heap, const mend_span *span)
{
    return span->zone == MEND_ZONE_LARGE && breaks_a_chunk(span) &&
           mend_heap_scarcity(heap) != MEND_AMPLE;
}

mend_span *mend_cache_take(mend_heap *heap, uint64_t size_bytes, uint32_t stream)
{
    mend_zone *zone = &heap->zones[zone_of(heap, size_bytes)];
    mend_span *span = first_fit(heap, &zone->cache, size_bytes, stream);
    if (span == NULL || span->size_bytes != size_bytes ||
        !is_before_runs(heap, zone, span, stream) || would_be_spared(heap, span)) {
        return NULL;
    }
    leave(heap, span);
    mend_layout_take_again(heap, span);
    return span;
}
