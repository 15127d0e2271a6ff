#include "physical/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { FIRST_CAPACITY = 8 };

mend_result mend_streams_driver_failed(mend_streams *streams, mend_driver_call call,
                                       mend_status status)
{
    return mend_fail_driver(
        mend_status_is_fatal(status) ? MEND_ERROR_DEVICE_LOST : MEND_ERROR_DRIVER,
        mend_driver_call_name(call), status, streams->driver->status_name(streams->driver, status),
        "%s failed while ordering memory between streams", mend_driver_call_name(call));
}

static mend_result no_host_memory(void)
{
    return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a stream's fences");
}

bool mend_streams_grow(void *array, size_t *capacity, size_t count, size_t element_bytes)
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
                              uint32_t group, uint32_t *index)
{
    uint32_t at = streams->count;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        if (!state->known && state->group == 0 && !state->open && state->fence_count == 0 &&
            state->awaited_epoch == 0) {
            at = i;
            break;
        }
    }
    if (at == streams->count) {
        size_t capacity = streams->capacity;
        if (!mend_streams_grow(&streams->items, &capacity, (size_t)at + 1,
                               sizeof(mend_stream_state))) {
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
    state->group = group;
    state->known = true;
    *index = at;
    return MEND_OK;
}

mend_result mend_streams_init(mend_streams *streams, const mend_driver *driver,
                              mend_context context)
{
    *streams = (mend_streams){.driver = driver, .context = context};
    mend_list_init(&streams->watches);
    mend_streams_look_up_anew(streams);
    uint32_t unknown;
    return add_stream(streams, MEND_NO_STREAM, 0, 0, &unknown);
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

/* The legacy stream has two handles. */
static mend_stream plain(mend_stream handle)
{
    return handle == MEND_STREAM_LEGACY ? NULL : handle;
}

static bool is_meant(const mend_stream_state *state, mend_stream handle, uint32_t group)
{
    return state->known && state->handle == plain(handle) && state->group == group;
}

uint32_t mend_streams_lookup_other(mend_streams *streams, mend_stream handle, uint32_t group)
{
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        if (is_meant(&streams->items[i], handle, group)) {
            if (group == 0 && mend_streams_handle_suffices(streams, handle)) {
                streams->last_found = i;
                streams->last_handle = handle;
            }
            return i;
        }
    }
    return MEND_STREAM_UNKNOWN;
}

/* A stream was destroyed without a word. Blocks may still name it as a user: its slot is not given
 * to another before the context was waited for, which covers what those users did. */
static void abandon(mend_streams *streams, mend_stream_state *state)
{
    mend_streams_look_up_anew(streams);
    state->known = false;
    state->handle = NULL;
    state->open = true;
}

/* By handle and identity. The per-thread stream has one handle for all threads; any other slot of
 * the handle is that of a stream which was destroyed without a word. Whether the stream is captured
 * is the same for all groups that use it. */
static bool lookup_verified(mend_streams *streams, mend_stream handle, uint32_t group,
                            const mend_stream_info *info, uint32_t *index)
{
    bool is_found = false;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        if (!state->known || state->handle != handle) {
            continue;
        }
        if (state->id == info->id) {
            state->seen_captured = info->capture != MEND_CAPTURE_NONE;
            if (state->group == group) {
                *index = i;
                is_found = true;
            }
        } else if (handle != MEND_STREAM_PER_THREAD && group == 0 && state->group == 0) {
            abandon(streams, state);
        }
    }
    return is_found;
}

/* The driver has nothing against the question, but against the handle. */
static bool is_of_handle(mend_status status)
{
    return status == MEND_DRIVER_INVALID_VALUE || status == MEND_DRIVER_INVALID_HANDLE ||
           status == MEND_DRIVER_NOT_SUPPORTED;
}

/* Asks the driver what the handle means now. */
static mend_result ask(mend_streams *streams, mend_stream handle, mend_stream_info *info)
{
    const mend_driver *driver = streams->driver;
    const char *call = mend_driver_call_name(MEND_CALL_stream_get_info);
    mend_status status = driver->stream_get_info(driver, handle, info);
    if (mend_status_is_fatal(status)) {
        return mend_streams_driver_failed(streams, MEND_CALL_stream_get_info, status);
    }
    if (status != MEND_DRIVER_OK) {
        return mend_fail_driver(is_of_handle(status) ? MEND_ERROR_UNKNOWN_STREAM
                                                     : MEND_ERROR_DRIVER,
                                call, status, driver->status_name(driver, status),
                                "the driver does not tell of the stream %p", (void *)handle);
    }
    if (info->context != NULL && info->context != streams->context) {
        return mend_fail(MEND_ERROR_UNKNOWN_STREAM,
                         "the stream %p belongs to another context than the pool's device uses",
                         (void *)handle);
    }
    return MEND_OK;
}

mend_result mend_streams_find(mend_streams *streams, mend_stream handle, uint32_t group,
                              uint32_t *index)
{
    bool suffices = mend_streams_handle_suffices(streams, handle);
    *index = suffices ? mend_streams_lookup(streams, handle, group) : MEND_STREAM_UNKNOWN;
    if (*index != MEND_STREAM_UNKNOWN) {
        return MEND_OK;
    }
    mend_stream_info info = {0};
    mend_result result = ask(streams, handle, &info);
    if (result != MEND_OK) {
        return result;
    }
    handle = plain(handle);
    if (!suffices && lookup_verified(streams, handle, group, &info, index)) {
        return MEND_OK;
    }
    result = add_stream(streams, handle, info.id, group, index);
    if (result == MEND_OK) {
        streams->items[*index].seen_captured = info.capture != MEND_CAPTURE_NONE;
    }
    return result;
}

bool mend_stamp_has_fence(const mend_streams *streams, mend_stamp stamp)
{
    const mend_stream_state *state = &streams->items[stamp.stream];
    return state->fence_count > 0 && stamp.epoch <= state->fences[state->fence_count - 1].epoch;
}

void mend_streams_leave_groups(mend_streams *streams, mend_stream handle, uint64_t id)
{
    handle = plain(handle);
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        if (state->known && state->group != 0 && state->handle == handle &&
            (id == 0 || state->id == id)) {
            state->known = false;
            state->seen_captured = false;
            state->handle = NULL;
        }
    }
}

void mend_streams_release_group(mend_streams *streams, uint32_t group)
{
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count; i++) {
        mend_stream_state *state = &streams->items[i];
        if (state->group == group) {
            state->group = 0;
            state->known = false;
            state->handle = NULL;
        }
    }
}
