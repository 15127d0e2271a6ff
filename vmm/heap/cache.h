/*
 * The front cache: blocks freed a moment ago, which the next request of the same size on the same
 * stream gets back as they are. Nothing is cut or joined for it, no index changes, so that the pair
 * of calls that programs make most is short.
 *
 * It gives what a search among the runs would find, at the same address, and so changes little but
 * the time a call takes (of the free memory beside such a block it is known sooner, with several
 * streams, that it is idle, for it is not joined and stamped anew with it):
 *  - a cached span is free memory that stands in no run yet, though still in the pointer map. The
 *    run it will begin is itself and the free memory on its right; on its left lies a live span, or
 *    none;
 *  - it is given back only if no run that holds the request comes before that run in order of
 * (size, address), and, near the limit, if it breaks no wholly free chunk: a search looks at it
 * first;
 *  - a zone is searched only when its cache has been flushed: all of it is in runs then.
 *
 * Only memory that waits for nothing but the stream it was freed on is kept. Whoever makes room
 * closes the cache meanwhile, which flushes it. Each cached span has the node of its run promised,
 * so that a flush cannot fail.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_HEAP_CACHE_H
#define MEND_HEAP_CACHE_H

#include "heap/state.h"

/* A block of just that size which the stream may use now, live again; its waits are as after
 * mend_layout_take. NULL: there is none, or a search may find another place. */
mend_span *mend_cache_take(mend_heap *heap, uint64_t size_bytes, uint32_t stream);

/* Frees a live span into the cache, stamped with what the stream has queued. False: it cannot be
 * kept, nothing changed. */
bool mend_cache_keep(mend_heap *heap, mend_span *span, uint32_t freed_on);

/* A span is going to be free: what is cached beside it goes back into runs, to be joined. */
void mend_cache_flush_beside(mend_heap *heap, const mend_span *span);

/* Puts all cached spans of a zone back into runs. */
void mend_cache_flush(mend_heap *heap, int zone);

/* While it is closed the cache is empty. Closings nest. */
void mend_cache_close(mend_heap *heap);
void mend_cache_open(mend_heap *heap);

#endif
