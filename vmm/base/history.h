/*
 * The history: a ring of the last events of a pool, which overwrites the oldest. Events have
 * numbers that never come twice, so each reader remembers where it was, and sees what it missed.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_BASE_HISTORY_H
#define MEND_BASE_HISTORY_H

#include <stdbool.h>

#include "mend/mend_views.h"

typedef struct mend_history {
    mend_history_event *events;
    uint64_t capacity; /* events; 0: off */
    uint64_t held;     /* events in the ring */
    uint64_t next;     /* number of the next event, from 1 */
    uint64_t (*clock_ns)(const void *clock);
    const void *clock;
} mend_history;

/* Off; keeps `clock` for the time of each event. */
void mend_history_init(mend_history *history, uint64_t (*clock_ns)(const void *clock),
                       const void *clock);

/* Memory for so many events, which the caller frees; NULL if there is not so much. */
mend_history_event *mend_history_make(uint64_t capacity);

/* Goes on in `events`, made for `capacity`, with the newest events that fit there. NULL and 0: off.
 * Returns the events before, for the caller to free. */
mend_history_event *mend_history_exchange(mend_history *history, mend_history_event *events,
                                          uint64_t capacity);

static inline bool mend_history_is_on(const mend_history *history)
{
    return history != NULL && history->capacity > 0;
}

/* Adds an event; sets its number and time. The history is on. */
void mend_history_put(mend_history *history, mend_history_event event);

/* Adds an event without an owner, if the history is on. NULL: there is no history. */
static inline void mend_history_note(mend_history *history, mend_event_kind kind, uint64_t address,
                                     uint64_t size_bytes)
{
    if (mend_history_is_on(history)) {
        mend_history_put(history, (mend_history_event){.kind = (int)kind,
                                                       .address = (void *)(uintptr_t)address,
                                                       .size_bytes = size_bytes,
                                                       .stream = MEND_NO_STREAM});
    }
}

/* The same, of a stream. */
static inline void mend_history_note_stream(mend_history *history, mend_event_kind kind,
                                            uint64_t size_bytes, mend_stream stream)
{
    if (mend_history_is_on(history)) {
        mend_history_put(
            history,
            (mend_history_event){.kind = (int)kind, .size_bytes = size_bytes, .stream = stream});
    }
}

/* Writes up to `capacity` events from *cursor on, each `event_bytes` behind the one before, moves
 * *cursor behind them, and returns their number. */
size_t mend_history_copy(const mend_history *history, uint64_t *cursor, void *events,
                         size_t event_bytes, size_t capacity);

/* Events that happened and are in the ring no more. */
static inline uint64_t mend_history_lost(const mend_history *history)
{
    return history->next - 1 - history->held;
}

#endif
