/*
 * The place of an event in the ring is its number modulo the capacity, so another capacity moves
 * the remaining events.
 */
#include "record/history.h"

#include <stdlib.h>

#include "base/struct_size.h"

mend_history_event *mend_history_make(uint64_t capacity)
{
    assert(capacity > 0);
    return capacity <= SIZE_MAX / sizeof(mend_history_event)
               ? calloc((size_t)capacity, sizeof(mend_history_event))
               : NULL;
}

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
        mend_event_ring_put(history->recording, event);
    }
}

void mend_history_init(mend_history *history, mend_events *heard)
{
    *history = (mend_history){.listener.hear = hear, .heard = heard, .next = 1};
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
