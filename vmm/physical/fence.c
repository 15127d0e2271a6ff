#include "physical/fence.h"

#include <assert.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "base/process.h"
#include "physical/foreign.h"
#include "physical/record.h"
#include "physical/slots.h"

static mend_result no_host_memory(void)
{
    return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a stream's fences");
}

/* Removes the first `count` fences, which have passed. */
static void pass_fences(mend_streams *streams, mend_stream_state *state, size_t count)
{
    assert(count <= state->fence_count);
    streams->passes++;
    for (size_t i = 0; i < count; i++) {
        assert(state->fences[i].epoch > state->passed_epoch);
        state->passed_epoch = state->fences[i].epoch;
        mend_streams_keep_event(streams, state->fences[i].event, state->fences[i].context);
    }
    if (count == 0) {
        return;
    }
    state->fence_count -= count;
    memmove(state->fences, state->fences + count, state->fence_count * sizeof(mend_fence));
}

/* Removes a fence whose event belongs to a capture, so that it marks nothing. A later fence of the
 * stream covers its epoch; if there is none, the epoch is open again. */
static void drop_fence(mend_streams *streams, mend_stream_state *state, size_t at)
{
    assert(at < state->fence_count);
    mend_streams_keep_event(streams, state->fences[at].event, state->fences[at].context);
    state->fence_count--;
    memmove(state->fences + at, state->fences + at + 1,
            (state->fence_count - at) * sizeof(mend_fence));
    state->open = state->open || at == state->fence_count;
}

/* Whether a wait for the context makes frees of this stream idle. It does not for a group: its
 * graphs may be launched again. */
static bool context_covers(const mend_stream_state *state)
{
    return state->group == 0;
}

/* From here on frees belong to a new epoch of each stream. A slot that is free awaits nothing: the
 * stream that comes to have it meanwhile may pass epochs of its own. */
static void begin_context_wait(mend_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        state->awaited_epoch = 0;
        if (context_covers(state) && !state->is_free_slot) {
            state->awaited_epoch = state->open ? state->open_epoch++ : state->open_epoch - 1;
            state->was_open = state->open;
            state->awaited_bytes = state->open_bytes;
            state->open = false;
            state->open_bytes = 0;
        }
    }
}

/* If the wait succeeded, all earlier frees have passed; otherwise they wait as before. Streams that
 * were registered during the wait have no awaited epoch. */
static void end_context_wait(mend_streams *streams, bool passed)
{
    streams->passes++;
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        const bool is_later = state->awaited_epoch > state->passed_epoch; /* than its own fences */
        if (state->awaited_epoch != 0 && passed && is_later) {
            size_t covered = 0; /* a fence recorded during the wait is not covered */
            while (covered < state->fence_count &&
                   state->fences[covered].epoch <= state->awaited_epoch) {
                covered++;
            }
            assert(state->awaited_epoch < state->open_epoch);
            pass_fences(streams, state, covered);
            state->passed_epoch = state->awaited_epoch;
        } else if (state->awaited_epoch != 0 && !passed) {
            state->open = state->open || state->was_open;
            state->open_bytes += state->was_open ? state->awaited_bytes : 0;
        }
        state->awaited_epoch = 0;
    }
}

/* ---- the event of the context ----------------------------------------------------------------
 *
 * There is at most one: it covers what was freed on every stream before it was recorded, also
 * without a stream, and the host need not wait for it. What is freed later waits for the next one.
 */

/* The event covers nothing any more: it has passed, or something else will cover the frees. */
static void end_context_event(mend_streams *streams, bool passed)
{
    assert(streams->context_event != NULL);
    mend_streams_keep_event(streams, streams->context_event, streams->context);
    streams->context_event = NULL;
    end_context_wait(streams, passed);
}

static bool poll_context(mend_streams *streams)
{
    const bool has_passed =
        streams->context_event != NULL &&
        streams->driver->event_query(streams->driver, streams->context_event) == MEND_DRIVER_OK;
    if (has_passed) {
        end_context_event(streams, true);
    }
    return has_passed;
}

static bool is_of_capture(mend_status status)
{
    return status == MEND_DRIVER_CAPTURE_UNSUPPORTED || status == MEND_DRIVER_CAPTURE_INVALIDATED;
}

bool mend_streams_can_record_context(const mend_streams *streams)
{
    return !streams->lacks_context_events && streams->foreign_devices == 0 &&
           !streams->has_strangers;
}

mend_result mend_streams_record_context(mend_streams *streams, uint32_t asking, bool *recorded)
{
    assert(asking < streams->count);
    assert(streams->context_event == NULL);
    bool is_captured = false;
    mend_event event = NULL;
    *recorded = false;
    if (!mend_streams_can_record_context(streams)) {
        return MEND_OK;
    }
    mend_result result = mend_streams_find_capture(streams, asking, &is_captured);
    if (result == MEND_OK && !is_captured) {
        result = mend_streams_take_event(streams, streams->context, &event);
    }
    if (result != MEND_OK || is_captured) {
        return result;
    }
    if (!mend_process_begin_unsafe_call()) {
        mend_streams_keep_event(streams, event, streams->context);
        return MEND_OK;
    }
    begin_context_wait(streams);
    /* The call releases `state`. Frees made meanwhile belong to later epochs, and nobody takes the
     * memory of the closed ones, because no event covers it yet. */
    mend_status status = streams->driver->context_record(streams->driver, event);
    mend_process_end_unsafe_call();
    if (status == MEND_DRIVER_OK) {
        streams->context_event = event;
        streams->context_fences++;
        *recorded = true;
        return MEND_OK;
    }
    end_context_wait(streams, false);
    mend_streams_keep_event(streams, event, streams->context);
    streams->lacks_context_events |= status == MEND_DRIVER_NOT_SUPPORTED;
    streams->hidden_captures += status != MEND_DRIVER_NOT_SUPPORTED; /* or what it is */
    return mend_status_is_fatal(status)
               ? mend_streams_driver_failed(streams, MEND_CALL_context_record, status)
               : MEND_OK;
}

/* The host waits for what the event covers, not for work queued later. */
static mend_result synchronize_context_event(mend_streams *streams)
{
    assert(streams->context_event != NULL);
    mend_status status =
        streams->driver->event_synchronize(streams->driver, streams->context_event);
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, MEND_CALL_event_synchronize, status);
    }
    streams->host_waits++;
    mend_history_note(streams->history, MEND_EVENT_HOST_WAIT, 0, 0);
    end_context_event(streams, true);
    return MEND_OK;
}

bool mend_streams_poll(mend_streams *streams)
{
    bool any = poll_context(streams);
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        size_t passed = 0;
        while (passed < state->fence_count) {
            mend_status status =
                streams->driver->event_query(streams->driver, state->fences[passed].event);
            if (status == MEND_DRIVER_CAPTURED_EVENT) {
                drop_fence(streams, state, passed);
                continue;
            }
            if (status != MEND_DRIVER_OK) {
                break;
            }
            passed++;
        }
        if (passed > 0) {
            pass_fences(streams, state, passed);
            any = true;
        }
    }
    return any;
}

/* The first fence that covers the epoch, else the context's event; the caller knows that there is
 * one. */
static mend_fence covering_fence(const mend_streams *streams, const mend_stream_state *state,
                                 uint64_t epoch)
{
    size_t at = 0;
    if (state->fence_count == 0 || state->fences[state->fence_count - 1].epoch < epoch) {
        assert(streams->context_event != NULL);
        assert(epoch <= state->awaited_epoch);
        return (mend_fence){state->awaited_epoch, streams->context_event, streams->context};
    }
    while (at + 1 < state->fence_count && state->fences[at].epoch < epoch) {
        at++;
    }
    assert(state->fences[at].epoch >= epoch);
    return state->fences[at];
}

/* A stream that waits for the context's event waits for all that this covers. */
static void note_waited(mend_streams *streams, uint32_t waiter, uint32_t freed_on, mend_fence fence)
{
    mend_stream_state *state = &streams->items[waiter];
    const bool covers_all = fence.event == streams->context_event;
    for (uint32_t i = covers_all ? 0 : freed_on; i <= freed_on || covers_all; i++) {
        if (i >= state->waited_capacity || i >= streams->count) {
            break;
        }
        state->waited_epochs[i] = mend_max_u64(
            state->waited_epochs[i], covers_all ? streams->items[i].awaited_epoch : fence.epoch);
    }
}

mend_result mend_streams_make_wait(mend_streams *streams, uint32_t waiter, mend_stamp stamp)
{
    assert(waiter < streams->count);
    if (mend_stamp_is_ready(streams, stamp, waiter)) {
        return MEND_OK;
    }
    assert(mend_stamp_has_fence(streams, stamp));
    assert(waiter != MEND_STREAM_UNKNOWN);
    const mend_stream_state *freed_on = &streams->items[stamp.stream];
    mend_stream_state *state = &streams->items[waiter];
    if (!mend_streams_grow(&state->waited_epochs, &state->waited_capacity, streams->count,
                           sizeof(uint64_t))) {
        return no_host_memory();
    }
    /* The call releases `state`. The fence may move in its array meanwhile, but it stays: only a
     * thread that holds `grow` removes fences. */
    const mend_fence fence = covering_fence(streams, freed_on, stamp.epoch);
    state->calls++;
    mend_status status = streams->driver->stream_wait(streams->driver, state->handle, fence.event);
    mend_streams_end_call(streams, waiter);
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, MEND_CALL_stream_wait, status);
    }
    note_waited(streams, waiter, stamp.stream, fence);
    streams->stream_waits++;
    mend_history_note_stream(streams->history, MEND_EVENT_STREAM_WAIT, 0,
                             streams->items[waiter].handle);
    return MEND_LOOK_AGAIN;
}

mend_result mend_streams_wait_context(mend_streams *streams, uint32_t asking)
{
    assert(asking < streams->count);
    bool is_captured = false;
    mend_result result = mend_streams_find_capture(streams, asking, &is_captured);
    if (result != MEND_OK || is_captured) {
        return result != MEND_OK ? result
                                 : mend_failure(MEND_ERROR_CAPTURING,
                                                "a stream is being captured: the pool cannot wait "
                                                "for the context");
    }
    if (streams->context_event != NULL) { /* this wait covers more */
        end_context_event(streams, false);
    }
    begin_context_wait(streams);
    uint64_t waits = 0;
    mend_driver_call call = MEND_CALL_context_synchronize;
    mend_status status = mend_foreign_synchronize(streams, &waits, &call);
    end_context_wait(streams, status == MEND_DRIVER_OK);
    streams->host_waits += waits;
    for (uint64_t i = 0; i < waits; i++) {
        mend_history_note(streams->history, MEND_EVENT_HOST_WAIT, 0, 0);
    }
    if (is_of_capture(status)) {
        streams->hidden_captures++;
        return mend_driver_failure(MEND_ERROR_CAPTURING, "cuCtxSynchronize", status,
                                   streams->driver->status_name(streams->driver, status),
                                   "a stream that the pool does not know is being captured");
    }
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, call, status);
    }
    return MEND_OK;
}

/* The last epoch with frees: the open one if it has some. */
static uint64_t last_epoch(const mend_stream_state *state)
{
    return state->open ? state->open_epoch : state->open_epoch - 1;
}

void mend_streams_begin_host_waits(mend_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        state->due_epoch = last_epoch(state);
    }
}

void mend_streams_begin_chosen_waits(mend_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->items[i].due_epoch = 0;
    }
}

void mend_streams_make_due(mend_streams *streams, mend_stamp stamp)
{
    mend_stream_state *state = &streams->items[stamp.stream];
    if (stamp.epoch == 0 || mend_stamp_has_passed(streams, stamp)) {
        return;
    }
    /* Without a fence the stamp passes with the open epoch; a wait that failed may have begun a new
     * one. */
    uint64_t epoch = mend_stamp_has_fence(streams, stamp) ? stamp.epoch : last_epoch(state);
    state->due_epoch = mend_max_u64(epoch, state->due_epoch);
    assert(state->due_epoch <= state->open_epoch);
}

/* Whether the host waits include the open epoch. */
static bool is_open_and_due(const mend_stream_state *state)
{
    return state->open && state->open_epoch <= state->due_epoch;
}

/* Whether the event of the context is what frees that are due wait for. */
static bool is_behind_context(const mend_streams *streams, const mend_stream_state *state)
{
    return streams->context_event != NULL && state->passed_epoch < state->awaited_epoch &&
           state->passed_epoch < state->due_epoch &&
           (state->fence_count == 0 || state->fences[0].epoch > state->due_epoch);
}

/* Finds the stream with the oldest work in flight. Streams share no clock, so this is a guess:
 * the stream with the most fences. UNKNOWN if there is none. *left is true if some frees have no
 * fence. */
static mend_result find_oldest(mend_streams *streams, uint32_t except, uint32_t *oldest, bool *left)
{
    size_t longest = 0;
    *oldest = MEND_STREAM_UNKNOWN;
    *left = is_open_and_due(&streams->items[MEND_STREAM_UNKNOWN]) ||
            is_behind_context(streams, &streams->items[MEND_STREAM_UNKNOWN]);
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        const mend_stream_state *state = &streams->items[i];
        if (i == except) {
            continue;
        }
        mend_result result =
            is_open_and_due(state) ? mend_streams_close_epoch(streams, i) : MEND_OK;
        if (result != MEND_OK) {
            return result;
        }
        state = &streams->items[i]; /* the array may have moved */
        /* An epoch whose event is being recorded has no fence yet, unless a wait for the context
         * covered it. */
        bool is_recorded = state->recordings > 0 && state->passed_epoch < state->due_epoch;
        bool is_left = is_open_and_due(state) || is_recorded || is_behind_context(streams, state);
        *left = *left || (is_left && context_covers(state));
        if (state->fence_count > longest && state->fences[0].epoch <= state->due_epoch) {
            longest = state->fence_count;
            *oldest = i;
        }
    }
    return MEND_OK;
}

mend_result mend_streams_wait_unfenced(mend_streams *streams, uint32_t asking)
{
    bool recorded = streams->context_event != NULL;
    mend_result result = recorded || streams->hidden_captures > 0
                             ? MEND_OK
                             : mend_streams_record_context(streams, asking, &recorded);
    if (result != MEND_OK) {
        return result;
    }
    if (recorded && poll_context(streams)) {
        return MEND_OK; /* the GPU was idle */
    }
    return recorded ? synchronize_context_event(streams)
                    : mend_streams_wait_context(streams, asking);
}

mend_result mend_streams_wait_oldest(mend_streams *streams, uint32_t asking, bool with_asking,
                                     bool *waited)
{
    uint32_t oldest;
    bool left;
    mend_result result =
        find_oldest(streams, with_asking ? MEND_STREAM_UNKNOWN : asking, &oldest, &left);
    *waited = false;
    if (result != MEND_OK || (oldest == MEND_STREAM_UNKNOWN && !left)) {
        return result;
    }
    if (oldest == MEND_STREAM_UNKNOWN) {
        result = mend_streams_wait_unfenced(streams, asking);
        *waited = result == MEND_OK;
        return result;
    }
    mend_event event = streams->items[oldest].fences[0].event;
    mend_status status = streams->driver->event_synchronize(streams->driver, event);
    if (status == MEND_DRIVER_CAPTURED_EVENT) {
        drop_fence(streams, &streams->items[oldest], 0);
        *waited = true;
        return MEND_OK;
    }
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, MEND_CALL_event_synchronize, status);
    }
    *waited = true;
    streams->host_waits++;
    mend_history_note(streams->history, MEND_EVENT_HOST_WAIT, 0, 0);
    assert(streams->items[oldest].fences[0].event == event);
    pass_fences(streams, &streams->items[oldest], 1);
    return MEND_OK;
}

void mend_streams_await_calls(mend_streams *streams, uint32_t stream, mend_mutex *lock)
{
    assert(mend_mutex_is_held(lock));
    assert(stream < streams->count);
    streams->call_waiters++;
    while (streams->items[stream].calls > 0) {
        mend_condition_wait(&streams->call_ended, lock);
    }
    assert(streams->call_waiters > 0);
    streams->call_waiters--;
}

mend_result mend_streams_forget(mend_streams *streams, uint32_t stream)
{
    assert(stream != MEND_STREAM_UNKNOWN);
    assert(stream < streams->count);
    assert(streams->items[stream].group == 0);
    mend_reach reach = MEND_REACH_OPEN;
    mend_result result = mend_streams_close_named(streams, stream);
    mend_stream_state *state = &streams->items[stream];
    if (result == MEND_OK && state->open) {
        result = mend_streams_reach(streams, stream, &reach);
    }
    if (result == MEND_OK && reach == MEND_REACH_CAPTURED) {
        result = mend_failure(MEND_ERROR_CAPTURING, "the stream %p is being captured",
                              (void *)state->handle);
    }
    if (result != MEND_OK) {
        return result;
    }
    mend_slots_lose(streams, stream);
    state->has_ended = true;
    return MEND_OK;
}
