/* The listeners are few, in a list without an order. */
#include "base/events.h"

void mend_events_listen(mend_events *events, mend_listener *listener, uint32_t kinds)
{
    mend_listener **link = &events->listeners;
    assert(events->guard == NULL || mend_mutex_is_held(events->guard));
    listener->kinds = kinds;
    while (*link != NULL && *link != listener) {
        link = &(*link)->next;
    }
    *link = listener; /* the last, or where it was */
    events->kinds = 0;
    for (const mend_listener *at = events->listeners; at != NULL; at = at->next) {
        events->kinds |= at->kinds;
    }
}

void mend_events_put(mend_events *events, mend_history_event *event)
{
    assert(event->kind > 0);
    assert(event->kind < MEND_TOLD_KINDS);
    if (event->kind < MEND_EVENT_KINDS) {
        event->time_ns = events->clock_ns(events->clock);
    }
    for (mend_listener *at = events->listeners; at != NULL; at = at->next) {
        if ((at->kinds & 1u << event->kind) != 0) {
            at->hear(at, event);
        }
    }
}

void mend_events_put_step(mend_events *events, mend_history_event *event)
{
    event->cause = event->cause != MEND_CAUSE_NONE ? event->cause : (int)events->cause;
    event->duration_ns = events->slow_ns;
    events->slow_ns = 0;
    mend_events_put(events, event);
}

void mend_events_begin_call(mend_events *events, mend_event_cause cause)
{
    static const char *const names[MEND_CAUSES] = {
        [MEND_CAUSE_REQUEST] = "request", [MEND_CAUSE_TRIM] = "trim",
        [MEND_CAUSE_LIMIT] = "limit",     [MEND_CAUSE_BACKGROUND_TRIM] = "background_trim",
        [MEND_CAUSE_PEER] = "peer",       [MEND_CAUSE_COMPACT] = "compact",
        [MEND_CAUSE_SLEEP] = "sleep",
    };
    assert(cause >= MEND_CAUSE_REQUEST);
    assert(cause < MEND_CAUSES);
    if (events->cause == MEND_CAUSE_NONE) {
        events->cause = cause;
        mend_profiler_push(names[cause]);
    }
}
