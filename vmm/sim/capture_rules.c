/*
 * Calls forbidden while streams are captured: a query whose answer depends on work that does not
 * run, and anything that a graph cannot repeat. A call that breaks a rule invalidates the captures
 * concerned.
 */
#include <inttypes.h>

#include "base/align.h"
#include "sim/captures.h"

/* ---- calls that are unsafe during a capture -------------------------------------------------- */

static bool forbids_unsafe(const mend_sim_capture *capture, const mend_sim_thread *thread)
{
    if (thread->capture_mode == MEND_CAPTURE_MODE_RELAXED) {
        return false;
    }
    if (capture->thread == thread->number) {
        return capture->mode != MEND_SIM_CAPTURE_RELAXED;
    }
    return capture->mode == MEND_SIM_CAPTURE_GLOBAL &&
           thread->capture_mode == MEND_CAPTURE_MODE_GLOBAL;
}

mend_status mend_sim_capture_admits_unsafe(mend_sim *sim)
{
    assert(mend_mutex_is_held(&sim->mutex));
    if (mend_list_is_empty(&sim->captures)) {
        return MEND_DRIVER_OK;
    }
    const mend_sim_thread *thread = mend_sim_thread_get(sim);
    NEED(thread != NULL);
    bool forbidden = false;
    MEND_LIST_EACH(mend_sim_capture, capture, link, &sim->captures) {
        if (forbids_unsafe(capture, thread)) {
            capture->spoilt = true;
            forbidden = true;
        }
    }
    FORBID(forbidden, MEND_DRIVER_CAPTURE_UNSUPPORTED,
           "%s: while a stream is captured, in a thread whose capture mode is not relaxed",
           mend_driver_call_name(sim->call));
    return MEND_DRIVER_OK;
}

mend_status mend_sim_capture_admits_identity(mend_sim *sim, mend_sim_stream *stream)
{
    const mend_sim_thread *thread = mend_sim_thread_get(sim);
    mend_sim_stream *captured =
        stream->capture != NULL ? stream : mend_sim_capture_shuts_legacy(sim, stream);
    if (thread == NULL || captured == NULL) {
        return thread == NULL ? MEND_DRIVER_OUT_OF_MEMORY : MEND_DRIVER_OK;
    }
    if (sim->config.identity_in_capture && !forbids_unsafe(captured->capture, thread)) {
        return MEND_DRIVER_OK;
    }
    captured->capture->spoilt = true;
    return mend_sim_refuse(
        sim, captured == stream ? MEND_DRIVER_CAPTURE_UNSUPPORTED : MEND_DRIVER_CAPTURE_IMPLICIT,
        "stream %" PRIu64 " is captured: who it is may not be asked", captured->id);
}

mend_status mend_sim_do_exchange_capture_mode(mend_sim *sim, mend_capture_mode *mode)
{
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    NEED(thread != NULL);
    FORBID((unsigned)*mode > MEND_CAPTURE_MODE_RELAXED, MEND_DRIVER_INVALID_VALUE,
           "exchange_capture_mode: %d is not a mode", (int)*mode);
    mend_capture_mode former = thread->capture_mode;
    thread->capture_mode = *mode;
    *mode = former;
    return MEND_DRIVER_OK;
}

/* ---- calls on captured streams and events ---------------------------------------------------- */

mend_status mend_sim_capture_forbids_stream(mend_sim *sim, mend_sim_stream *stream)
{
    mend_sim_capture *capture = stream->capture;
    if (capture == NULL) {
        return MEND_DRIVER_OK;
    }
    bool spoilt_before = capture->spoilt;
    capture->spoilt = true;
    return mend_sim_refuse(
        sim, spoilt_before ? MEND_DRIVER_CAPTURE_INVALIDATED : MEND_DRIVER_CAPTURE_UNSUPPORTED,
        "%s: stream %" PRIu64 " is captured", mend_driver_call_name(sim->call), stream->id);
}

mend_status mend_sim_capture_forbids_event(mend_sim *sim, mend_sim_event *event)
{
    if (event->capture_id == 0) {
        return MEND_DRIVER_OK;
    }
    mend_sim_capture *capture = mend_sim_capture_find(sim, event->capture_id);
    if (capture != NULL) {
        capture->spoilt = true;
    }
    return mend_sim_refuse(sim, MEND_DRIVER_CAPTURED_EVENT,
                           "%s: the event was last recorded in a stream that was captured",
                           mend_driver_call_name(sim->call));
}

void mend_sim_capture_minds_unmap(mend_sim *sim, const mend_sim_mapping *mapping)
{
    const uint64_t address = mapping->address;
    const uint64_t size = mapping->size_bytes;
    MEND_LIST_EACH(const mend_sim_capture, capture, link, &sim->captures) {
        if (mend_sim_graph_touches(capture->graph, address, size)) {
            (void)mend_sim_refuse(
                sim, MEND_DRIVER_OK,
                "%s: " RANGE_FORMAT " while stream %" PRIu64 " is captured, whose graph uses it",
                mend_driver_call_name(sim->call), RANGE_OF(address, size), capture->origin->id);
        }
    }
}

mend_sim_stream *mend_sim_capture_shuts_legacy(const mend_sim *sim, const mend_sim_stream *stream)
{
    if (stream->kind != MEND_SIM_STREAM_LEGACY || mend_list_is_empty(&sim->captures)) {
        return NULL;
    }
    MEND_LIST_EACH(mend_sim_stream, other, link, &sim->streams) {
        if (other->capture != NULL && other->device == stream->device &&
            mend_sim_stream_is_blocking(other)) {
            return other;
        }
    }
    return NULL;
}

mend_status mend_sim_capture_admits_legacy(mend_sim *sim, const mend_sim_stream *stream)
{
    mend_sim_stream *captured = mend_sim_capture_shuts_legacy(sim, stream);
    if (captured == NULL) {
        return MEND_DRIVER_OK;
    }
    captured->capture->spoilt = true;
    return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_IMPLICIT,
                           "%s: on the legacy stream, which would wait for the blocking stream "
                           "%" PRIu64 ", which is captured",
                           mend_driver_call_name(sim->call), captured->id);
}

mend_status mend_sim_capture_forbids_device(mend_sim *sim, int device)
{
    bool captured = false;
    MEND_LIST_EACH(mend_sim_stream, stream, link, &sim->streams) {
        if (stream->capture != NULL && stream->device == device) {
            stream->capture->spoilt = true;
            captured = true;
        }
    }
    FORBID(captured, MEND_DRIVER_CAPTURE_UNSUPPORTED, "%s: a stream of the context is captured",
           mend_driver_call_name(sim->call));
    return MEND_DRIVER_OK;
}
