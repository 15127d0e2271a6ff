/* The calls that show the memory of a pool, and what happened to it. */
#include <stdlib.h>

#include "pool/pool.h"
#include "record/record.h"

/* Events that a reader copies before it lets other threads have the lock. */
enum { EVENTS_AT_A_TIME = 256 };

mend_result mend_get_regions(mend_pool *pool, mend_region *regions, size_t region_bytes,
                             size_t capacity, size_t *count)
{
    MEND_TRY(
        mend_pool_check_array(pool, regions, region_bytes, capacity, count, "mend_get_regions"));
    mend_heap *heap = &pool->heap;
    mend_heap_lock_to_read(heap);
    mend_usage_settle(heap);
    *count = mend_observe_regions(heap, NULL, region_bytes, 0);
    if (*count <= capacity) {
        mend_observe_regions(heap, regions, region_bytes, capacity);
    }
    mend_heap_unlock_after_read(heap);
    return MEND_OK;
}

mend_result mend_history_start(mend_pool *pool, uint64_t capacity_events)
{
    MEND_INVALID_IF(pool == NULL, "mend_history_start: pool is NULL");
    MEND_TRY(mend_pool_check_process(pool));
    mend_history_event *events = capacity_events > 0 ? mend_history_make(capacity_events) : NULL;
    if (events == NULL && capacity_events > 0) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY,
                         "malloc failed for a history of %llu events",
                         (unsigned long long)capacity_events);
    }
    mend_result result = mend_pool_enter(pool);
    if (result == MEND_OK) {
        events = mend_history_exchange(&pool->heap.history, events, capacity_events);
        result = mend_pool_leave(pool, MEND_OK);
    }
    free(events);
    return result;
}

mend_result mend_history_read(mend_pool *pool, uint64_t *cursor, mend_history_event *events,
                              size_t event_bytes, size_t capacity, size_t *count)
{
    MEND_INVALID_IF(cursor == NULL, "mend_history_read: cursor is NULL");
    MEND_TRY(
        mend_pool_check_array(pool, events, event_bytes, capacity, count, "mend_history_read"));
    mend_heap *heap = &pool->heap;
    size_t done = 0;
    size_t copied;
    do {
        size_t most = (size_t)mend_min_u64(capacity - done, EVENTS_AT_A_TIME);
        mend_heap_lock(heap);
        if (done == 0 && *cursor > heap->history.next) {
            mend_heap_unlock(heap);
            return mend_pool_invalid("mend_history_read: the cursor is behind the last event");
        }
        void *to = capacity > 0 ? (char *)events + done * event_bytes : NULL;
        copied = mend_history_copy(&heap->history, cursor, to, event_bytes, most);
        mend_heap_unlock(heap);
        done += copied;
    } while (copied == EVENTS_AT_A_TIME && done < capacity);
    *count = done;
    return MEND_OK;
}
