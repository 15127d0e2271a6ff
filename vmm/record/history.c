/* The history of a pool. The place of an event in the ring is its number modulo the capacity, so
 * another capacity moves the remaining events. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/align.h"
#include "pool/pool.h"
#include "record/record.h"

/* Events that a reader copies before it lets other threads have the lock. */
enum { EVENTS_AT_A_TIME = 256 };

/* ---- the ring -------------------------------------------------------------------------------- */

static void put(mend_event_ring *ring, const mend_history_event *event)
{
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    const uint64_t held = written - atomic_load_explicit(&ring->read, memory_order_acquire);
    const bool is_refusal = event->kind == MEND_EVENT_OUT_OF_MEMORY;
    if (held == MEND_EVENT_RING_ROOM) {
        atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
    } else {
        ring->events[written % MEND_EVENT_RING_ROOM] = *event;
        atomic_store_explicit(&ring->written, written + 1, memory_order_release);
    }
    if (is_refusal) { /* why, as the thread has just noted it. Of many at once some have none */
        const mend_thread_error *error = mend_process_failure();
        const uint64_t noted = atomic_load_explicit(&ring->failures_written, memory_order_relaxed);
        if (error->oom_report.struct_size > 0 &&
            noted - atomic_load_explicit(&ring->failures_read, memory_order_acquire) <
                MEND_EVENT_RING_FAILURES) {
            mend_event_failure *to = &ring->failures[noted % MEND_EVENT_RING_FAILURES];
            to->sequence = event->sequence;
            memcpy(to->numbers, &error->oom_report.requested_bytes, sizeof(to->numbers));
            memcpy(to->message, error->message, sizeof(to->message));
            atomic_store_explicit(&ring->failures_written, noted + 1, memory_order_release);
        }
    }
    if (held == MEND_EVENT_RING_ROOM / 2 || is_refusal) { /* after that the program may end */
        (void)eventfd_write(ring->bell, 1);
    }
}

const mend_history_event *mend_event_ring_next(mend_event_ring *ring)
{
    const uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    return read == atomic_load_explicit(&ring->written, memory_order_acquire)
               ? NULL
               : &ring->events[read % MEND_EVENT_RING_ROOM];
}

void mend_event_ring_pass(mend_event_ring *ring)
{
    const uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    atomic_store_explicit(&ring->read, read + 1, memory_order_release);
}

/* ---- the history ----------------------------------------------------------------------------- */

static mend_history_event *place_of(const mend_history *history, uint64_t sequence)
{
    assert(history->capacity > 0);
    return &history->events[sequence % history->capacity];
}

static void listen(mend_history *history)
{
    const bool is_on = history->capacity > 0 || history->recording != NULL;
    mend_events_listen(history->heard, &history->listener, is_on ? MEND_EVENTS_ALL : 0);
}

mend_history_event *mend_history_exchange(mend_history *history, mend_history_event *events,
                                          uint64_t capacity)
{
    assert((events == NULL) == (capacity == 0));
    const mend_history before = *history;
    history->events = events;
    history->capacity = capacity;
    listen(history);
    history->held = mend_min_u64(before.held, capacity);
    for (uint64_t i = history->next - history->held; i < history->next; i++) {
        *place_of(history, i) = *place_of(&before, i);
    }
    return before.events;
}

void mend_history_record(mend_history *history, mend_event_ring *recording)
{
    history->recording = recording;
    listen(history);
}

static void hear(mend_listener *listener, mend_history_event *event)
{
    mend_history *history = MEND_CONTAINER_OF(listener, mend_history, listener);
    event->sequence = history->next++;
    if (history->capacity > 0) {
        *place_of(history, event->sequence) = *event;
        history->held += history->held < history->capacity;
    }
    if (history->recording != NULL) {
        put(history->recording, event);
    }
}

void mend_history_init(mend_history *history, mend_events *heard)
{
    *history = (mend_history){.listener.hear = hear, .heard = heard, .next = 1};
    listen(history);
}

/* The history is a listener as long as the pool lives, if only of nothing, so that all observers
 * are found by it. */
mend_observers *mend_observers_of(const mend_heap *heap)
{
    mend_listener *found = heap->events.listeners;
    while (found != NULL && found->hear != hear) {
        found = found->next;
    }
    return MEND_CONTAINER_OR_NULL(found, mend_observers, history.listener);
}

size_t mend_history_copy(const mend_history *history, uint64_t *cursor, void *events,
                         size_t event_bytes, size_t capacity)
{
    assert(*cursor <= history->next);
    uint64_t at = mend_max_u64(*cursor, history->next - history->held);
    size_t count = 0;
    char *to = events;
    for (; at < history->next && count < capacity; at++, count++) {
        assert(place_of(history, at)->sequence == at);
        mend_element_read(to, event_bytes, place_of(history, at), sizeof(mend_history_event), 0);
        to += event_bytes;
    }
    *cursor = at;
    return count;
}

/* ---- calls ----------------------------------------------------------------------------------- */

mend_result mend_history_start(mend_pool *pool, uint64_t capacity_events)
{
    MEND_INVALID_IF(pool == NULL, "mend_history_start: pool is NULL");
    MEND_TRY(mend_pool_check_process(pool));
    mend_history_event *events =
        capacity_events > 0 ? calloc(capacity_events, sizeof(*events)) : NULL;
    if (events == NULL && capacity_events > 0) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a history of %lu events",
                         capacity_events);
    }
    mend_result result = mend_pool_enter(pool);
    if (result == MEND_OK) {
        events = mend_history_exchange(&mend_observers_of(&pool->heap)->history, events,
                                       capacity_events);
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
        const mend_history *history = &mend_observers_of(heap)->history;
        if (*cursor > history->next) {
            mend_heap_unlock(heap);
            return mend_pool_invalid("mend_history_read: the cursor is after the last event");
        }
        void *to = capacity > 0 ? (char *)events + done * event_bytes : NULL;
        copied = mend_history_copy(history, cursor, to, event_bytes, most);
        mend_heap_unlock(heap);
        done += copied;
    } while (copied == EVENTS_AT_A_TIME && done < capacity);
    *count = done;
    return MEND_OK;
}
