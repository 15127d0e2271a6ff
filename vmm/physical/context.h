/*
 * What only the whole context covers: memory that was freed without a stream, or on streams out of
 * reach. An event of the context covers all that was freed on every stream before it was recorded,
 * and streams wait for it on the device. Several may wait at a time. Or the host waits for the
 * context. Neither covers what a group freed: its graphs may be launched again.
 *
 * Guarded by the heap's `state` lock; all calls need the `grow` lock too, and reach the driver,
 * unless their comment says otherwise. As in physical/fence.h, calls release `state` meanwhile.
 */
#ifndef MEND_PHYSICAL_CONTEXT_H
#define MEND_PHYSICAL_CONTEXT_H

#include "physical/capture.h"

/* Queries the events, the oldest first. True if any has passed. */
bool mend_context_poll(mend_streams *streams);

/* Whether the driver can record an event for all work of the context. Does not call the driver. */
bool mend_streams_can_record_context(const mend_streams *streams);

/* Records such an event, if the driver can, and no capture that the pool knows of forbids it. It
 * covers all frees made so far, with a stream or without. Errors as mend_streams_close_epoch. */
mend_result mend_streams_record_context(mend_streams *streams, uint32_t asking, bool *recorded);

/* The host waits for the oldest such event, which is recorded if there is none; or else for the
 * context. If the event has passed already, the host does not wait.
 * Errors as mend_streams_wait_context. */
mend_result mend_streams_wait_unfenced(mend_streams *streams, uint32_t asking);

/* The host waits for all work of the pool's context, and of the contexts of other devices whose
 * streams use the memory (physical/foreign.h): all earlier frees are then idle. `asking` is the
 * stream that needs memory. MEND_ERROR_CAPTURING: a capture forbids it; MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST. */
mend_result mend_streams_wait_context(mend_streams *streams, uint32_t asking);

#endif
