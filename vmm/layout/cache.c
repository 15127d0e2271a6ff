/*
 * The front cache: blocks freed a moment ago. The next request of the same size on the same stream
 * gets one back as it is. Nothing is split or joined and no index changes, so the pair of calls
 * that programs make most often is short.
 */
#include "layout/layout.h"

/* The most runs that are skipped because they are not ready for the stream. */
enum { LOOKS = 8 };

static void end_promises(mend_heap *heap, mend_cache *cache, uint32_t count)
{
    assert(cache->promised >= count);
    mend_slab_end_promise(&heap->nodes.runs, count);
    cache->promised -= count;
}

bool mend_cache_make_room(mend_heap *heap, mend_cache *cache, int zone)
{
    assert(cache == &heap->zones[zone].cache);
    assert(cache->count == cache->promised);
    if (cache->count == MEND_CACHE_SPANS) {
        mend_cache_flush(heap, zone);
    }
    if (!mend_slab_promise(&heap->nodes.runs, 1)) {
        return false;
    }
    cache->promised++;
    assert(cache->promised <= MEND_CACHE_SPANS);
    return true;
}

/* ---- back into runs -------------------------------------------------------------------------- */

void mend_cache_put_back(mend_heap *heap, mend_span *span)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_cache *cache = &heap->zones[span->zone].cache;
    mend_cache_remove(cache, span);
    end_promises(heap, cache, 1);
    mend_pointer_map_remove(&heap->blocks, span->address);
    mend_layout_end_claim(heap, span);
}

void mend_cache_flush(mend_heap *heap, int zone)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_cache *cache = &heap->zones[zone].cache;
    while (cache->count > 0) {
        mend_cache_put_back(heap, cache->spans[cache->count - 1]);
    }
    end_promises(heap, cache, cache->promised);
}

void mend_cache_flush_from(mend_heap *heap, int zone, uint64_t size_bytes)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_cache *cache = &heap->zones[zone].cache;
    /* The last one takes the place of one that goes. */
    for (uint32_t i = cache->count; i > 0; i--) {
        mend_span *span = cache->spans[i - 1];
        if (mend_cache_run_bytes(span) >= size_bytes) {
            mend_cache_put_back(heap, span);
        }
    }
}

void mend_cache_close(mend_heap *heap)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    if (heap->caching.closings++ == 0) {
        mend_cache_flush(heap, MEND_ZONE_SMALL);
        mend_cache_flush(heap, MEND_ZONE_LARGE);
    }
}

void mend_cache_open(mend_heap *heap, bool keeps_empty_chunks)
{
    assert(heap->caching.closings > 0);
    assert(heap->zones[MEND_ZONE_SMALL].cache.count == 0);
    assert(heap->zones[MEND_ZONE_LARGE].cache.count == 0);
    heap->caching.closings--;
    heap->caching.keeps_empty_chunks = keeps_empty_chunks;
}

uint64_t mend_cache_bytes(const mend_heap *heap)
{
    uint64_t bytes = 0;
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        const mend_cache *cache = &heap->zones[zone].cache;
        for (uint32_t i = 0; i < cache->count; i++) {
            bytes += cache->spans[i]->size_bytes;
        }
    }
    return bytes;
}

/* ---- whether a search would look there first ------------------------------------------------- */

/* Whether a search might place the request in the run: at either end, if that is ready. */
static bool is_usable(mend_heap *heap, mend_run *run, uint64_t size_bytes, uint32_t stream)
{
    assert(run->size_bytes >= size_bytes);
    uint64_t last = mend_run_end(run) - size_bytes;
    return mend_layout_is_ready(heap, run, run->address, size_bytes, stream, 0) ||
           mend_layout_is_ready(heap, run, last, size_bytes, stream, 0);
}

/* In order of (size, address). */
static bool comes_before(const mend_run *run, uint64_t size_bytes, uint64_t address)
{
    return run->size_bytes < size_bytes ||
           (run->size_bytes == size_bytes && run->address < address);
}

bool mend_cache_comes_first(mend_heap *heap, const mend_zone *zone, mend_span *span,
                            uint64_t run_bytes, uint32_t stream)
{
    assert(span->cached);
    assert(zone == &heap->zones[span->zone]);
    assert(run_bytes == mend_cache_run_bytes(span));
    const mend_run *behind = span->next != NULL ? span->next->run : NULL;
    mend_run *run = mend_sizes_at_least(&zone->runs_by_size, span->size_bytes);
    for (int looks = 0; run != NULL && comes_before(run, run_bytes, span->address); looks++) {
        if (run != behind && (looks == LOOKS || is_usable(heap, run, span->size_bytes, stream))) {
            return false;
        }
        run = mend_sizes_next(&zone->runs_by_size, run);
    }
    span->first_at = zone->changes;
    return true;
}
