/*
 * Waits for the whole context: for memory freed without a stream, or on streams out of reach. An
 * event of the context covers all that was freed on every stream before it was recorded, and
 * streams wait for it on the device. Several may wait at a time. Or the CPU waits for the context.
 * Neither covers frees in a graph pool, whose graphs may be launched again.
 */
#include "memory/waits.h"

#include <string.h>

#include "base/error.h"

/* From here on frees belong to a new epoch of each stream. A slot that is free, or a graph pool's,
 * awaits nothing: the stream that comes to have it meanwhile may pass epochs of its own. One such
 * wait begins at a time: its place follows the events. */
static void begin_context_wait(mend_streams *streams)
{
    streams->may_be_several = true; /* UNKNOWN awaits something from here on */
    MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
        mend_stream_state *state = &streams->items[i];
        state->awaited[streams->context_event_count] = (mend_awaited){
            .epoch = state->open ? state->open_epoch++ : state->open_epoch - 1,
            .was_open = state->open,
            .bytes = state->open_bytes,
        };
        state->open = false;
        state->open_bytes = 0;
    }
}

/* It failed, and the closed epochs wait as before. Streams that were registered meanwhile have no
 * awaited epoch. */
static void undo_context_wait(mend_streams *streams)
{
    MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
        mend_stream_state *state = &streams->items[i];
        mend_awaited *awaited = &state->awaited[streams->context_event_count];
        state->open = state->open || awaited->was_open;
        state->open_bytes += awaited->was_open ? awaited->bytes : 0;
        *awaited = (mend_awaited){0};
    }
}

/* All that waited for the first `count` has passed: for events, and for the wait behind them. */
static void pass_awaited(mend_streams *streams, uint32_t count)
{
    assert(count > 0 && count <= MEND_CONTEXT_EVENTS + 1);
    streams->passes++;
    MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
        mend_stream_state *state = &streams->items[i];
        const uint64_t epoch = state->awaited[count - 1].epoch;
        if (epoch > state->passed_epoch) { /* later than its own fences */
            size_t covered = 0;            /* a fence recorded during the wait is not covered */
            while (covered < state->fence_count && state->fences[covered].epoch <= epoch) {
                covered++;
            }
            assert(epoch < state->open_epoch);
            mend_streams_pass_fences(streams, state, covered);
            state->passed_epoch = epoch;
        }
        const uint32_t left = MEND_CONTEXT_EVENTS + 1 - count;
        memmove(state->awaited, state->awaited + count, left * sizeof(mend_awaited));
        memset(state->awaited + left, 0, count * sizeof(mend_awaited));
    }
}

/* ---- events of the context ------------------------------------------------------------------- */

static void keep_events(mend_streams *streams, const mend_context_event *made)
{
    for (int i = 0; i < MEND_CONTEXTS; i++) {
        if (made->of[i] != NULL) {
            mend_streams_keep_event(streams, made->of[i], streams->contexts[i]);
        }
    }
}

/* Makes the events of one of all contexts. Keeps none if it fails. */
static mend_result take_events(mend_streams *streams, mend_context_event *made)
{
    mend_result result = MEND_OK;
    for (int i = 0; i < MEND_CONTEXTS && result == MEND_OK; i++) {
        if (streams->contexts[i] != NULL) {
            result = mend_streams_take_event(streams, streams->contexts[i], &made->of[i]);
        }
    }
    if (result != MEND_OK) {
        keep_events(streams, made);
    }
    return result;
}

/* *is_whole is false if a stream of one more device was seen meanwhile. */
static mend_answer record_events(mend_streams *streams, const mend_context_event *made,
                                 bool *is_whole)
{
    mend_answer answer = MEND_ANSWER(context_record, MEND_DRIVER_OK);
    *is_whole = true;
    for (int i = 0; i < MEND_CONTEXTS && answer.status == MEND_DRIVER_OK; i++) {
        if (made->of[i] != NULL) {
            answer = mend_foreign_record(streams, i, made->of[i]);
            streams->context_fences += answer.status == MEND_DRIVER_OK;
        }
        *is_whole = *is_whole && (streams->contexts[i] != NULL) == (made->of[i] != NULL);
    }
    return answer;
}

/* The first `count` events have passed: also those before an event that has. */
static void pass_context_events(mend_streams *streams, uint32_t count)
{
    assert(count <= streams->context_event_count);
    for (uint32_t k = 0; k < count; k++) {
        keep_events(streams, &streams->context_events[k]);
    }
    streams->context_event_count -= count;
    memmove(streams->context_events, streams->context_events + count,
            streams->context_event_count * sizeof(mend_context_event));
}

/* The event counts from now on. If there are too many, it takes the place of the last one, whose
 * frees it covers too. */
static void add_context_event(mend_streams *streams, const mend_context_event *made)
{
    uint32_t at = streams->context_event_count;
    const bool replaces = at == MEND_CONTEXT_EVENTS;
    if (replaces) {
        keep_events(streams, &streams->context_events[--at]);
    }
    uint32_t i = MEND_STREAM_UNKNOWN;
    do {
        mend_awaited *awaited = streams->items[i].awaited;
        if (replaces) {
            awaited[at + 1].bytes += awaited[at].bytes;
            awaited[at] = awaited[at + 1];
            awaited[at + 1] = (mend_awaited){0};
        }
        i = mend_slots_next_of(streams, i);
    } while (replaces && i != MEND_STREAM_UNKNOWN);
    streams->context_events[at] = *made;
    streams->context_event_count = at + 1;
}

static bool has_passed(const mend_streams *streams, const mend_context_event *event)
{
    const mend_driver *driver = streams->driver;
    bool passed = true;
    for (int i = 0; i < MEND_CONTEXTS && passed; i++) {
        passed =
            event->of[i] == NULL || driver->event_query(driver, event->of[i]) == MEND_DRIVER_OK;
    }
    return passed;
}

bool mend_context_poll(mend_streams *streams)
{
    uint32_t passed = 0;
    while (passed < streams->context_event_count &&
           has_passed(streams, &streams->context_events[passed])) {
        passed++;
    }
    if (passed > 0) {
        pass_context_events(streams, passed);
        pass_awaited(streams, passed);
    }
    return passed > 0;
}

/* Not while the pool knows of a capture, or a graph pool is begun in the process, whose capture may
 * begin at any time. The open epochs are closed first, then each context records its event, and
 * only then the frees wait for these. If one is refused, or a stream of one more context was seen
 * meanwhile, the epochs are open again. */
mend_result mend_streams_record_context(mend_streams *streams, uint32_t asking, bool *recorded)
{
    assert(asking < streams->count);
    bool is_captured = false;
    mend_context_event made = {0};
    *recorded = false;
    if (streams->lacks_context_events) {
        return MEND_OK;
    }
    mend_result result = mend_streams_find_capture(streams, asking, &is_captured);
    if (result == MEND_OK && !is_captured) {
        result = take_events(streams, &made);
    }
    if (result != MEND_OK || is_captured) {
        return result;
    }
    if (!mend_process_begin_unsafe_call()) {
        keep_events(streams, &made);
        return MEND_OK;
    }
    begin_context_wait(streams);
    /* Each call releases `state`. Frees made meanwhile belong to later epochs, and the memory of
     * closed ones stays unused, because no event covers it yet. */
    const mend_answer answer = record_events(streams, &made, recorded);
    const mend_status status = answer.status;
    mend_process_end_unsafe_call();
    if (*recorded && status == MEND_DRIVER_OK) {
        add_context_event(streams, &made);
        return MEND_OK;
    }
    *recorded = false;
    undo_context_wait(streams);
    keep_events(streams, &made);
    streams->lacks_context_events |= status == MEND_DRIVER_NOT_SUPPORTED;
    streams->hidden_captures += status != MEND_DRIVER_OK && status != MEND_DRIVER_NOT_SUPPORTED;
    return mend_status_is_fatal(status) ? mend_streams_driver_result(streams, answer.call, status)
                                        : MEND_OK;
}

void mend_streams_note_host_waits(mend_streams *streams, uint64_t count)
{
    streams->host_waits += count;
    for (; count > 0; count--) {
        mend_events_note(streams->events, MEND_EVENT_HOST_WAIT, 0, 0, 0);
    }
}

/* The CPU waits for the work before the oldest event, not for later work. */
static mend_result synchronize_context_event(mend_streams *streams)
{
    assert(streams->context_event_count > 0);
    const mend_driver *driver = streams->driver;
    const mend_context_event *oldest = &streams->context_events[0]; /* stays while `grow` is held */
    for (int i = 0; i < MEND_CONTEXTS; i++) {
        if (oldest->of[i] != NULL) {
            mend_status status = driver->event_synchronize(driver, oldest->of[i]);
            MEND_TRY(mend_streams_driver_result(streams, MEND_CALL_event_synchronize, status));
            mend_streams_note_host_waits(streams, 1);
        }
    }
    pass_context_events(streams, 1);
    pass_awaited(streams, 1);
    return MEND_OK;
}

mend_result mend_streams_wait_context(mend_streams *streams, uint32_t asking)
{
    assert(asking < streams->count);
    bool is_captured = false;
    MEND_TRY(mend_streams_find_capture(streams, asking, &is_captured));
    if (is_captured) {
        return mend_failure(MEND_ERROR_CAPTURING,
                            "a stream is being captured: the pool cannot wait for the context");
    }
    begin_context_wait(streams);
    uint64_t waits = 0;
    const mend_answer answer = mend_foreign_synchronize(streams, &waits);
    const mend_status status = answer.status;
    if (status == MEND_DRIVER_OK) { /* and so have the events */
        const uint32_t events = streams->context_event_count;
        pass_context_events(streams, events);
        pass_awaited(streams, events + 1);
    } else {
        undo_context_wait(streams);
    }
    mend_streams_note_host_waits(streams, waits);
    if (mend_status_is_of_capture(status)) {
        streams->hidden_captures++;
        return mend_refused(streams->driver, MEND_ERROR_CAPTURING, MEND_CALL_context_synchronize,
                            status,
                            "a stream that the pool does not know is being captured: end the "
                            "capture, and call again");
    }
    return mend_streams_driver_result(streams, answer.call, status);
}

mend_result mend_streams_wait_unfenced(mend_streams *streams, uint32_t asking)
{
    bool recorded = streams->context_event_count > 0;
    MEND_TRY(recorded || streams->hidden_captures > 0
                 ? MEND_OK
                 : mend_streams_record_context(streams, asking, &recorded));
    if (recorded && mend_context_poll(streams)) {
        return MEND_OK; /* the GPU was idle */
    }
    return recorded ? synchronize_context_event(streams)
                    : mend_streams_wait_context(streams, asking);
}
