/*
 * Events, taken and kept, and recorded behind what was freed: only when the pool needs to know. The
 * record is made without the pool's lock, for it blocks while the stream's queue is full: streams
 * and what is freed on them may be others afterwards.
 *
 * Guarded by the pool's lock. All calls but the end of a call reach the driver.
 */
#ifndef MEND_PHYSICAL_RECORD_H
#define MEND_PHYSICAL_RECORD_H

#include "physical/stream.h"

/* Keeps an event to be used again, or destroys it: that of a green context. */
void mend_streams_keep_event(mend_streams *streams, mend_event event, mend_context context);

/* Records the event of the open epoch, if anything is stamped with it. Does nothing for a stream
 * out of reach, or of a group: its memory waits for the context, or for the group's release.
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_close_named(mend_streams *streams, uint32_t stream);

/* The same for a stream that nobody has just named: not where streams end without a word. */
mend_result mend_streams_close_epoch(mend_streams *streams, uint32_t stream);

/* Records events on `recorder` that stand for the epochs of a group, all of which are open. Errors
 * as close_epoch; MEND_ERROR_CAPTURING, MEND_ERROR_UNKNOWN_STREAM: `recorder` is out of reach. On
 * failure nothing changed. */
mend_result mend_streams_close_group(mend_streams *streams, uint32_t group, uint32_t recorder);

/* A call that names the stream, counted in its `calls`, has ended. */
void mend_streams_end_call(mend_streams *streams, uint32_t stream);

#endif
