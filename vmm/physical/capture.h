/*
 * Captures: which streams may be used. While a stream is captured, the pool must not record on it,
 * wait on it or query it: that would invalidate the capture or become part of its graph. A wait for
 * the context would invalidate it too. Asking whether the stream is captured is always safe.
 *
 * No driver call lists all captures. The pool finds the captures of
 *  - blocking streams, per-thread streams included: the legacy stream of their device is then
 *    unusable;
 *  - watched streams: those of groups that are begun;
 *  - known streams: those that a call named outside of groups, and did not forget.
 *    If streams may vanish (`verify`), it asks only about the stream that a call names.
 *
 * The third rule can go wrong: if a program destroys such a stream without mend_forget_stream, and
 * did not set streams_may_vanish, the driver reads a stream that no longer exists. The pool learns
 * of any other capture only when the driver refuses an event of the context, or a wait for it,
 * which invalidates the capture. The wait is the last step before out of memory, and only for
 * memory that no event covers. The event comes before growth, where much was freed without a
 * stream; after a refusal not before twice as much was. Unmapping harms no
 * capture: the pool unmaps only idle memory, which no capture has recorded.
 *
 * Guarded by the heap's `state` lock. All calls but the last one reach the driver, with a current
 * context.
 */
#ifndef MEND_PHYSICAL_CAPTURE_H
#define MEND_PHYSICAL_CAPTURE_H

#include "physical/stream.h"

/* Whether the pool can record events and queue waits on a stream. */
typedef enum mend_reach {
    MEND_REACH_OPEN,
    MEND_REACH_CAPTURED, /* work queued now would become part of a graph */
    MEND_REACH_GONE      /* the handle means another stream (the per-thread stream of another
                          * thread, or the stream was destroyed without mend_forget_stream), or the
                          * stream was forgotten */
} mend_reach;

/* Asks the driver. MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_reach(mend_streams *streams, uint32_t stream, mend_reach *reach);

/* Whether any stream is being captured, as far as the pool can know. `asking` is the stream that
 * the current call names (MEND_STREAM_UNKNOWN: none). Errors as mend_streams_reach. */
mend_result mend_streams_find_capture(mend_streams *streams, uint32_t asking, bool *is_captured);

/* The same when the pool is destroyed, perhaps after its streams: of the known streams it asks only
 * those that were seen captured. */
mend_result mend_streams_find_capture_at_end(mend_streams *streams, bool *is_captured);

/* The graph of the capture has ended, and so has the capture of every stream that was seen in it.
 * Does not call the driver. */
void mend_streams_end_capture(mend_streams *streams, uint64_t capture);

/* Whether the group has streams that were met in their captures, and never identified since. Does
 * not call the driver. */
bool mend_streams_has_strangers(const mend_streams *streams, uint32_t group);

/* Before such a group is released without a stream: asks which devices they belong to, so that
 * waits cover their work. Of streams that vanished, or may have, nobody can tell. Errors as
 * mend_streams_reach. */
mend_result mend_streams_identify(mend_streams *streams, uint32_t group);

/* The stream will be destroyed: ends all watches of it. Does not call the driver. */
void mend_streams_watch_no_more(mend_streams *streams, mend_stream handle);

#endif
