#include "physical/capture.h"

#include <assert.h>

#include "base/align.h"
#include "physical/foreign.h"

mend_result mend_streams_reach(mend_streams *streams, uint32_t stream, mend_reach *reach)
{
    assert(stream < streams->count);
    mend_stream_state *state = &streams->items[stream];
    if (!state->known || stream == MEND_STREAM_UNKNOWN) {
        *reach = MEND_REACH_GONE;
        return MEND_OK;
    }
    mend_stream_info info = {0};
    bool is_same = false;
    mend_driver_call call = MEND_CALL_stream_get_info;
    mend_status status = streams->driver->stream_get_info(streams->driver, state->handle, &info);
    if (status == MEND_DRIVER_OK) {
        status = mend_streams_learn(streams, state, &info, &is_same, &call);
    } else if (status == MEND_DRIVER_INVALID_HANDLE) {
        status = MEND_DRIVER_OK; /* is_same stays false */
    }
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, call, status);
    }
    if (!is_same) {
        *reach = MEND_REACH_GONE;
    } else {
        *reach = info.capture == MEND_CAPTURE_NONE ? MEND_REACH_OPEN : MEND_REACH_CAPTURED;
        state->seen_captured = *reach == MEND_REACH_CAPTURED;
    }
    return MEND_OK;
}

/* Whether the handle's stream is captured, or unusable because of a capture. */
static mend_result ask_capture(mend_streams *streams, mend_stream handle, bool *is_captured)
{
    mend_stream_info info = {0};
    mend_status status = streams->driver->stream_get_info(streams->driver, handle, &info);
    if (status != MEND_DRIVER_OK) {
        return mend_streams_driver_failed(streams, MEND_CALL_stream_get_info, status);
    }
    *is_captured = info.capture != MEND_CAPTURE_NONE;
    return MEND_OK;
}

/* Asks the legacy stream of the pool, and those of other devices that use its memory. */
static mend_result ask_legacy(mend_streams *streams, bool *is_captured)
{
    mend_result result = ask_capture(streams, MEND_STREAM_LEGACY, is_captured);
    if (result != MEND_OK || *is_captured) {
        return result;
    }
    mend_driver_call call = MEND_CALL_stream_get_info;
    mend_status status = mend_foreign_find_capture(streams, is_captured, &call);
    return status == MEND_DRIVER_OK ? MEND_OK : mend_streams_driver_failed(streams, call, status);
}

/* Asks the watched streams; *any_stream is set if all streams are watched. */
static mend_result ask_watched(mend_streams *streams, bool *any_stream, bool *is_captured)
{
    mend_result result = MEND_OK;
    mend_list *end = &streams->watches;
    for (mend_list *at = end->next; at != end && result == MEND_OK && !*is_captured;
         at = at->next) {
        mend_stream handle = MEND_CONTAINER_OF(at, mend_watch, link)->handle;
        if (handle == MEND_EVERY_STREAM) {
            *any_stream = true;
        } else {
            result = ask_capture(streams, handle, is_captured);
        }
    }
    return result;
}

/* Whether the stream surely exists. If no frees wait for a fence, the program may have destroyed it
 * without mend_forget_stream. */
static bool is_still_there(const mend_stream_state *state)
{
    return state->seen_captured || state->open;
}

static bool was_captured(const mend_stream_state *state)
{
    return state->seen_captured;
}

/* Whether the pool serves a capture of this stream, and has not learned of its end. */
static bool is_served(const mend_stream_state *state)
{
    return (state->group & MEND_GROUP_OF_CAPTURE) != 0 || state->serves_capture;
}

/* Whether this is the legacy stream. It has been asked already, and its capture does not outlive
 * that of a blocking stream. */
static bool is_legacy(const mend_stream_state *state)
{
    return state->handle == NULL;
}

/* Asks `asking`, and the known streams for which `can_be_asked` is true. If streams may vanish it
 * asks no other stream: one that was seen captured counts as captured until a call names it again,
 * or until its graph ends. */
static mend_result ask_known(mend_streams *streams, uint32_t asking, bool any_stream,
                             bool (*can_be_asked)(const mend_stream_state *), bool *is_captured)
{
    mend_result result = MEND_OK;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1;
         i < streams->count && result == MEND_OK && !*is_captured; i++) {
        const mend_stream_state *state = &streams->items[i];
        bool is_used = any_stream || (state->group == 0 && can_be_asked(state)) ||
                       (state->seen_captured && !streams->verify);
        if (i != asking && streams->verify) {
            *is_captured = (is_used || is_served(state)) && state->known && state->seen_captured &&
                           !is_legacy(state);
        } else if (i == asking || (state->known && is_used)) {
            mend_reach reach = MEND_REACH_GONE;
            result = mend_streams_reach(streams, i, &reach);
            *is_captured = reach == MEND_REACH_CAPTURED;
        }
    }
    return result;
}

mend_result mend_streams_find_capture(mend_streams *streams, uint32_t asking, bool *is_captured)
{
    assert(asking < streams->count);
    bool any_stream = false;
    *is_captured = false;
    mend_result result = ask_legacy(streams, is_captured);
    if (result == MEND_OK && !*is_captured) {
        result = ask_watched(streams, &any_stream, is_captured);
    }
    if (result == MEND_OK && !*is_captured) {
        result = ask_known(streams, asking, any_stream, is_still_there, is_captured);
    }
    return result;
}

mend_result mend_streams_find_capture_at_end(mend_streams *streams, bool *is_captured)
{
    bool any_stream = false;
    *is_captured = false;
    mend_result result = ask_legacy(streams, is_captured);
    if (result == MEND_OK && !*is_captured) {
        result = ask_watched(streams, &any_stream, is_captured);
    }
    if (result == MEND_OK && !*is_captured && !streams->verify) {
        result = ask_known(streams, MEND_STREAM_UNKNOWN, false, was_captured, is_captured);
    }
    return result;
}

/* Whether it was met in its capture, where nobody can tell which device it belongs to. */
static bool is_stranger(const mend_stream_state *state, uint32_t group)
{
    return state->group == group && state->id == 0 && !state->is_free_slot;
}

bool mend_streams_has_strangers(const mend_streams *streams, uint32_t group)
{
    uint32_t at = MEND_STREAM_UNKNOWN + 1;
    while (at < streams->count && !is_stranger(&streams->items[at], group)) {
        at++;
    }
    return at < streams->count;
}

mend_result mend_streams_identify(mend_streams *streams, uint32_t group)
{
    mend_result result = MEND_OK;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count && result == MEND_OK; i++) {
        mend_reach reach;
        const mend_stream_state *state = &streams->items[i];
        if (is_stranger(state, group) && state->known && !streams->verify) {
            result = mend_streams_reach(streams, i, &reach);
        }
    }
    streams->has_strangers |= result == MEND_OK && mend_streams_has_strangers(streams, group);
    return result;
}

void mend_streams_watch_no_more(mend_streams *streams, mend_stream handle)
{
    mend_list *end = &streams->watches;
    for (mend_list *at = end->next, *next; at != end; at = next) {
        next = at->next;
        if (MEND_CONTAINER_OF(at, mend_watch, link)->handle == handle) {
            mend_list_remove(at);
        }
    }
}
