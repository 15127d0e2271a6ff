#include "move/locks.h"

#include "layout/cache.h"
#include "policy/budget.h"

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
    heap->history.cause = MEND_CAUSE_NONE;
    mend_cache_open(heap, mend_budget_spares_empty(heap));
    mend_mutex_unlock(&heap->grow);
}

void mend_heap_unlock_all(mend_heap *heap)
{
    mend_heap_unlock_grow(heap);
    mend_mutex_unlock(&heap->state);
}
