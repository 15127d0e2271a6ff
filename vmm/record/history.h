/*
 * The history: a ring of the last events of a pool, which overwrites the oldest. Events have
 * numbers that never come twice, so each reader remembers where it was, and sees what it missed.
 * A recording gets the same events through a ring of its own.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_RECORD_HISTORY_H
#define MEND_RECORD_HISTORY_H

#include <stdbool.h>

#include "mend/mend_inspect.h"
#include "record/event_ring.h"
#include "record/nvtx.h"

typedef struct mend_history {
    bool is_on; /* there is a ring, a recording, or a listener */
    mend_history_event *events;
    uint64_t capacity; /* events; 0: no ring */
    uint64_t held;     /* events in the ring */
    uint64_t next;     /* number of the next event, from 1 */
    uint64_t (*clock_ns)(const void *clock);
    const void *clock;
    uint64_t slow_ns;       /* of slow calls of the driver since the last event that tells them */
    mend_event_cause cause; /* of the call that has the right to make room */
    mend_event_ring *recording;                                    /* NULL: none */
    void (*hear)(void *listener, const mend_history_event *event); /* NULL: none */
    void *listener;
} mend_history;

/* How a request was served, for its event. */
typedef struct mend_service {
    mend_event_cause cause;
    uint64_t duration_ns;
} mend_service;

/* Off; keeps `clock` for the time of each event. */
void mend_history_init(mend_history *history, uint64_t (*clock_ns)(const void *clock),
                       const void *clock);

/* Memory for so many events, which the caller frees; NULL if there is not so much. */
mend_history_event *mend_history_make(uint64_t capacity);

/* Goes on in `events`, made for `capacity`, with the newest events that fit there. NULL and 0: off.
 * Returns the events before, for the caller to free. */
mend_history_event *mend_history_exchange(mend_history *history, mend_history_event *events,
                                          uint64_t capacity);

/* From now on events go to this ring, too. */
void mend_history_record(mend_history *history, mend_event_ring *recording);

/* The reason of the failure goes behind the last event into the recording, if there is one. */
static inline void mend_history_add_failure(mend_history *history, const mend_thread_error *error)
{
    if (history->recording != NULL && error->oom_report.struct_size > 0) {
        mend_event_ring_put_failure(history->recording, history->next - 1, error);
    }
}

/* From now on this hears of each event, under the `state` lock. */
void mend_history_tell(mend_history *history,
                       void (*hear)(void *listener, const mend_history_event *event),
                       void *listener);

static inline bool mend_history_is_on(const mend_history *history)
{
    return history != NULL && history->is_on;
}

/* Adds an event; sets its number and time. The history is on. */
void mend_history_put(mend_history *history, mend_history_event event);

/* Sets its cause and duration, too: those of the call that has the right to make room. */
void mend_history_put_step(mend_history *history, mend_history_event event);

/* Adds a step without an owner, in a chunk or in none, if the history is on. NULL: there is no
 * history. */
static inline void mend_history_note(mend_history *history, mend_event_kind kind, uint64_t address,
                                     uint64_t size_bytes, uint64_t chunk)
{
    if (mend_history_is_on(history)) {
        mend_history_put_step(history, (mend_history_event){.kind = (int)kind,
                                                            .address = (void *)(uintptr_t)address,
                                                            .size_bytes = size_bytes,
                                                            .stream = MEND_NO_STREAM,
                                                            .chunk = chunk});
    }
}

/* The name of a cause from MEND_CAUSE_REQUEST on. */
const char *mend_event_cause_name(mend_event_cause cause);

/* Names the call that has the right to make room, unless one around it is named. */
static inline void mend_history_begin_call(mend_history *history, mend_event_cause cause)
{
    if (history->cause == MEND_CAUSE_NONE) {
        history->cause = cause;
        mend_nvtx_push(mend_event_cause_name(cause));
    }
}

/* Its end, also if none is named. */
static inline void mend_history_end_call(mend_history *history)
{
    if (history->cause != MEND_CAUSE_NONE) {
        history->cause = MEND_CAUSE_NONE;
        mend_nvtx_pop();
    }
}

/* The time, while the history is on; and how long it is since, while it was on and still is. */
#define MEND_HISTORY_NO_TIME UINT64_MAX
static inline uint64_t mend_history_now_ns(const mend_history *history)
{
    return mend_history_is_on(history) ? history->clock_ns(history->clock) : MEND_HISTORY_NO_TIME;
}
static inline uint64_t mend_history_since_ns(const mend_history *history, uint64_t then_ns)
{
    return then_ns != MEND_HISTORY_NO_TIME && mend_history_is_on(history)
               ? history->clock_ns(history->clock) - then_ns
               : 0;
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
