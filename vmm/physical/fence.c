#include "physical/fence.h"

#include <assert.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"

static mend_result no_host_memory(void)
{
    return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a stream's fences");
}

/* Creates an event of a context that need not be the current one. */
static mend_status create_event(mend_streams *streams, mend_context context, mend_event *event)
{
    const mend_driver *driver = streams->driver;
    if (context == streams->context) {
        return driver->event_create(driver, event);
    }
    mend_status status = driver->context_push(driver, context);
    if (status == MEND_DRIVER_OK) {
        status = driver->event_create(driver, event);
        driver->context_pop(driver);
    }
    return status;
}

/* Events of green contexts are not used again: a context that ended may have left its handle to
 * another one, and nothing tells whose an event is. */
static bool is_used_again(const mend_streams *streams, mend_context context)
{
    return context == streams->context;
}

static mend_result take_event(mend_streams *streams, mend_context context, mend_event *event)
{
    if (is_used_again(streams, context) && streams->spare_count > 0) {
        *event = streams->spare_events[--streams->spare_count];
        return MEND_OK;
    }
    /* Room to keep it later: an event in hand must never be lost for want of host memory. */
    if (!mend_streams_grow(&streams->spare_events, &streams->spare_capacity,
                           (size_t)streams->events_held + 1, sizeof(mend_event))) {
        return no_host_memory();
    }
    mend_status status = create_event(streams, context, event);
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, MEND_CALL_event_create, status);
    }
    streams->events_held++;
    return MEND_OK;
}

static void keep_event(mend_streams *streams, mend_event event, mend_context context)
{
    if (is_used_again(streams, context)) {
        streams->spare_events[streams->spare_count++] = event;
    } else {
        streams->driver->event_destroy(streams->driver, event);
        streams->events_held--;
    }
}

/* The driver has nothing against the record, but against the capture of the stream. */
static bool is_of_capture(mend_status status)
{
    return status == MEND_DRIVER_CAPTURE_UNSUPPORTED || status == MEND_DRIVER_CAPTURE_INVALIDATED ||
           status == MEND_DRIVER_CAPTURE_IMPLICIT;
}

/* Records the event. Another thread may have begun a capture of the stream since it was asked: then
 * the record marks a place in a graph, and whoever waits for it joins the capture. So the stream is
 * asked again; *is_outside is false where the event stands for nothing. MEND_OK then too. */
static mend_result record(mend_streams *streams, mend_event event, uint32_t recorder,
                          bool *is_outside)
{
    const mend_driver *driver = streams->driver;
    const mend_stream handle = streams->items[recorder].handle;
    mend_stream_info info = {.capture = MEND_CAPTURE_ACTIVE};
    mend_driver_call call = MEND_CALL_event_record;
    mend_status status = driver->event_record(driver, event, handle);
    if (status == MEND_DRIVER_OK) {
        call = MEND_CALL_stream_get_info;
        status = driver->stream_get_info(driver, handle, &info);
    }
    *is_outside = info.capture == MEND_CAPTURE_NONE;
    return status == MEND_DRIVER_OK || is_of_capture(status)
               ? MEND_OK
               : mend_streams_driver_failed(streams, call, status);
}

/* Records an event on `recorder` behind the open epoch of `stream`, which stays open where a
 * capture of `recorder` began meanwhile. */
static mend_result record_fence(mend_streams *streams, uint32_t stream, uint32_t recorder)
{
    mend_stream_state *state = &streams->items[stream];
    if (!mend_streams_grow(&state->fences, &state->fence_capacity, state->fence_count + 1,
                           sizeof(mend_fence))) {
        return no_host_memory();
    }
    mend_event event;
    mend_context context = streams->items[recorder].context;
    mend_result result = take_event(streams, context, &event);
    if (result != MEND_OK) {
        return result;
    }
    bool is_outside = false;
    result = record(streams, event, recorder, &is_outside);
    if (result != MEND_OK || !is_outside) {
        keep_event(streams, event, context);
        return result;
    }
    state->fences[state->fence_count++] = (mend_fence){state->open_epoch, event, context};
    state->open_epoch++;
    state->open = false;
    state->open_bytes = 0;
    return MEND_OK;
}

mend_result mend_streams_close_epoch(mend_streams *streams, uint32_t stream)
{
    return streams->verify ? MEND_OK : mend_streams_close_named(streams, stream);
}

static mend_result close_slot(mend_streams *streams, uint32_t stream)
{
    const mend_stream_state *state = &streams->items[stream];
    if (!state->open || state->group != 0) {
        return MEND_OK;
    }
    mend_reach reach = MEND_REACH_GONE;
    mend_result result = mend_streams_reach(streams, stream, &reach);
    return result != MEND_OK || reach != MEND_REACH_OPEN ? result
                                                         : record_fence(streams, stream, stream);
}

/* Records what was freed in captures of the stream, which are over. Blocks may still name the slot
 * as a user: only the context covers what those users did, and what follows. */
static mend_result close_double(mend_streams *streams, uint32_t stream)
{
    mend_result result = close_slot(streams, stream);
    mend_stream_state *state = &streams->items[stream];
    if (result == MEND_OK && !state->open) {
        state->known = false;
        state->is_double = false;
        state->handle = NULL;
        state->open = state->is_user;
    }
    return result;
}

mend_result mend_streams_close_named(mend_streams *streams, uint32_t stream)
{
    mend_result result = close_slot(streams, stream);
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1;
         streams->verify && i < streams->count && result == MEND_OK; i++) {
        const mend_stream_state *state = &streams->items[i];
        if (state->is_double && state->id == streams->items[stream].id) {
            result = close_double(streams, i);
        }
    }
    return result;
}

/* Takes back the fence recorded last, as if the epoch had stayed open. */
static void take_back_fence(mend_streams *streams, mend_stream_state *state)
{
    const mend_fence *fence = &state->fences[--state->fence_count];
    keep_event(streams, fence->event, fence->context);
    state->open_epoch--;
    state->open = true;
}

static mend_result check_recorder(mend_streams *streams, uint32_t recorder)
{
    mend_reach reach = MEND_REACH_GONE;
    mend_result result = mend_streams_reach(streams, recorder, &reach);
    const void *handle = streams->items[recorder].handle;
    if (result == MEND_OK && reach == MEND_REACH_CAPTURED) {
        return mend_fail(MEND_ERROR_CAPTURING, "the stream %p is being captured", handle);
    }
    if (result == MEND_OK && reach == MEND_REACH_GONE) {
        return mend_fail(MEND_ERROR_UNKNOWN_STREAM, "the stream %p was destroyed", handle);
    }
    return result;
}

mend_result mend_streams_close_group(mend_streams *streams, uint32_t group, uint32_t recorder)
{
    mend_result result = check_recorder(streams, recorder);
    uint32_t i = MEND_STREAM_UNKNOWN + 1;
    for (; i < streams->count && result == MEND_OK; i++) {
        const mend_stream_state *state = &streams->items[i];
        if (state->group == group && state->open) {
            result = record_fence(streams, i, recorder);
        }
        if (result == MEND_OK && state->group == group && state->open) {
            result = mend_fail(MEND_ERROR_CAPTURING, "the stream %p is being captured",
                               (const void *)streams->items[recorder].handle);
        }
    }
    if (result == MEND_OK) {
        return MEND_OK;
    }
    /* The group lives on: nothing of it may become idle. All its epochs were open. */
    for (uint32_t k = MEND_STREAM_UNKNOWN + 1; k < i; k++) {
        mend_stream_state *state = &streams->items[k];
        if (state->group == group && !state->open) {
            take_back_fence(streams, state);
        }
    }
    return result;
}

/* Forgets the first `count` fences, which have passed. */
static void pass_fences(mend_streams *streams, mend_stream_state *state, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        state->passed_epoch = state->fences[i].epoch;
        keep_event(streams, state->fences[i].event, state->fences[i].context);
    }
    if (count == 0) {
        return;
    }
    state->fence_count -= count;
    memmove(state->fences, state->fences + count, state->fence_count * sizeof(mend_fence));
}

/* The event of a fence turned out to be of a capture, and stands for nothing: a later fence of the
 * stream covers the same, or else one that is still to be recorded. */
static void drop_fence(mend_streams *streams, mend_stream_state *state, size_t at)
{
    keep_event(streams, state->fences[at].event, state->fences[at].context);
    state->fence_count--;
    memmove(state->fences + at, state->fences + at + 1,
            (state->fence_count - at) * sizeof(mend_fence));
    state->open = state->open || at == state->fence_count;
}

bool mend_streams_poll(mend_streams *streams)
{
    bool any = false;
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

/* The first fence that covers the stamp; it has one. */
static const mend_fence *covering_fence(const mend_stream_state *state, uint64_t epoch)
{
    size_t at = 0;
    while (at + 1 < state->fence_count && state->fences[at].epoch < epoch) {
        at++;
    }
    return &state->fences[at];
}

mend_result mend_streams_make_wait(mend_streams *streams, uint32_t waiter, mend_stamp stamp)
{
    if (mend_stamp_is_ready(streams, stamp, waiter)) {
        return MEND_OK;
    }
    assert(mend_stamp_has_fence(streams, stamp));
    const mend_stream_state *freed_on = &streams->items[stamp.stream];
    mend_stream_state *state = &streams->items[waiter];
    if (!mend_streams_grow(&state->waited_epochs, &state->waited_capacity, streams->count,
                           sizeof(uint64_t))) {
        return no_host_memory();
    }
    const mend_fence *fence = covering_fence(freed_on, stamp.epoch);
    mend_status status = streams->driver->stream_wait(streams->driver, state->handle, fence->event);
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, MEND_CALL_stream_wait, status);
    }
    state->waited_epochs[stamp.stream] = fence->epoch;
    streams->stream_waits++;
    return MEND_OK;
}

/* Whether a wait for the context makes what was freed on a stream idle: not what a graph that may
 * be launched again still uses. */
static bool context_covers(const mend_stream_state *state)
{
    return state->group == 0;
}

/* From here on frees belong to a new epoch of each stream. */
static void begin_context_wait(mend_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        state->awaited_epoch = 0;
        if (context_covers(state)) {
            state->awaited_epoch = state->open ? state->open_epoch++ : state->open_epoch - 1;
            state->was_open = state->open;
            state->open = false;
        }
    }
}

/* What was freed before the wait began has passed, or waits on as before. Streams that came
 * meanwhile have no awaited epoch. */
static void end_context_wait(mend_streams *streams, bool passed)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        if (state->awaited_epoch != 0 && passed) {
            size_t covered = 0; /* a fence recorded meanwhile is not */
            while (covered < state->fence_count &&
                   state->fences[covered].epoch <= state->awaited_epoch) {
                covered++;
            }
            pass_fences(streams, state, covered);
            state->passed_epoch = state->awaited_epoch;
        } else if (state->awaited_epoch != 0) {
            state->open = state->open || state->was_open;
        }
        state->awaited_epoch = 0;
    }
}

mend_result mend_streams_wait_context(mend_streams *streams, uint32_t asking)
{
    bool is_captured = false;
    mend_result result = mend_streams_find_capture(streams, asking, &is_captured);
    if (result != MEND_OK || is_captured) {
        return result != MEND_OK ? result
                                 : mend_fail(MEND_ERROR_CAPTURING,
                                             "a stream is being captured, which forbids to wait "
                                             "for the context");
    }
    begin_context_wait(streams);
    mend_status status = streams->driver->context_synchronize(streams->driver);
    end_context_wait(streams, status == MEND_DRIVER_OK);
    if (status == MEND_DRIVER_CAPTURE_UNSUPPORTED || status == MEND_DRIVER_CAPTURE_INVALIDATED) {
        return mend_fail_driver(MEND_ERROR_CAPTURING, "cuCtxSynchronize", status,
                                streams->driver->status_name(streams->driver, status),
                                "a stream the pool does not know is being captured");
    }
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, MEND_CALL_context_synchronize, status);
    }
    streams->host_waits++;
    return MEND_OK;
}

void mend_streams_begin_host_waits(mend_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        state->due_epoch = state->open ? state->open_epoch : state->open_epoch - 1;
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
    /* Without a fence it passes with the open epoch, which a wait that failed has begun anew. */
    uint64_t epoch = mend_stamp_has_fence(streams, stamp) ? stamp.epoch : state->open_epoch;
    state->due_epoch = mend_max_u64(epoch, state->due_epoch);
}

/* The open epoch is one to wait for. */
static bool is_open_and_due(const mend_stream_state *state)
{
    return state->open && state->open_epoch <= state->due_epoch;
}

/* The stream with the oldest work in flight: streams have no common time, so that the longest queue
 * is the best guess. UNKNOWN when there is none. *left is true when something has no fence. */
static mend_result find_oldest(mend_streams *streams, uint32_t except, uint32_t *oldest, bool *left)
{
    size_t longest = 0;
    *oldest = MEND_STREAM_UNKNOWN;
    *left = is_open_and_due(&streams->items[MEND_STREAM_UNKNOWN]);
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
        *left = *left || (is_open_and_due(state) && context_covers(state));
        if (state->fence_count > longest && state->fences[0].epoch <= state->due_epoch) {
            longest = state->fence_count;
            *oldest = i;
        }
    }
    return MEND_OK;
}

mend_result mend_streams_wait_oldest(mend_streams *streams, uint32_t except, bool *waited)
{
    uint32_t oldest;
    bool left;
    mend_result result = find_oldest(streams, except, &oldest, &left);
    *waited = false;
    if (result != MEND_OK || (oldest == MEND_STREAM_UNKNOWN && !left)) {
        return result;
    }
    if (oldest == MEND_STREAM_UNKNOWN) {
        result = mend_streams_wait_context(streams, except);
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
    pass_fences(streams, &streams->items[oldest], 1);
    return MEND_OK;
}

mend_result mend_streams_forget(mend_streams *streams, uint32_t stream)
{
    mend_stream_state *state = &streams->items[stream];
    mend_reach reach = MEND_REACH_OPEN;
    mend_result result = mend_streams_close_named(streams, stream);
    if (result == MEND_OK && state->open) {
        result = mend_streams_reach(streams, stream, &reach);
    }
    if (result == MEND_OK && reach == MEND_REACH_CAPTURED) {
        result = mend_fail(MEND_ERROR_CAPTURING, "the stream %p is being captured",
                           (void *)state->handle);
    }
    if (result != MEND_OK) {
        return result;
    }
    state->known = false;
    mend_streams_look_up_anew(streams);
    state->handle = NULL;
    return MEND_OK;
}
