/*
 * The front cache: blocks freed a moment ago. The next request of the same size on the same stream
 * gets one back as it is. Nothing is split or joined and no index changes, so the pair of calls
 * that programs make most often is short.
 *
 * The cache returns the block that a search among the runs would find, at the same address. So it
 * changes little but the time of a call. (One difference, with several streams: free memory beside
 * such a block is known to be idle earlier, because it is not joined with the block and stamped
 * again.)
 *  - a cached span is free memory in no run, still in the pointer map. The run that it will begin
 *    consists of the span and the free memory on its right; on its left is a live span or nothing;
 *  - the cache returns it only if no run that holds the request comes before that run in order of
 *    (size, address). Near the limit it also must not break an empty chunk, because a search would
 *    spare that chunk;
 *  - a search of a zone for some size first puts back what will begin a run of that size or more:
 *    then all memory that could serve it is in runs, as if nothing were cached.
 *
 * The cache keeps only memory that waits for nothing but the stream it was freed on. The thread
 * that makes room closes the cache meanwhile, which flushes it. Each cached span has a promised
 * node for its run, so a flush cannot fail. A promise stays after its span has left, until the next
 * flush: a steady state makes no promises.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_LAYOUT_CACHE_H
#define MEND_LAYOUT_CACHE_H

#include <assert.h>

#include "layout/state.h"

/* Puts all cached spans of a zone back into runs; the second one, only those that will begin a run
 * of `size_bytes` or more; the third one, only the neighbours of a span that will become free. */
void mend_cache_flush(mend_heap *heap, int zone);
void mend_cache_flush_from(mend_heap *heap, int zone, uint64_t size_bytes);
void mend_cache_flush_beside(mend_heap *heap, const mend_span *span);

/* While the cache is closed it is empty. Closings nest. `keeps_empty_chunks`: until the next
 * closing, the cache returns no span that would break an empty chunk. */
void mend_cache_close(mend_heap *heap);
void mend_cache_open(mend_heap *heap, bool keeps_empty_chunks);

/* Bytes of all cached spans; part of the zones' free_bytes. */
uint64_t mend_cache_bytes(const mend_heap *heap);

/* ---- for the calls that use the cache -------------------------------------------------------- */

/* Puts a cached span back into runs, where it may be joined with another. */
void mend_cache_put_back(mend_heap *heap, mend_span *span);

/* Promises the node of a run for one more span, and flushes a full cache first. The caller has used
 * all earlier promises. False if malloc fails. */
bool mend_cache_make_room(mend_heap *heap, mend_cache *cache, int zone);

/* Whether no run that could serve a request of the span's size on the stream comes before the run
 * that the span will begin. span->first_at remembers a yes; it is valid until the runs change. */
bool mend_cache_comes_first(mend_heap *heap, const mend_zone *zone, mend_span *span,
                            uint32_t stream);

/* Removes a span from the list. */
static inline void mend_cache_remove(mend_cache *cache, mend_span *span)
{
    assert(span->cached);
    assert(cache->count > 0);
    assert(cache->spans[span->cache_index] == span);
    mend_span *last = cache->spans[--cache->count];
    cache->spans[span->cache_index] = last;
    last->cache_index = span->cache_index;
    span->cached = false;
}

/* The run on the right of a cached span; NULL if there is none. */
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
