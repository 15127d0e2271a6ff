/*
 * Events: created, kept for reuse, and recorded behind frees, but only when the pool needs to know.
 * event_record runs without the `state` lock, because it blocks while the stream's queue is full:
 * streams and frees may have changed afterwards.
 *
 * Guarded by the heap's `state` lock. All calls reach the driver, except mend_streams_end_call.
 */
#ifndef MEND_PHYSICAL_RECORD_H
#define MEND_PHYSICAL_RECORD_H

#include "physical/stream.h"

/* An event of the context, kept or new. MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_take_event(mend_streams *streams, mend_context context, mend_event *event);

/* Keeps an event for reuse; destroys it if it is of a green context. */
void mend_streams_keep_event(mend_streams *streams, mend_event event, mend_context context);

/* Records an event for the open epoch of the stream, if the epoch has frees. Does nothing for a
 * stream out of reach or of a group: that memory waits for the context, or for the release of the
 * group. MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_close_named(mend_streams *streams, uint32_t stream);

/* The same for a stream that the current call does not name. Does nothing if streams may vanish:
 * the stream may not exist any more. */
mend_result mend_streams_close_epoch(mend_streams *streams, uint32_t stream);

/* Records events on `recorder` that cover the open epochs of a group. Errors as close_epoch;
 * MEND_ERROR_CAPTURING, MEND_ERROR_UNKNOWN_STREAM: `recorder` is out of reach. On failure nothing
 * changed. */
mend_result mend_streams_close_group(mend_streams *streams, uint32_t group, uint32_t recorder);

/* Removes the first `count` fences of the stream, which have passed. Calls the driver only for
 * events of green contexts. */
void mend_streams_pass_fences(mend_streams *streams, mend_stream_state *state, size_t count);

/* Ends a call that uses the stream and was counted in its `calls`. */
void mend_streams_end_call(mend_streams *streams, uint32_t stream);

#endif
