/*
 * The locks of a heap: `state` alone, for calls that are served by what is mapped and free; both,
 * to make room and to give it back. What each guards is said in layout/state.h. While a thread has
 * both to work, the front cache is closed, which empties it.
 *
 * Order: the grow lock comes before `state`.
 */
#ifndef MEND_MOVE_LOCKS_H
#define MEND_MOVE_LOCKS_H

#include "layout/state.h"

static inline void mend_heap_lock(mend_heap *heap)
{
    mend_mutex_lock(&heap->state);
}
static inline void mend_heap_unlock(mend_heap *heap)
{
    mend_mutex_unlock(&heap->state);
}

/* Both locks, to make room or to give it back. */
void mend_heap_lock_all(mend_heap *heap);
void mend_heap_unlock_all(mend_heap *heap);

/* The end of that work for a caller that keeps `state`. */
void mend_heap_unlock_grow(mend_heap *heap);

/* Both locks, to read everything and change nothing: what is cached stays so. */
void mend_heap_lock_to_read(mend_heap *heap);
void mend_heap_unlock_after_read(mend_heap *heap);

#endif
