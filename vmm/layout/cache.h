/*
 * The front cache: blocks freed a moment ago, which the next request of the same size on the same
 * stream gets back as they are. Nothing is cut or joined for it, no index changes, so that the pair
 * of calls that programs make most is short.
 *
 * It gives what a search among the runs would find, at the same address, and so changes little but
 * the time a call takes (of the free memory beside such a block it is known sooner, with several
 * streams, that it is idle, for it is not joined and stamped again with it):
 *  - a cached span is free memory that stands in no run yet, though still in the pointer map. The
 *    run it will begin is itself and the free memory on its right; on its left lies a live span, or
 *    none;
 *  - it is given back only if no run that holds the request comes before that run in order of
 * (size, address), and, near the limit, if it breaks no empty chunk: a search looks at it
 * first;
 *  - a zone is searched only when its cache has been flushed: all of it is in runs then.
 *
 * Only memory that waits for nothing but the stream it was freed on is kept. Whoever makes room
 * closes the cache meanwhile, which flushes it. For each cached span the node of its run is
 * promised, so that a flush cannot fail; a promise outlives the span until the next flush, so that
 * in a steady state none is made.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_LAYOUT_CACHE_H
#define MEND_LAYOUT_CACHE_H

#include "layout/state.h"

/* Puts all cached spans of a zone back into runs; those beside a span that is going to be free. */
void mend_cache_flush(mend_heap *heap, int zone);
void mend_cache_flush_beside(mend_heap *heap, const mend_span *span);

/* While it is closed the cache is empty. Closings nest. `keeps_empty_chunks`: until it is closed
 * again, nothing cached is handed out that would break an empty chunk. */
void mend_cache_close(mend_heap *heap);
void mend_cache_open(mend_heap *heap, bool keeps_empty_chunks);

/* Of all spans in the caches; part of the zones' free_bytes. */
uint64_t mend_cache_bytes(const mend_heap *heap);

/* ---- for the calls that the cache serves ------------------------------------------------------
 */

/* A cached span goes back into runs. It may be joined into another. */
void mend_cache_put_back(mend_heap *heap, mend_span *span);

/* For one span more, when as many are promised as there are: flushes a cache that is full, and has
 * the node of a run promised. False when malloc fails. */
bool mend_cache_make_room(mend_heap *heap, mend_cache *cache, int zone);

/* No run that could serve a request of the span's size on the stream comes before the one that the
 * span will begin: stays so until runs change, which span->first_at remembers. */
bool mend_cache_comes_first(mend_heap *heap, const mend_zone *zone, mend_span *span,
                            uint32_t stream);

/* Takes a span out of the list. */
static inline void mend_cache_remove(mend_cache *cache, mend_span *span)
{
    mend_span *last = cache->spans[--cache->count];
    cache->spans[span->cache_index] = last;
    last->cache_index = span->cache_index;
    span->cached = false;
}

/* The run on the right of a cached span; NULL when what lies there is live. */
static inline mend_run *mend_cache_run_behind(const mend_span *span)
{
    return span->next != NULL && !span->next->live ? span->next->run : NULL;
}

/* The size of the run that a cached span will begin. */
static inline uint64_t mend_cache_run_bytes(const mend_span *span)
{
    const mend_run *behind = mend_cache_run_behind(span);
    return span->size_bytes + (behind != NULL ? behind->size_bytes : 0);
}

#endif
