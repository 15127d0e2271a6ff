/*
 * Fences: the waits for events recorded behind what was freed (physical/record.h), of streams on
 * the device and of the host.
 *
 * While a stream is captured (physical/capture.h) nothing is recorded on it or waited for there,
 * and the context is not waited for: what was freed on it stays where it is until the capture has
 * ended.
 *
 * Guarded by the pool's lock. To poll and to wait needs the right to make room as well, for calls
 * that wait on the host let go of the pool's lock meanwhile, and so do the record of an event and
 * the wait of a stream, which block while the stream's queue is full: streams and what is freed on
 * them may be others afterwards. All calls reach the driver.
 */
#ifndef MEND_PHYSICAL_FENCE_H
#define MEND_PHYSICAL_FENCE_H

#include "physical/capture.h"

/* Asks the oldest events whether they have passed. True when any has. */
bool mend_streams_poll(mend_streams *streams);

/* The pool's lock was let go of: what was found before may be there no more. Never leaves the heap.
 */
#define MEND_LOOK_AGAIN ((mend_result)-1)

/* Makes `waiter` wait, on the device, for the stamp, which has a fence. Errors as close_epoch;
 * MEND_OK where it does so already, MEND_LOOK_AGAIN where it does so from now on. */
mend_result mend_streams_make_wait(mend_streams *streams, uint32_t waiter, mend_stamp stamp);

/* From here on the host waits for what has been freed so far, and not for what others free while it
 * does: the waits come to an end. */
void mend_streams_begin_host_waits(mend_streams *streams);

/* The same, but for what mend_streams_make_due is told alone. Neither calls the driver. */
void mend_streams_begin_chosen_waits(mend_streams *streams);
void mend_streams_make_due(mend_streams *streams, mend_stamp stamp);

/*
 * Waits on the host for the oldest fence of any stream, with or without `asking`, the stream that
 * needs memory; closes epochs first. Waits for the whole context when only memory is left for which
 * no event can be recorded (freed without a stream, or on one out of reach). *waited is false when
 * there was nothing to wait for. Errors as close_epoch; MEND_ERROR_CAPTURING: there is only such
 * memory, and the wait for it is forbidden.
 */
mend_result mend_streams_wait_oldest(mend_streams *streams, uint32_t asking, bool with_asking,
                                     bool *waited);

/* Waits for all work of the context, and of those of other devices whose streams use the memory
 * (physical/foreign.h), for the sake of `asking`: everything freed before is idle.
 * MEND_ERROR_CAPTURING: a capture forbids it; MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_wait_context(mend_streams *streams, uint32_t asking);

/* Records what is pending and gives up the handle. Errors as close_epoch, MEND_ERROR_CAPTURING:
 * nothing changed then. Before the stream may be destroyed, its calls are awaited. */
mend_result mend_streams_forget(mend_streams *streams, uint32_t stream);

/* Waits for calls of other threads that name the stream; lets go of `lock`, the pool's, meanwhile.
 */
void mend_streams_await_calls(mend_streams *streams, uint32_t stream, mend_mutex *lock);

#endif
