/*
 * Capture: while a stream is captured its work is recorded instead of run. It begins on one stream,
 * spreads to those that wait for its events, and ends where it began.
 */
#include "sim/captures.h"

#include <inttypes.h>

#include "base/align.h"

mend_capture_state mend_sim_capture_state(const mend_sim_capture *capture)
{
    if (capture == NULL) {
        return MEND_CAPTURE_NONE;
    }
    return capture->spoilt ? MEND_CAPTURE_INVALIDATED : MEND_CAPTURE_ACTIVE;
}

mend_sim_capture *mend_sim_capture_find(const mend_sim *sim, uint64_t id)
{
    for (mend_list *at = sim->captures.next; at != &sim->captures; at = at->next) {
        mend_sim_capture *capture = MEND_CONTAINER_OF(at, mend_sim_capture, link);
        if (capture->id == id) {
            return capture;
        }
    }
    return NULL;
}

/* ---- from its beginning to its end -------------------------------------------------------- */

static mend_result begin(mend_sim *sim, mend_sim_stream *stream, mend_sim_capture_mode mode)
{
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    if (thread == NULL || !mend_slab_reserve(&sim->capture_slab, 1)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    mend_sim_graph *graph = mend_sim_graph_make(sim);
    if (graph == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    mend_sim_capture *capture = mend_slab_take(&sim->capture_slab);
    capture->id = ++sim->last_capture_id;
    capture->thread = thread->number;
    capture->mode = mode;
    capture->origin = stream;
    capture->graph = graph;
    mend_list_append(&sim->captures, &capture->link);
    stream->capture = capture;
    stream->tip = NULL;
    return MEND_OK;
}

/* A stream that can be captured, or NULL: one that was created, or the calling thread's own. */
static mend_sim_stream *find(mend_sim *sim, mend_stream handle)
{
    mend_sim_stream *stream = NULL;
    if (handle != MEND_STREAM_PER_THREAD) {
        return mend_sim_handles_find(&sim->stream_handles, (uintptr_t)handle);
    }
    return mend_sim_stream_find_for_user(sim, handle, &stream) == MEND_DRIVER_OK ? stream : NULL;
}

mend_result mend_sim_begin_capture(mend_sim *sim, mend_stream handle, mend_sim_capture_mode mode)
{
    if (sim == NULL || (unsigned)mode > MEND_SIM_CAPTURE_RELAXED) {
        return MEND_ERROR_INVALID_ARGUMENT;
    }
    mend_mutex_lock(&sim->mutex);
    mend_sim_stream *stream = find(sim, handle);
    bool possible = stream != NULL && stream->capture == NULL;
    mend_result result = possible ? begin(sim, stream, mode) : MEND_ERROR_INVALID_ARGUMENT;
    mend_mutex_unlock(&sim->mutex);
    return result;
}

/* Lets the capture's streams go, and gives what was recorded: NULL where that is of no use. */
static mend_sim_graph *end(mend_sim *sim, mend_sim_capture *capture)
{
    mend_sim_graph *graph = capture->graph;
    bool whole = !capture->spoilt && mend_sim_graph_is_joined(graph, capture->origin->tip);
    for (mend_list *at = sim->streams.next; at != &sim->streams; at = at->next) {
        mend_sim_stream *stream = MEND_CONTAINER_OF(at, mend_sim_stream, link);
        if (stream->capture == capture) {
            stream->capture = NULL;
            stream->tip = NULL;
        }
    }
    mend_list_remove(&capture->link);
    mend_slab_give(&sim->capture_slab, capture);
    if (!whole) {
        mend_sim_graph_drop(sim, graph);
    }
    return whole ? graph : NULL;
}

/* A capture that is not relaxed is ended by the thread that began it. */
static bool may_end(mend_sim *sim, const mend_sim_stream *stream)
{
    const mend_sim_capture *capture = stream != NULL ? stream->capture : NULL;
    if (capture == NULL || capture->origin != stream) {
        return false;
    }
    const mend_sim_thread *thread = mend_sim_thread_get(sim);
    return capture->mode == MEND_SIM_CAPTURE_RELAXED ||
           (thread != NULL && thread->number == capture->thread);
}

mend_result mend_sim_end_capture(mend_sim *sim, mend_stream handle, mend_sim_graph **graph)
{
    if (sim == NULL) {
        return MEND_ERROR_INVALID_ARGUMENT;
    }
    mend_result result = MEND_ERROR_INVALID_ARGUMENT;
    mend_mutex_lock(&sim->mutex);
    mend_sim_stream *stream = find(sim, handle);
    if (may_end(sim, stream)) {
        mend_sim_graph *recorded = end(sim, stream->capture);
        result = recorded != NULL ? MEND_OK : MEND_ERROR_DRIVER;
        if (graph != NULL) {
            *graph = recorded;
        } else if (recorded != NULL) {
            mend_sim_graph_drop(sim, recorded);
        }
    }
    mend_mutex_unlock(&sim->mutex);
    return result;
}

/* ---- work and waits in it ----------------------------------------------------------------- */

mend_status mend_sim_capture_takes_work(mend_sim *sim, mend_sim_stream *stream, bool *captured)
{
    mend_capture_state state = mend_sim_capture_state(stream->capture);
    *captured = state == MEND_CAPTURE_ACTIVE;
    if (state != MEND_CAPTURE_INVALIDATED) {
        return MEND_DRIVER_OK;
    }
    return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_INVALIDATED,
                           "%s: the capture of stream %" PRIu64 " was invalidated before",
                           mend_driver_call_name(sim->call), stream->id);
}

/* The stream comes after `tip`, which the capture recorded, and joins it if it has not yet. */
static mend_status join(mend_sim *sim, mend_sim_stream *stream, mend_sim_capture *capture,
                        mend_sim_node *tip)
{
    if (stream->capture == NULL) {
        stream->capture = capture;
        stream->tip = tip;
        return MEND_DRIVER_OK;
    }
    return mend_sim_graph_join(sim, stream, tip);
}

mend_status mend_sim_capture_takes_wait(mend_sim *sim, mend_sim_stream *stream,
                                        const mend_sim_event *event, bool *captured)
{
    mend_sim_capture *own = stream->capture;
    mend_sim_capture *other = mend_sim_capture_find(sim, event->capture_id);
    mend_status status = mend_sim_capture_takes_work(sim, stream, captured);
    if (status != MEND_DRIVER_OK || (own == NULL && event->capture_id == 0)) {
        return status;
    }
    if (own == NULL && other == NULL) {
        return mend_sim_refuse(sim, MEND_DRIVER_CAPTURED_EVENT,
                               "stream_wait: the event was last recorded in a capture that ended");
    }
    if (other == NULL) {
        own->spoilt = true;
        return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_ISOLATION,
                               "stream_wait: stream %" PRIu64
                               " is captured, the event was recorded outside the capture",
                               stream->id);
    }
    if (own != NULL && own != other) {
        own->spoilt = true;
        other->spoilt = true;
        return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_MERGE,
                               "stream_wait: stream %" PRIu64 " and the event are of two captures",
                               stream->id);
    }
    if (stream->kind == MEND_SIM_STREAM_LEGACY) {
        other->spoilt = true;
        return mend_sim_refuse(sim, MEND_DRIVER_CAPTURE_UNSUPPORTED,
                               "stream_wait: the legacy stream cannot join a capture");
    }
    *captured = true;
    return join(sim, stream, other, event->tip);
}

mend_result mend_sim_stream_wait(mend_sim *sim, mend_stream stream, mend_stream other)
{
    if (sim == NULL) {
        return MEND_ERROR_INVALID_ARGUMENT;
    }
    mend_sim_stream *waiting = NULL;
    mend_sim_stream *awaited = NULL;
    mend_mutex_lock(&sim->mutex);
    sim->call = MEND_CALL_stream_wait;
    mend_status status = mend_sim_out_of_order(sim, MEND_CALL_stream_wait);
    if (status == MEND_DRIVER_OK) {
        status = mend_sim_stream_find_for_user(sim, stream, &waiting);
    }
    if (status == MEND_DRIVER_OK) {
        status = mend_sim_stream_find_for_user(sim, other, &awaited);
    }
    if (status == MEND_DRIVER_OK) {
        mend_sim_event event = {0};
        status = mend_sim_event_mark(sim, &event, awaited);
        if (status == MEND_DRIVER_OK) {
            status = mend_sim_stream_wait_mark(sim, waiting, &event);
        }
    }
    mend_result result = mend_sim_result_for_user(sim, status);
    mend_mutex_unlock(&sim->mutex);
    return result;
}
