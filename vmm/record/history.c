/*
 * The place of an event in the ring is its number modulo the capacity; so another capacity moves
 * what stays.
 */
#include "record/history.h"

#include <stdlib.h>

#include "base/struct_size.h"

void mend_history_init(mend_history *history, uint64_t (*clock_ns)(const void *clock),
                       const void *clock)
{
    *history = (mend_history){.next = 1, .clock_ns = clock_ns, .clock = clock};
}

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

mend_history_event *mend_history_exchange(mend_history *history, mend_history_event *events,
                                          uint64_t capacity)
{
    assert((events == NULL) == (capacity == 0));
    const mend_history before = *history;
    history->events = events;
    history->capacity = capacity;
    history->is_on = capacity > 0 || history->recording != NULL || history->hear != NULL;
    history->held = mend_min_u64(before.held, capacity);
    for (uint64_t i = history->next - history->held; i < history->next; i++) {
        *place_of(history, i) = *place_of(&before, i);
    }
    return before.events;
}

void mend_history_record(mend_history *history, mend_event_ring *recording)
{
    history->recording = recording;
    history->is_on = true;
}

void mend_history_tell(mend_history *history,
                       void (*hear)(void *listener, const mend_history_event *event),
                       void *listener)
{
    history->hear = hear;
    history->listener = listener;
    history->is_on = true;
}

void mend_history_put(mend_history *history, mend_history_event event)
{
    assert(mend_history_is_on(history));
    assert(event.kind > 0);
    assert(event.kind < MEND_EVENT_KINDS);
    event.sequence = history->next;
    event.time_ns = history->clock_ns(history->clock);
    history->next++;
    if (history->capacity > 0) {
        *place_of(history, event.sequence) = event;
        history->held += history->held < history->capacity;
    }
    if (history->recording != NULL) {
        mend_event_ring_put(history->recording, &event);
    }
    if (history->hear != NULL) {
        history->hear(history->listener, &event);
    }
}

const char *mend_event_cause_name(mend_event_cause cause)
{
    static const char *const names[MEND_CAUSES] = {
        [MEND_CAUSE_REQUEST] = "request", [MEND_CAUSE_TRIM] = "trim",
        [MEND_CAUSE_LIMIT] = "limit",     [MEND_CAUSE_BACKGROUND_TRIM] = "background_trim",
        [MEND_CAUSE_PEER] = "peer",       [MEND_CAUSE_COMPACT] = "compact",
        [MEND_CAUSE_SLEEP] = "sleep",
    };
    assert(cause >= MEND_CAUSE_REQUEST);
    assert(cause < MEND_CAUSES);
    return names[cause];
}

void mend_history_put_step(mend_history *history, mend_history_event event)
{
    event.cause = event.cause != MEND_CAUSE_NONE ? event.cause : (int)history->cause;
    event.duration_ns = history->slow_ns;
    history->slow_ns = 0;
    mend_history_put(history, event);
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
