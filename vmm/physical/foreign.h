/*
 * Streams of other devices. Work of another device may use the pool's memory, so the pool serves
 * its streams like its own: it records an event in the context of the stream, and a stream that
 * waits for the event waits across devices.
 *
 * A wait for the pool's own context does not cover such streams. So once there is a stream of
 * another device, memory without an event of its stream waits for several contexts: the pool's own,
 * and those of the devices whose streams the pool has seen. The pool keeps these devices open until
 * it ends.
 *
 * Guarded by the heap's `state` lock. All calls reach the driver, with the pool's context current.
 */
#ifndef MEND_PHYSICAL_FOREIGN_H
#define MEND_PHYSICAL_FOREIGN_H

#include "physical/stream_state.h"

/* Decides whether the pool serves a stream whose identity is known: it serves streams of the pool's
 * context, of another device's primary context (which it opens and keeps open), and of green
 * contexts of these. If the result is not OK, *call is the refused driver call, and nothing
 * changed. */
mend_status mend_foreign_admit(mend_streams *streams, const mend_stream_info *info,
                               bool *is_admitted, mend_driver_call *call);

/* The same for a device whose streams the driver does not identify. Errors of device_open. */
mend_status mend_foreign_admit_device(mend_streams *streams, int device);

/* Whether the legacy stream of one of the other contexts is unusable, because a blocking stream
 * there is captured. Returns the result of stream_get_info or context_push. */
mend_status mend_foreign_find_capture(const mend_streams *streams, bool *is_captured,
                                      mend_driver_call *call);

/* The host waits for all work of the pool's context and of the others. Releases `state` meanwhile.
 * *waits: number of contexts waited for, also if a later one fails. */
mend_status mend_foreign_synchronize(const mend_streams *streams, uint64_t *waits,
                                     mend_driver_call *call);

/* Records an event of the device's context for all work queued there. Releases `state`
 * meanwhile. */
mend_status mend_foreign_record(const mend_streams *streams, int device, mend_event event,
                                mend_driver_call *call);

/* Closes the other devices. Goes on after a refusal, and returns the first failure. */
mend_status mend_foreign_close(mend_streams *streams);

#endif
