/*
 * The history: a ring of the last events of a pool, which overwrites the oldest. Events have unique
 * numbers, so each reader remembers its place, and sees missed events. A recording gets the same
 * events through a ring of its own.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_RECORD_HISTORY_H
#define MEND_RECORD_HISTORY_H

#include "base/events.h"
#include "record/event_ring.h"

typedef struct mend_history {
    mend_listener listener;
    mend_events *heard;
    mend_history_event *events;
    uint64_t capacity;          /* events. 0: no ring */
    uint64_t held;              /* events in the ring */
    uint64_t next;              /* number of the next event, from 1 */
    mend_event_ring *recording; /* NULL: none */
} mend_history;

/* Off. */
void mend_history_init(mend_history *history, mend_events *heard);

/* Memory for so many events, which the caller frees. NULL if there is not so much. */
mend_history_event *mend_history_make(uint64_t capacity);

/* Goes on in `events`, made for `capacity`, with the newest events that fit there. NULL and 0: off.
 * Returns the events before, for the caller to free. */
mend_history_event *mend_history_exchange(mend_history *history, mend_history_event *events,
                                          uint64_t capacity);

/* From now on events go to this ring, too. */
void mend_history_record(mend_history *history, mend_event_ring *recording);

/* Writes up to `capacity` events from *cursor on, each `event_bytes` behind the one before, moves
 * *cursor behind them, and returns their number. */
size_t mend_history_copy(const mend_history *history, uint64_t *cursor, void *events,
                         size_t event_bytes, size_t capacity);

#endif
