/* Captures as a program makes them (begin, join, end), and the table's questions about them. */
#include <assert.h>

#include "base/align.h"
#include "sim/captures.h"

/* ---- begin and end --------------------------------------------------------------------------- */

static mend_result begin(mend_sim *sim, mend_sim_stream *stream, mend_sim_capture_mode mode)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(stream->capture == NULL);
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

/* A stream that can be captured: a created one, or the calling thread's per-thread stream.
 * Otherwise NULL. */
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
        return mend_sim_invalid("mend_sim_begin_capture: sim is NULL, or there is no such mode");
    }
    mend_mutex_lock(&sim->mutex);
    mend_sim_stream *stream = find(sim, handle);
    bool possible = stream != NULL && stream->capture == NULL;
    mend_result result = possible ? begin(sim, stream, mode)
                                  : mend_sim_invalid("mend_sim_begin_capture: no stream that was "
                                                     "created, or it is being captured");
    mend_mutex_unlock(&sim->mutex);
    return result;
}

/* Ends the capture on all its streams. Returns the recorded work, or NULL if the capture was
 * invalid. */
static mend_sim_graph *end(mend_sim *sim, mend_sim_capture *capture)
{
    mend_sim_graph *graph = capture->graph;
    bool whole = !capture->spoilt && mend_sim_graph_is_joined(graph, capture->origin->tip);
    MEND_LIST_EACH(mend_sim_stream, stream, link, &sim->streams) {
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

/* A capture that is not relaxed may be ended only by the thread that began it. */
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
        return mend_sim_invalid("mend_sim_end_capture: sim is NULL");
    }
    mend_result result = mend_sim_invalid(
        "mend_sim_end_capture: no capture began on the stream, or in another thread");
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

/* ---- joins and questions --------------------------------------------------------------------- */

mend_result mend_sim_stream_wait(mend_sim *sim, mend_stream stream, mend_stream other)
{
    if (sim == NULL) {
        return mend_sim_invalid("mend_sim_stream_wait: sim is NULL");
    }
    mend_sim_stream *waiting = NULL;
    mend_sim_stream *awaited = NULL;
    mend_sim_event event = {0};
    mend_status status = mend_sim_user_begin(sim, MEND_CALL_stream_wait, stream, &waiting);
    if (status == MEND_DRIVER_OK) {
        status = mend_sim_stream_find_for_user(sim, other, &awaited);
    }
    if (status == MEND_DRIVER_OK) {
        status = mend_sim_event_mark(sim, &event, awaited);
    }
    if (status == MEND_DRIVER_OK) {
        status = mend_sim_stream_wait_mark(sim, waiting, &event);
    }
    return mend_sim_user_end(sim, status);
}

mend_status mend_sim_do_stream_get_capture(mend_sim *sim, mend_stream handle, uint64_t *id)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find(sim, handle, &stream));
    bool is_active = mend_sim_capture_state(stream->capture) == MEND_CAPTURE_ACTIVE;
    *id = is_active ? stream->capture->id : 0;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_stream_is_behind(mend_sim *sim, mend_stream handle, mend_stream before,
                                         bool *is_behind)
{
    mend_sim_stream *stream = NULL;
    mend_sim_stream *other = NULL;
    TRY(mend_sim_stream_find(sim, handle, &stream));
    TRY(mend_sim_stream_find(sim, before, &other));
    mend_sim_capture *capture = stream->capture;
    *is_behind = mend_sim_capture_state(capture) == MEND_CAPTURE_ACTIVE &&
                 other->capture == capture &&
                 mend_sim_graph_is_behind(capture->graph, stream->tip, other->tip);
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_capture_keep(mend_sim *sim, mend_stream handle, mend_capture_ended ended,
                                     void *context)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find(sim, handle, &stream));
    FORBID(mend_sim_capture_state(stream->capture) != MEND_CAPTURE_ACTIVE,
           MEND_DRIVER_INVALID_VALUE, "capture_keep: the stream is not being captured");
    return mend_sim_keepers_add(sim, stream->capture->graph, ended, context);
}
