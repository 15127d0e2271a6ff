/* Whether a stream may use free memory, and how to make it so. And the front cache. */
#include "base/error.h"
#include "layout/layout.h"

/* Of the waits of a piece cut out of a run: two at the edges, and the waits of the whole, twice. */
enum { COPIES_OF_WAITS = 4 };

/* Spans that are tidied at an end of a run, for most queries. Walks through the middle tidy the
 * rest. */
enum { TIDIED_AT_ENDS = 64 };

/* The span of the run with this address. One search looks at many places of a run, so it goes on
 * from where it was, and tidies the run once. */
static mend_span *walk_to(mend_heap *heap, mend_run *run, uint64_t address)
{
    mend_zone *zone = &heap->zones[run->first->zone];
    if (zone->walk_run != run || zone->walk_changes != zone->changes ||
        zone->walk_passes != heap->streams.passes) {
        mend_layout_tidy(heap, run, false, UINT64_MAX);
        zone->walk_run = run;
        zone->walk_changes = zone->changes;
        zone->walk_passes = heap->streams.passes;
        zone->walk_span = address - run->address > run->size_bytes / 2 ? run->last : run->first;
    }
    mend_span *span = mend_span_walk(zone->walk_span, address);
    assert(span->address >= run->address && mend_span_end(span) <= mend_run_end(run));
    zone->walk_span = span;
    return span;
}

const mend_span *mend_layout_find_blocked(mend_heap *heap, mend_run *run, uint64_t address,
                                          uint64_t size_bytes, uint32_t stream,
                                          uint64_t behind_wait)
{
    assert(mend_mutex_is_held(&heap->state));
    assert(size_bytes > 0 && address >= run->address);
    assert(address + size_bytes <= mend_run_end(run));
    const mend_span *span = run->first;
    if (span == run->last) { /* the usual case */
        return !mend_waits_drop_passed(mend_heap_wait_env(heap), &run->first->waits) &&
                       !mend_waits_are_ready(&heap->streams, &span->waits, stream, behind_wait)
                   ? span
                   : NULL;
    }
    const bool is_start = address == run->address;
    if (is_start || address + size_bytes == mend_run_end(run)) { /* it begins or ends the run */
        const mend_span *outermost = is_start ? run->first : run->last;
        if (!mend_waits_are_ready(&heap->streams, &outermost->waits, stream, behind_wait)) {
            return outermost; /* which most often tells of the whole */
        }
        mend_layout_tidy(heap, run, !is_start, TIDIED_AT_ENDS);
        span = mend_span_walk(is_start ? run->first : run->last, address);
    } else {
        span = walk_to(heap, run, address);
    }
    while (mend_waits_are_ready(&heap->streams, &span->waits, stream, behind_wait)) {
        if (span == run->last || span->next->address >= address + size_bytes) {
            return NULL;
        }
        span = span->next;
    }
    return span;
}

bool mend_layout_chunk_is_ready(mend_heap *heap, mend_chunk *chunk, uint32_t stream,
                                uint64_t behind_wait)
{
    const mend_streams *streams = &heap->streams;
    assert(mend_chunk_is_empty(chunk));
    if (chunk->address == 0) {
        return true;
    }
    if (!mend_waits_stamp_is_ready(streams, chunk->held_by, stream, behind_wait)) {
        return false;
    }
    if (!mend_layout_stamps_matter(heap, stream)) {
        return true;
    }
    mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], chunk->address);
    const mend_span *blocked =
        mend_layout_find_blocked(heap, run, chunk->address, chunk->size_bytes, stream, behind_wait);
    if (blocked != NULL && mend_list_is_empty(&chunk->newly)) { /* its next use forgets it */
        chunk->held_by = mend_waits_first_blocking(streams, &blocked->waits, stream, behind_wait);
    }
    return blocked == NULL;
}

mend_result mend_layout_make_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                   uint64_t size_bytes, uint32_t stream)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(address >= run->address);
    assert(address + size_bytes <= mend_run_end(run));
    assert(stream != MEND_STREAM_UNKNOWN);
    for (mend_span *span = run->first;; span = span->next) {
        if (span->address >= address + size_bytes) {
            return MEND_OK;
        }
        const mend_wait *at = mend_span_end(span) > address ? &span->waits.all : NULL;
        for (; at != NULL; at = at->next) {
            MEND_TRY(mend_streams_make_wait(&heap->streams, stream, at->stamp));
        }
        if (span == run->last) {
            return MEND_OK;
        }
    }
}

size_t mend_layout_count_waits(mend_heap *heap, mend_run *run, uint64_t from, uint64_t end)
{
    assert(from >= run->address && from < end && end <= mend_run_end(run));
    const mend_span *span = run->first == run->last ? run->first : walk_to(heap, run, from);
    size_t count = mend_waits_count_others(&span->waits);
    while (mend_span_end(span) < end) {
        span = span->next;
        count += 1 + mend_waits_count_others(&span->waits);
    }
    return COPIES_OF_WAITS * count;
}

/* ---- the front cache ------------------------------------------------------------------------- */

/* The most runs that are skipped because they are not ready for the stream. */
enum { LOOKS = 8 };

bool mend_cache_make_room(mend_heap *heap, mend_cache *cache, int zone)
{
    assert(cache == &heap->zones[zone].cache);
    assert(cache->count == cache->promised);
    if (heap->caching.closings > 0) {
        return false;
    }
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
    mend_slab_end_promise(&heap->nodes.runs, 1);
    cache->promised--;
    mend_pointer_map_remove(&heap->blocks, span->address);
    mend_layout_end_claim(heap, span);
}

void mend_cache_flush(mend_heap *heap, int zone)
{
    mend_cache *cache = &heap->zones[zone].cache;
    mend_cache_flush_from(heap, zone, 0);
    mend_slab_end_promise(&heap->nodes.runs, cache->promised);
    cache->promised = 0;
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

/* ---- whether a search would look there first ------------------------------------------------- */

bool mend_cache_comes_first(mend_heap *heap, const mend_zone *zone, mend_span *span,
                            uint32_t stream)
{
    assert(span->cached);
    assert(zone == &heap->zones[span->zone]);
    const uint64_t bytes = span->size_bytes;
    const uint64_t run_bytes = mend_cache_run_bytes(span);
    const mend_run *behind = span->next != NULL ? span->next->run : NULL;
    mend_run *run = mend_sizes_at_least(&zone->runs_by_size, bytes);
    for (int looks = 0;
         run != NULL && (run->size_bytes < run_bytes ||
                         (run->size_bytes == run_bytes && run->address < span->address));
         looks++) {
        /* A search might use either end, if that is ready. */
        const uint64_t last = mend_run_end(run) - bytes;
        if (run != behind &&
            (looks == LOOKS || mend_layout_is_ready(heap, run, run->address, bytes, stream, 0) ||
             mend_layout_is_ready(heap, run, last, bytes, stream, 0))) {
            return false;
        }
        run = mend_sizes_next(&zone->runs_by_size, run);
    }
    span->first_at = zone->changes;
    return true;
}
