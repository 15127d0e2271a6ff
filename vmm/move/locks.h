/*
 * The locks of a heap: `state` alone for calls that free mapped memory serves; both, to make room
 * and to give it back. layout/state.h says what each guards. While a thread holds both to change
 * something, the front cache is closed, and so empty.
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

/* Takes both locks, to make room or to give it back. */
void mend_heap_lock_all(mend_heap *heap);
void mend_heap_unlock_all(mend_heap *heap);

/* Ends that work; the caller keeps `state`. */
void mend_heap_unlock_grow(mend_heap *heap);

/* Takes both locks, to read everything and change nothing: the front cache stays as it is. */
void mend_heap_lock_to_read(mend_heap *heap);
void mend_heap_unlock_after_read(mend_heap *heap);

#endif
