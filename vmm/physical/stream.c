#include "physical/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { FIRST_CAPACITY = 8 };

bool mend_status_is_fatal(mend_status status)
{
    static const mend_status fatal[] = {
        MEND_DRIVER_DEINITIALIZED,
        214, /* an ECC error that could not be corrected */
        220, /* an NVLink error that could not be corrected */
        MEND_DRIVER_ILLEGAL_ADDRESS,
        702, /* a kernel ran too long */
        709, /* the context was destroyed, or reset */
        710, /* an assertion of a kernel */
        714, /* an error of the hardware's stack */
        715, /* an illegal instruction */
        716, /* a misaligned address */
        717, /* a wrong address space */
        718, /* a wrong program counter */
        MEND_DRIVER_LAUNCH_FAILED,
    };
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        if (status == fatal[i]) {
            return true;
        }
    }
    return false;
}

static mend_result driver_failed(mend_streams *streams, mend_driver_call call, mend_status status)
{
    bool fatal = mend_status_is_fatal(status);
    if (fatal) {
        streams->broken = status;
    }
    return mend_fail_driver(
        fatal ? MEND_ERROR_DEVICE_LOST : MEND_ERROR_DRIVER, mend_driver_call_name(call), status,
        streams->driver->status_name(streams->driver, status),
        "%s failed while ordering memory between streams", mend_driver_call_name(call));
}

static mend_result no_host_memory(void)
{
    return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a stream's fences");
}

/* Makes room for `count` elements; false when malloc fails, with nothing changed. */
static bool grow(void *array, size_t *capacity, size_t count, size_t element_bytes)
{
    if (count <= *capacity) {
        return true;
    }
    size_t larger = *capacity ? *capacity : FIRST_CAPACITY;
    while (larger < count) {
        larger *= 2;
    }
    void *old;
    memcpy(&old, array, sizeof(old));
    char *moved = realloc(old, larger * element_bytes);
    if (moved == NULL) {
        return false;
    }
    memset(moved + *capacity * element_bytes, 0, (larger - *capacity) * element_bytes);
    memcpy(array, &moved, sizeof(moved));
    *capacity = larger;
    return true;
}

/* A slot for a new stream: a forgotten one whose fences have passed, or one more. */
static mend_result add_stream(mend_streams *streams, mend_stream handle, uint64_t id,
                              uint32_t *index)
{
    uint32_t at = streams->count;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        if (!state->known && !state->open && state->fence_count == 0) {
            at = i;
            break;
        }
    }
    if (at == streams->count) {
        size_t capacity = streams->capacity;
        if (!grow(&streams->items, &capacity, (size_t)at + 1, sizeof(mend_stream_state))) {
            return no_host_memory();
        }
        streams->capacity = (uint32_t)capacity;
        streams->items[at] = (mend_stream_state){.open_epoch = 1};
        streams->count++;
    }
    mend_stream_state *state = &streams->items[at];
    /* Epochs of a reused slot go on: old stamps stay passed. What the old stream waited for, the
     * new one does not. */
    if (state->waited_epochs != NULL) {
        memset(state->waited_epochs, 0, state->waited_capacity * sizeof(uint64_t));
    }
    state->handle = handle;
    state->id = id;
    state->known = true;
    *index = at;
    return MEND_OK;
}

mend_result mend_streams_init(mend_streams *streams, const mend_driver *driver,
                              mend_context context)
{
    *streams = (mend_streams){.driver = driver, .context = context};
    uint32_t unknown;
    return add_stream(streams, MEND_NO_STREAM, 0, &unknown);
}

mend_status mend_streams_clear(mend_streams *streams)
{
    mend_status first = MEND_DRIVER_OK;
    const mend_driver *driver = streams->driver;
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        for (size_t k = 0; k < state->fence_count; k++) {
            mend_status status = driver->event_destroy(driver, state->fences[k].event);
            first = first != MEND_DRIVER_OK ? first : status;
        }
        free(state->fences);
        free(state->waited_epochs);
    }
    for (size_t k = 0; k < streams->spare_count; k++) {
        mend_status status = driver->event_destroy(driver, streams->spare_events[k]);
        first = first != MEND_DRIVER_OK ? first : status;
    }
    free(streams->spare_events);
    free(streams->items);
    *streams = (mend_streams){0};
    return first;
}

static bool is_legacy(mend_stream handle)
{
    return handle == NULL || handle == MEND_STREAM_LEGACY;
}

bool mend_streams_lookup(mend_streams *streams, mend_stream handle, uint32_t *index)
{
    if (is_legacy(handle)) {
        handle = NULL;
    }
    uint32_t last = streams->last_found;
    if (last < streams->count && streams->items[last].known &&
        streams->items[last].handle == handle) {
        *index = last;
        return true;
    }
    for (uint32_t i = 0; i < streams->count; i++) {
        if (streams->items[i].known && streams->items[i].handle == handle) {
            streams->last_found = i;
            *index = i;
            return true;
        }
    }
    return false;
}

/* The per-thread stream has one handle for all threads; only its id tells them apart. */
static bool lookup_id(mend_streams *streams, mend_stream handle, uint64_t id, uint32_t *index)
{
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        if (streams->items[i].known && streams->items[i].handle == handle &&
            streams->items[i].id == id) {
            *index = i;
            return true;
        }
    }
    return false;
}

mend_result mend_streams_find(mend_streams *streams, mend_stream handle, uint32_t *index)
{
    bool per_thread = handle == MEND_STREAM_PER_THREAD;
    if (!per_thread && mend_streams_lookup(streams, handle, index)) {
        return MEND_OK;
    }
    const mend_driver *driver = streams->driver;
    mend_stream_info info = {0};
    mend_status status = driver->stream_get_info(driver, handle, &info);
    if (status != MEND_DRIVER_OK) {
        return mend_fail_driver(MEND_ERROR_UNKNOWN_STREAM, "cuStreamGetId", status,
                                driver->status_name(driver, status),
                                "the driver does not know the stream %p", (void *)handle);
    }
    if (info.context != NULL && info.context != streams->context) {
        return mend_fail(MEND_ERROR_UNKNOWN_STREAM,
                         "the stream %p belongs to another context than the pool's device uses",
                         (void *)handle);
    }
    if (per_thread && lookup_id(streams, handle, info.id, index)) {
        return MEND_OK;
    }
    return add_stream(streams, is_legacy(handle) ? NULL : handle, info.id, index);
}

bool mend_streams_are_several(const mend_streams *streams)
{
    return streams->count > 2 || streams->items[MEND_STREAM_UNKNOWN].open;
}

mend_stamp mend_streams_stamp(mend_streams *streams, uint32_t stream, uint64_t size_bytes)
{
    mend_stream_state *state = &streams->items[stream];
    state->open = true;
    state->open_bytes += size_bytes;
    return (mend_stamp){.epoch = state->open_epoch, .stream = stream};
}

bool mend_stamp_has_passed(const mend_streams *streams, mend_stamp stamp)
{
    return stamp.epoch <= streams->items[stamp.stream].passed_epoch;
}

bool mend_stamp_is_ready(const mend_streams *streams, mend_stamp stamp, uint32_t stream)
{
    if (mend_stamp_has_passed(streams, stamp) ||
        (stamp.stream == stream && stream != MEND_STREAM_UNKNOWN)) {
        return true;
    }
    const mend_stream_state *state = &streams->items[stream];
    return stamp.stream < state->waited_capacity &&
           stamp.epoch <= state->waited_epochs[stamp.stream];
}

bool mend_stamp_can_be_waited_for(const mend_streams *streams, mend_stamp stamp)
{
    return stamp.stream != MEND_STREAM_UNKNOWN &&
           stamp.epoch < streams->items[stamp.stream].open_epoch;
}

static mend_result take_event(mend_streams *streams, mend_event *event)
{
    if (streams->spare_count > 0) {
        *event = streams->spare_events[--streams->spare_count];
        return MEND_OK;
    }
    /* Room to keep it later: an event in hand must never be lost for want of host memory. */
    if (!grow(&streams->spare_events, &streams->spare_capacity, (size_t)streams->events_held + 1,
              sizeof(mend_event))) {
        return no_host_memory();
    }
    mend_status status = streams->driver->event_create(streams->driver, event);
    if (status != MEND_DRIVER_OK) {
        return driver_failed(streams, MEND_CALL_event_create, status);
    }
    streams->events_held++;
    return MEND_OK;
}

static void keep_event(mend_streams *streams, mend_event event)
{
    streams->spare_events[streams->spare_count++] = event;
}

mend_result mend_streams_reach(mend_streams *streams, uint32_t stream, mend_reach *reach)
{
    const mend_stream_state *state = &streams->items[stream];
    mend_stream_info info = {0};
    mend_status status = streams->driver->stream_get_info(streams->driver, state->handle, &info);
    if (status != MEND_DRIVER_OK) {
        return driver_failed(streams, MEND_CALL_stream_get_info, status);
    }
    if (info.id != state->id) {
        *reach = MEND_REACH_GONE;
    } else {
        *reach = info.capture == MEND_CAPTURE_NONE ? MEND_REACH_OPEN : MEND_REACH_CAPTURED;
    }
    return MEND_OK;
}

mend_result mend_streams_close_epoch(mend_streams *streams, uint32_t stream)
{
    mend_stream_state *state = &streams->items[stream];
    if (!state->open || stream == MEND_STREAM_UNKNOWN) {
        return MEND_OK;
    }
    mend_reach reach = MEND_REACH_GONE;
    mend_result result = mend_streams_reach(streams, stream, &reach);
    if (result != MEND_OK || reach != MEND_REACH_OPEN) {
        return result;
    }
    if (!grow(&state->fences, &state->fence_capacity, state->fence_count + 1, sizeof(mend_fence))) {
        return no_host_memory();
    }
    mend_event event;
    result = take_event(streams, &event);
    if (result != MEND_OK) {
        return result;
    }
    mend_status status = streams->driver->event_record(streams->driver, event, state->handle);
    if (status != MEND_DRIVER_OK) {
        keep_event(streams, event);
        return driver_failed(streams, MEND_CALL_event_record, status);
    }
    state->fences[state->fence_count++] = (mend_fence){state->open_epoch, event};
    state->open_epoch++;
    state->open = false;
    state->open_bytes = 0;
    return MEND_OK;
}

/* Forgets the first `count` fences, which have passed. */
static void pass_fences(mend_streams *streams, mend_stream_state *state, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        state->passed_epoch = state->fences[i].epoch;
        keep_event(streams, state->fences[i].event);
    }
    if (count == 0) {
        return;
    }
    state->fence_count -= count;
    memmove(state->fences, state->fences + count, state->fence_count * sizeof(mend_fence));
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
            if (status != MEND_DRIVER_OK) {
                if (mend_status_is_fatal(status)) {
                    streams->broken = status;
                }
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

/* The first fence that covers the stamp; its epoch is closed and has not passed. */
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
    assert(mend_stamp_can_be_waited_for(streams, stamp));
    const mend_stream_state *freed_on = &streams->items[stamp.stream];
    mend_stream_state *state = &streams->items[waiter];
    if (!grow(&state->waited_epochs, &state->waited_capacity, streams->count, sizeof(uint64_t))) {
        return no_host_memory();
    }
    const mend_fence *fence = covering_fence(freed_on, stamp.epoch);
    mend_status status = streams->driver->stream_wait(streams->driver, state->handle, fence->event);
    if (status != MEND_DRIVER_OK) {
        return driver_failed(streams, MEND_CALL_stream_wait, status);
    }
    state->waited_epochs[stamp.stream] = fence->epoch;
    streams->stream_waits++;
    return MEND_OK;
}

/* Waits for the whole context: everything freed up to now is idle afterwards. */
static mend_result wait_context(mend_streams *streams)
{
    mend_status status = streams->driver->context_synchronize(streams->driver);
    if (status != MEND_DRIVER_OK) {
        return driver_failed(streams, MEND_CALL_context_synchronize, status);
    }
    streams->host_waits++;
    for (uint32_t i = 0; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        pass_fences(streams, state, state->fence_count);
        if (state->open) {
            state->passed_epoch = state->open_epoch++;
            state->open = false;
            state->open_bytes = 0;
        }
    }
    return MEND_OK;
}

mend_result mend_streams_wait_oldest(mend_streams *streams, uint32_t except, bool *waited)
{
    mend_stream_state *oldest = NULL;
    bool left_open = streams->items[MEND_STREAM_UNKNOWN].open;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        if (i == except) {
            continue;
        }
        mend_result result = mend_streams_close_epoch(streams, i);
        if (result != MEND_OK) {
            return result;
        }
        mend_stream_state *state = &streams->items[i];
        left_open = left_open || state->open;
        /* Streams have no common time; the longest queue is the best guess at the oldest work. */
        if (state->fence_count > 0 &&
            (oldest == NULL || state->fence_count > oldest->fence_count)) {
            oldest = state;
        }
    }
    *waited = oldest != NULL || left_open;
    if (oldest == NULL) {
        return *waited ? wait_context(streams) : MEND_OK;
    }
    mend_status status =
        streams->driver->event_synchronize(streams->driver, oldest->fences[0].event);
    if (status != MEND_DRIVER_OK) {
        return driver_failed(streams, MEND_CALL_event_synchronize, status);
    }
    streams->host_waits++;
    pass_fences(streams, oldest, 1);
    return MEND_OK;
}

mend_result mend_streams_forget(mend_streams *streams, uint32_t stream)
{
    mend_result result = mend_streams_close_epoch(streams, stream);
    if (result != MEND_OK) {
        return result;
    }
    mend_stream_state *state = &streams->items[stream];
    mend_reach reach = MEND_REACH_OPEN;
    result = state->open ? mend_streams_reach(streams, stream, &reach) : MEND_OK;
    if (result == MEND_OK && reach == MEND_REACH_CAPTURED) {
        result = mend_fail(MEND_ERROR_UNKNOWN_STREAM, "the stream %p is being captured",
                           (void *)state->handle);
    }
    if (result != MEND_OK) {
        return result;
    }
    state->known = false;
    state->handle = NULL;
    return MEND_OK;
}
