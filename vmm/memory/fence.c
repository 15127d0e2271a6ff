/*
 * Fences: waits for the events that were recorded behind frees (memory/waits.h), by streams on
 * the device and by the host.
 */
#include "memory/waits.h"

#include <string.h>

#include "base/error.h"

/* Removes a fence whose event belongs to a capture, so that it marks nothing. A later fence of the
 * stream covers its epoch. If there is none, the epoch is open again. */
static void drop_fence(mend_streams *streams, mend_stream_state *state, size_t at)
{
    assert(at < state->fence_count);
    const uint64_t bytes = state->fences[at].bytes;
    mend_streams_keep_event(streams, state->fences[at].event, state->fences[at].context);
    state->fence_count--;
    memmove(state->fences + at, state->fences + at + 1,
            (state->fence_count - at) * sizeof(mend_fence));
    *(at < state->fence_count ? &state->fences[at].bytes : &state->open_bytes) += bytes;
    state->open = state->open || at == state->fence_count;
}

bool mend_streams_poll(mend_streams *streams)
{
    bool any = mend_context_poll(streams);
    MEND_SLOTS_EACH_IN(i, streams, MEND_SLOTS_UNPASSED) {
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
            mend_streams_pass_fences(streams, state, passed);
            any = true;
        }
        mend_slots_leave_passed(streams, i);
    }
    return any;
}

mend_result mend_streams_make_wait(mend_streams *streams, uint32_t waiter, mend_stamp stamp)
{
    const mend_driver *driver = streams->driver;
    assert(waiter < streams->count);
    if (mend_stamp_is_ready(streams, stamp, waiter)) {
        return MEND_OK;
    }
    assert(mend_stamp_has_fence(streams, stamp) && waiter != MEND_STREAM_UNKNOWN);
    mend_stream_state *state = &streams->items[waiter];
    const mend_stream_state *freed_on = &streams->items[stamp.stream];
    if (!mend_streams_grow(&state->waited_epochs, &state->waited_capacity, streams->count,
                           sizeof(uint64_t))) {
        return mend_no_host_memory("a stream's fences");
    }
    /* The first fence that covers the epoch, else all parts of an event of the context. The calls
     * release `state`. A fence may move in its array meanwhile, but it stays: only a thread that
     * holds `grow` removes fences and such events. */
    const size_t at = mend_stream_first_fence(freed_on, stamp.epoch);
    const bool is_of_context = at == freed_on->fence_count;
    const mend_fence fence = is_of_context ? (mend_fence){0} : freed_on->fences[at];
    assert(is_of_context || fence.epoch >= stamp.epoch);
    uint32_t k = 0;
    while (is_of_context && freed_on->awaited[k].epoch < stamp.epoch) {
        k++;
        assert(k < streams->context_event_count);
    }
    const mend_event *parts = is_of_context ? streams->context_events[k].of : &fence.event;
    const mend_stream handle = state->handle;
    mend_status status = MEND_DRIVER_OK;
    mend_streams_begin_call(streams, waiter);
    for (int i = 0; i < (is_of_context ? MEND_CONTEXTS : 1) && status == MEND_DRIVER_OK; i++) {
        if (parts[i] != NULL) {
            status = driver->stream_wait(driver, handle, parts[i]);
            streams->stream_waits += status == MEND_DRIVER_OK;
        }
    }
    mend_streams_end_call(streams, waiter);
    if (status == MEND_DRIVER_CAPTURED_EVENT) {
        assert(!is_of_context); /* an event of the context is of no capture */
        mend_stream_state *of_capture = &streams->items[stamp.stream];
        drop_fence(streams, of_capture, mend_stream_first_fence(of_capture, fence.epoch));
        return MEND_LOOK_AGAIN;
    }
    MEND_TRY(mend_streams_driver_result(streams, MEND_CALL_stream_wait, status));
    state = &streams->items[waiter];
    uint32_t i = is_of_context ? MEND_STREAM_UNKNOWN : stamp.stream;
    do { /* behind an event of the context, for all that this covers */
        if (i < state->waited_capacity) {
            mend_raise_u64(&state->waited_epochs[i],
                           is_of_context ? streams->items[i].awaited[k].epoch : fence.epoch);
        }
        i = is_of_context ? mend_slots_next_of(streams, i) : MEND_STREAM_UNKNOWN;
    } while (i != MEND_STREAM_UNKNOWN);
    if (mend_events_has(streams->events, MEND_EVENT_STREAM_WAIT)) {
        mend_events_put_step(streams->events, &(mend_history_event){.kind = MEND_EVENT_STREAM_WAIT,
                                                                    .stream = handle});
    }
    return MEND_LOOK_AGAIN;
}

void mend_streams_begin_host_waits(mend_streams *streams)
{
    MEND_SLOTS_EACH_AND_UNKNOWN(i, streams) {
        streams->items[i].due_epoch = mend_streams_last_stamp(streams, i).epoch;
    }
}

/* Whether the CPU stalls include the open epoch. */
static bool is_open_and_due(const mend_stream_state *state)
{
    return state->open && state->open_epoch <= state->due_epoch;
}

/* Whether due frees wait for an event of the context. */
static bool is_behind_context(const mend_streams *streams, const mend_stream_state *state)
{
    const uint32_t events = streams->context_event_count;
    return events > 0 && state->passed_epoch < state->awaited[events - 1].epoch &&
           state->passed_epoch < state->due_epoch &&
           (state->fence_count == 0 || state->fences[0].epoch > state->due_epoch);
}

mend_result mend_streams_wait_oldest(mend_streams *streams, uint32_t asking, bool with_asking,
                                     bool *waited)
{
    /* The oldest work in flight: streams share no clock, so this is a guess, the stream with the
     * most fences. UNKNOWN if there is none. `left` is true if some frees have no fence. */
    uint32_t oldest = MEND_STREAM_UNKNOWN;
    size_t longest = 0;
    bool left = is_open_and_due(&streams->items[MEND_STREAM_UNKNOWN]) ||
                is_behind_context(streams, &streams->items[MEND_STREAM_UNKNOWN]);
    *waited = false;
    MEND_SLOTS_EACH(i, streams, 0) {
        const mend_stream_state *state = &streams->items[i];
        if (i == asking && !with_asking) {
            continue;
        }
        MEND_TRY(is_open_and_due(state) ? mend_streams_close_epoch(streams, i) : MEND_OK);
        state = &streams->items[i]; /* the array may have moved */
        /* An epoch whose event is being recorded has no fence yet, unless a wait for the context
         * covered it. */
        const bool is_recorded = state->recordings > 0 && state->passed_epoch < state->due_epoch;
        const bool is_behind = is_behind_context(streams, state);
        left = left || is_open_and_due(state) || is_recorded || is_behind;
        /* Where an event was dropped, or recorded late, the fence of a later epoch is the first
         * that covers the due frees. */
        if (state->fence_count > longest && state->passed_epoch < state->due_epoch && !is_behind) {
            longest = state->fence_count;
            oldest = i;
        }
    }
    if (oldest == MEND_STREAM_UNKNOWN) {
        MEND_TRY(left ? mend_streams_wait_unfenced(streams, asking) : MEND_OK);
        *waited = left;
        return MEND_OK;
    }
    mend_event event = streams->items[oldest].fences[0].event;
    mend_status status = streams->driver->event_synchronize(streams->driver, event);
    mend_stream_state *state = &streams->items[oldest];
    assert(state->fences[0].event == event);
    if (status == MEND_DRIVER_CAPTURED_EVENT) {
        drop_fence(streams, state, 0);
    } else {
        MEND_TRY(mend_streams_driver_result(streams, MEND_CALL_event_synchronize, status));
        mend_streams_note_host_waits(streams, 1);
        mend_streams_pass_fences(streams, state, 1);
    }
    *waited = true;
    return MEND_OK;
}

void mend_streams_await_calls(mend_streams *streams, uint32_t stream, mend_mutex *lock)
{
    assert(mend_mutex_is_held(lock) && stream < streams->count);
    streams->call_waiters++;
    while (streams->items[stream].calls > 0) {
        mend_condition_wait(&streams->call_ended, lock);
    }
    assert(streams->call_waiters > 0);
    streams->call_waiters--;
}

mend_result mend_streams_forget(mend_streams *streams, uint32_t stream)
{
    assert(stream != MEND_STREAM_UNKNOWN && stream < streams->count);
    assert(streams->items[stream].graph_pool == 0);
    mend_reach reach = MEND_REACH_OPEN;
    MEND_TRY(mend_streams_close_named(streams, stream));
    mend_stream_state *state = &streams->items[stream];
    MEND_TRY(state->open ? mend_streams_reach(streams, stream, &reach) : MEND_OK);
    if (reach == MEND_REACH_CAPTURED) {
        return mend_failure(MEND_ERROR_CAPTURING, "the stream %p is being captured",
                            (void *)state->handle);
    }
    mend_slots_lose(streams, stream);
    state->has_ended = true;
    return MEND_OK;
}
