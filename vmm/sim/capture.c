/*
 * Capture: the work of a captured stream is recorded instead of run. A capture begins on one
 * stream, spreads to the streams that wait for its events, and ends on the stream where it began.
 */
#include "sim/captures.h"

#include <assert.h>
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
    MEND_LIST_EACH(mend_sim_capture, capture, link, &sim->captures) {
        if (capture->id == id) {
            return capture;
        }
    }
    return NULL;
}

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

/* Makes the stream wait for `tip`, which the capture recorded. The stream joins the capture if it
 * has not yet. */
static mend_status join(mend_sim *sim, mend_sim_stream *stream, mend_sim_capture *capture,
                        mend_sim_node *tip)
{
    assert(capture != NULL);
    assert(stream->capture == NULL || stream->capture == capture);
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
    FORBID(own == NULL && other == NULL, MEND_DRIVER_CAPTURED_EVENT,
           "stream_wait: the event was last recorded in a capture that ended");
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
