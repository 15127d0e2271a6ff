/*
 * Events of a heap, and their listeners. A kind without a listener costs one branch.
 *
 * Guarded by the heap's `state` lock. A listener calls no driver, takes no lock and does not fail.
 */
#ifndef MEND_BASE_EVENTS_H
#define MEND_BASE_EVENTS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/process.h"
#include "base/thread.h"
#include "mend/mend_inspect.h"

/* Kinds beside mend_event_kind, for listeners of the library. They have no time. */
enum {
    MEND_TOLD_MARKED = MEND_EVENT_KINDS, /* a block or page of a scope is live: its scope, bytes */
    MEND_TOLD_UNMARKED,                  /* it is not any more */
    MEND_TOLD_PEAKS,                     /* peaks are reset */
    MEND_TOLD_KINDS
};
static_assert(MEND_TOLD_KINDS < 32, "each has a bit");

/* The kinds of mend_event_kind. */
#define MEND_EVENTS_ALL ((1u << MEND_EVENT_KINDS) - 1)

/* Part of an object that listens. It may set the event's number, and a scope that it cannot count
 * to the one around. */
typedef struct mend_listener {
    struct mend_listener *next;
    uint32_t kinds; /* a bit for each */
    void (*hear)(struct mend_listener *listener, mend_history_event *event);
} mend_listener;

typedef struct mend_events {
    uint32_t kinds;         /* of all listeners */
    mend_event_cause cause; /* of the call that holds `grow` */
    uint64_t slow_ns;       /* of slow driver calls since the last event with them */
    uint64_t (*clock_ns)(const void *clock);
    const void *clock;
    const mend_mutex *guard; /* NULL: one thread alone uses the events */
    mend_listener *listeners;
} mend_events;

/* From now on the listener hears these kinds, each a bit, as long as the heap lives. */
void mend_events_listen(mend_events *events, mend_listener *listener, uint32_t kinds);

/* Sets the time, of a step also cause and duration, and calls the listeners of the kind. */
void mend_events_put(mend_events *events, mend_history_event *event);
void mend_events_put_step(mend_events *events, mend_history_event *event);

/* Whether the kind has a listener. NULL: it has none. */
static inline bool mend_events_has(const mend_events *events, int kind)
{
    return events != NULL && (events->kinds & 1u << kind) != 0;
}

/* Announces a step without an owner, in a chunk or in none. */
static inline void mend_events_note(mend_events *events, mend_event_kind kind, uint64_t address,
                                    uint64_t size_bytes, uint64_t chunk)
{
    if (mend_events_has(events, (int)kind)) {
        mend_events_put_step(events, &(mend_history_event){.kind = (int)kind,
                                                           .address = (void *)(uintptr_t)address,
                                                           .size_bytes = size_bytes,
                                                           .stream = MEND_NO_STREAM,
                                                           .chunk = chunk});
    }
}

/* How a request was served, for its event. */
typedef struct mend_service {
    mend_event_cause cause;
    uint64_t duration_ns;
} mend_service;

/* Names the call that holds `grow`, unless an outer one is named. And its end, also if none is
 * named. */
void mend_events_begin_call(mend_events *events, mend_event_cause cause);
static inline void mend_events_end_call(mend_events *events)
{
    if (events->cause != MEND_CAUSE_NONE) {
        events->cause = MEND_CAUSE_NONE;
        mend_profiler_pop();
    }
}

/* The time, while an event of a user has a listener. And the time since, while that is so. */
#define MEND_EVENTS_NO_TIME UINT64_MAX
static inline uint64_t mend_events_now_ns(const mend_events *events)
{
    const bool is_on = events != NULL && (events->kinds & MEND_EVENTS_ALL) != 0;
    return is_on ? events->clock_ns(events->clock) : MEND_EVENTS_NO_TIME;
}
static inline uint64_t mend_events_since_ns(const mend_events *events, uint64_t then_ns)
{
    const uint64_t now_ns =
        then_ns != MEND_EVENTS_NO_TIME ? mend_events_now_ns(events) : MEND_EVENTS_NO_TIME;
    return now_ns != MEND_EVENTS_NO_TIME ? now_ns - then_ns : 0;
}

#endif
