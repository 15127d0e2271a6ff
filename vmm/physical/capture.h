/*
 * Captures: which streams may be touched. While a stream is captured, recording on it, waiting
 * there or asking whether it is done would spoil the capture or end up in its graph, and so would a
 * wait for the context. Asking whether it is captured never does.
 *
 * No driver tells of all captures. The pool learns of those of
 *  - blocking streams, the per-thread streams included: the legacy stream of their device is out of
 *    use then;
 *  - streams that are watched: those of groups which are begun;
 *  - the stream for which a call is made, streams on which something is left to wait for, and those
 *    which were captured when they were last asked. Others may have been destroyed: the driver must
 *    not be asked about them, nor of any but the one a call names where streams end without a word.
 * The third may be wrong: a program that destroyed such a stream without a word, and did not say
 * that it does so, has the driver read what is no more. Of another capture it learns only from the
 * driver's refusal to wait for the context, which spoils it. That is the last thing tried before
 * out of memory, and only for what was freed without a stream. Unmapping harms no capture, and what
 * is idle none has recorded.
 *
 * Guarded by the pool's lock. All calls reach the driver, with a current context.
 */
#ifndef MEND_PHYSICAL_CAPTURE_H
#define MEND_PHYSICAL_CAPTURE_H

#include "physical/stream.h"

/* Whether events can be recorded on a stream, and waits queued. */
typedef enum mend_reach {
    MEND_REACH_OPEN,
    MEND_REACH_CAPTURED, /* work queued now would end up in a graph */
    MEND_REACH_GONE      /* its handle means another stream: it is the per-thread stream of another
                            thread, or was destroyed without a word; or it was forgotten */
} mend_reach;

/* MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_reach(mend_streams *streams, uint32_t stream, mend_reach *reach);

/* Whether a stream is being captured, as far as can be known; `asking` is the stream for whose sake
 * this is (MEND_STREAM_UNKNOWN: none). Errors as reach. */
mend_result mend_streams_find_capture(mend_streams *streams, uint32_t asking, bool *is_captured);

/* The same when the pool is destroyed, perhaps after its streams: of the streams it knows, only
 * those seen captured are asked. */
mend_result mend_streams_find_capture_at_end(mend_streams *streams, bool *is_captured);

/* The stream is about to be destroyed. Calls nothing. */
void mend_streams_watch_no_more(mend_streams *streams, mend_stream handle);

#endif
