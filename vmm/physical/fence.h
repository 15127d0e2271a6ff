/*
 * Fences: waits for the events that were recorded behind frees (physical/record.h), by streams on
 * the device and by the host.
 *
 * While a stream is captured (physical/capture.h) the pool records nothing on it, queues no wait
 * there, and does not wait for the context: memory that was freed on it stays unavailable until the
 * capture has ended.
 *
 * Guarded by the heap's `state` lock. Poll and wait need the `grow` lock too: calls in which the
 * host waits release `state` meanwhile. So do event_record and stream_wait, which block while the
 * stream's queue is full. Afterwards streams and frees may have changed. All calls reach the
 * driver, unless their comment says otherwise.
 */
#ifndef MEND_PHYSICAL_FENCE_H
#define MEND_PHYSICAL_FENCE_H

#include "physical/context.h"

/* Queries the oldest events of each stream. True if any has passed. */
bool mend_streams_poll(mend_streams *streams);

/* `state` was released: what the caller found before may be gone. An internal result, never
 * returned to the program. */
#define MEND_LOOK_AGAIN ((mend_result)-1)

/* Makes `waiter` wait, on the device, for a stamp that has a fence. MEND_OK: it already waits for
 * it; MEND_LOOK_AGAIN: the wait was queued now. Errors as mend_streams_close_epoch. */
mend_result mend_streams_make_wait(mend_streams *streams, uint32_t waiter, mend_stamp stamp);

/* From here on the host waits only for frees made so far, not for those that other threads make
 * during the waits: so the waits end. Does not call the driver. */
void mend_streams_begin_host_waits(mend_streams *streams);

/* The same, but the host waits only for the stamps given to mend_streams_make_due. Neither calls
 * the driver. */
void mend_streams_begin_chosen_waits(mend_streams *streams);
void mend_streams_make_due(mend_streams *streams, mend_stamp stamp);

/*
 * Closes epochs; then the host waits for the oldest fence of any stream, with or without that of
 * `asking`, the stream that needs memory. If only memory without a fence is left (freed without a
 * stream, or on a stream out of reach), the host waits for the context instead. *waited is false if
 * there was nothing to wait for. Errors as mend_streams_close_epoch; MEND_ERROR_CAPTURING: only a
 * wait for the context is left, and a capture forbids it.
 */
mend_result mend_streams_wait_oldest(mend_streams *streams, uint32_t asking, bool with_asking,
                                     bool *waited);

/* Records the open epoch and forgets the stream. Errors as mend_streams_close_epoch,
 * MEND_ERROR_CAPTURING: nothing changed then. Before the program may destroy the stream, wait for
 * calls that use it (mend_streams_await_calls). */
mend_result mend_streams_forget(mend_streams *streams, uint32_t stream);

/* Waits for calls of other threads that use the stream; releases `lock`, the heap's `state`,
 * meanwhile. */
void mend_streams_await_calls(mend_streams *streams, uint32_t stream, mend_mutex *lock);

#endif
