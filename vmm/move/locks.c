/*
 * The locks of a heap: `state` alone for calls that free mapped memory serves; both, to make room
 * and to give it back. layout/state.h says what each guards. While a thread holds both to change
 * something, the front cache is closed, and so empty.
 */
#include "move/move.h"

#include "layout/layout.h"
#include "policy/policy.h"

void mend_heap_lock_all(mend_heap *heap)
{
    mend_mutex_lock(&heap->grow);
    mend_mutex_lock(&heap->state);
    mend_cache_close(heap);
}

void mend_heap_lock_to_read(mend_heap *heap)
{
    mend_mutex_lock(&heap->grow);
    mend_heap_lock(heap);
}

void mend_heap_unlock_after_read(mend_heap *heap)
{
    mend_mutex_unlock(&heap->state);
    mend_mutex_unlock(&heap->grow);
}

void mend_heap_unlock_grow(mend_heap *heap)
{
    mend_history_end_call(&heap->history);
    mend_cache_open(heap, mend_budget_spares_empty(heap));
    mend_mutex_unlock(&heap->grow);
}

void mend_heap_unlock_all(mend_heap *heap)
{
    mend_heap_unlock_grow(heap);
    mend_heap_unlock(heap);
}
