/*
 * Capture: while a stream is captured its work is recorded instead of run, and calls that would
 * need to know whether it is done are refused and spoil the capture.
 *
 * Every capture has the global mode: calls that are unsafe then (plain_alloc, plain_free, asking
 * or waiting for any event) are refused in threads whose own mode is not relaxed.
 */
#include <inttypes.h>

#include "base/align.h"
#include "sim/sim.h"

/* Results of the driver that only captures give. */
enum { CAPTURE_MERGE = 902, CAPTURE_IMPLICIT_EVENT = 907 };

/* Spoils the captures of one id, or all of them for 0, on one device or on all of them for -1. */
static void invalidate(mend_sim *sim, uint64_t capture_id, int device)
{
    for (mend_list *at = sim->streams.next; at != &sim->streams; at = at->next) {
        mend_sim_stream *stream = MEND_CONTAINER_OF(at, mend_sim_stream, link);
        if (stream->capture == MEND_CAPTURE_ACTIVE &&
            (capture_id == 0 || stream->capture_id == capture_id) &&
            (device < 0 || stream->device == device)) {
            stream->capture = MEND_CAPTURE_INVALIDATED;
        }
    }
}

mend_result mend_sim_begin_capture(mend_sim *sim, mend_stream handle)
{
    mend_mutex_lock(&sim->mutex);
    mend_sim_stream *stream = mend_sim_handles_find(&sim->stream_handles, (uintptr_t)handle);
    bool possible = stream != NULL && stream->capture == MEND_CAPTURE_NONE;
    if (possible) {
        stream->capture = MEND_CAPTURE_ACTIVE;
        stream->capture_id = ++sim->last_capture_id;
        sim->captures++;
    }
    mend_mutex_unlock(&sim->mutex);
    return possible ? MEND_OK : MEND_ERROR_INVALID_ARGUMENT;
}

mend_result mend_sim_end_capture(mend_sim *sim, mend_stream handle)
{
    mend_result result = MEND_ERROR_INVALID_ARGUMENT;
    mend_mutex_lock(&sim->mutex);
    mend_sim_stream *first = mend_sim_handles_find(&sim->stream_handles, (uintptr_t)handle);
    if (first != NULL && first->capture != MEND_CAPTURE_NONE) {
        uint64_t capture_id = first->capture_id;
        result = first->capture == MEND_CAPTURE_ACTIVE ? MEND_OK : MEND_ERROR_DRIVER;
        for (mend_list *at = sim->streams.next; at != &sim->streams; at = at->next) {
            mend_sim_stream *stream = MEND_CONTAINER_OF(at, mend_sim_stream, link);
            if (stream->capture_id == capture_id) {
                stream->capture = MEND_CAPTURE_NONE;
                stream->capture_id = 0;
            }
        }
        sim->captures--;
    }
    mend_mutex_unlock(&sim->mutex);
    return result;
}

mend_status mend_sim_capture_admits_unsafe(mend_sim *sim)
{
    if (sim->captures == 0) {
        return MEND_DRIVER_OK;
    }
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    if (thread == NULL || thread->capture_mode == MEND_CAPTURE_MODE_RELAXED) {
        return thread == NULL ? MEND_DRIVER_OUT_OF_MEMORY : MEND_DRIVER_OK;
    }
    invalidate(sim, 0, -1);
    return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_UNSUPPORTED,
                           "%s: while a stream is captured, in a thread whose capture mode is not "
                           "relaxed",
                           mend_driver_call_name(sim->call));
}

mend_status mend_sim_capture_forbids_stream(mend_sim *sim, mend_sim_stream *stream)
{
    if (stream->capture == MEND_CAPTURE_NONE) {
        return MEND_DRIVER_OK;
    }
    bool spoilt = stream->capture == MEND_CAPTURE_INVALIDATED;
    invalidate(sim, stream->capture_id, -1);
    return mend_sim_refuse(
        sim, spoilt ? MEND_DRIVER_CAPTURE_INVALIDATED : MEND_DRIVER_CAPTURE_UNSUPPORTED,
        "%s: stream %" PRIu64 " is captured", mend_driver_call_name(sim->call), stream->id);
}

/* The event was last recorded in a capture that has not ended. */
static mend_sim_stream *capture_of(mend_sim *sim, const mend_sim_event *event)
{
    if (event->capture_id == 0 || sim->captures == 0) {
        return NULL;
    }
    for (mend_list *at = sim->streams.next; at != &sim->streams; at = at->next) {
        mend_sim_stream *stream = MEND_CONTAINER_OF(at, mend_sim_stream, link);
        if (stream->capture_id == event->capture_id) {
            return stream;
        }
    }
    return NULL;
}

mend_status mend_sim_capture_forbids_event(mend_sim *sim, mend_sim_event *event)
{
    if (event->capture_id == 0) {
        return MEND_DRIVER_OK;
    }
    invalidate(sim, event->capture_id, -1);
    return mend_sim_refuse(sim, CAPTURE_IMPLICIT_EVENT,
                           "%s: the event was last recorded in a stream that was captured",
                           mend_driver_call_name(sim->call));
}

mend_status mend_sim_capture_forbids_device(mend_sim *sim, int device)
{
    bool captures = false;
    for (mend_list *at = sim->streams.next; sim->captures != 0 && at != &sim->streams;
         at = at->next) {
        mend_sim_stream *stream = MEND_CONTAINER_OF(at, mend_sim_stream, link);
        captures |= stream->capture != MEND_CAPTURE_NONE && stream->device == device;
    }
    if (!captures) {
        return MEND_DRIVER_OK;
    }
    invalidate(sim, 0, device);
    return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_UNSUPPORTED,
                           "%s: a stream of the context is captured",
                           mend_driver_call_name(sim->call));
}

mend_status mend_sim_capture_takes_work(mend_sim *sim, mend_sim_stream *stream, bool *captured)
{
    *captured = stream->capture == MEND_CAPTURE_ACTIVE;
    if (stream->capture != MEND_CAPTURE_INVALIDATED) {
        return MEND_DRIVER_OK;
    }
    return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_INVALIDATED,
                           "%s: the capture of stream %" PRIu64 " was invalidated before",
                           mend_driver_call_name(sim->call), stream->id);
}

mend_status mend_sim_capture_takes_wait(mend_sim *sim, mend_sim_stream *stream,
                                        mend_sim_event *event, bool *captured)
{
    mend_sim_stream *origin = capture_of(sim, event);
    mend_status status = mend_sim_capture_takes_work(sim, stream, captured);
    if (status != MEND_DRIVER_OK || (!*captured && origin == NULL)) {
        return status;
    }
    if (origin == NULL) {
        invalidate(sim, stream->capture_id, -1);
        return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_ISOLATION,
                               "stream_wait: stream %" PRIu64
                               " is captured, the event was recorded outside the capture",
                               stream->id);
    }
    if (*captured && stream->capture_id != event->capture_id) {
        invalidate(sim, stream->capture_id, -1);
        invalidate(sim, event->capture_id, -1);
        return mend_sim_refuse(sim, CAPTURE_MERGE,
                               "stream_wait: stream %" PRIu64 " and the event are of two captures",
                               stream->id);
    }
    if (stream->handle == 0) {
        invalidate(sim, event->capture_id, -1);
        return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_UNSUPPORTED,
                               "stream_wait: a default stream cannot join a capture");
    }
    /* A stream that waits for a captured event joins the capture. */
    stream->capture = origin->capture;
    stream->capture_id = event->capture_id;
    *captured = true;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_exchange_capture_mode(mend_sim *sim, mend_capture_mode *mode)
{
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    if (thread == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    if ((unsigned)*mode > MEND_CAPTURE_MODE_RELAXED) {
        return mend_sim_refuse(sim, MEND_DRIVER_INVALID_VALUE,
                               "exchange_capture_mode: %d is not a mode", (int)*mode);
    }
    mend_capture_mode former = thread->capture_mode;
    thread->capture_mode = *mode;
    *mode = former;
    return MEND_DRIVER_OK;
}
