/*
 * Streams of other devices. Work of another device may use the pool's memory too, so that its
 * streams are served like the pool's own: an event is recorded in the context of its stream, and
 * a stream that waits for it waits across devices.
 *
 * A wait for the pool's own context covers no work of such a stream. So what no event covers waits,
 * from the first stream of another device on, for all of these contexts: the pool's own, and those
 * of the devices whose streams it has seen. The pool holds these open until it ends.
 *
 * Guarded by the pool's lock. All calls reach the driver, with the pool's context current.
 */
#ifndef MEND_PHYSICAL_FOREIGN_H
#define MEND_PHYSICAL_FOREIGN_H

#include "physical/stream_state.h"

/* Whether the pool serves a stream whose identity the driver told: one of the pool's context, or of
 * another device's primary one, which is held open from here on, or of a green context of these.
 * *call is the one that was refused, where not OK; nothing changed then. */
mend_status mend_foreign_admit(mend_streams *streams, const mend_stream_info *info,
                               bool *is_admitted, mend_driver_call *call);

/* Whether the legacy stream of one of the other contexts is out of use, as it is while a blocking
 * stream there is captured. Answers of stream_get_info or context_push. */
mend_status mend_foreign_find_capture(const mend_streams *streams, bool *is_captured,
                                      mend_driver_call *call);

/* Waits on the host for all work of the pool's context and of the others. Lets go of the pool's
 * lock meanwhile. *waits is the number of contexts that were waited for, some of them also where
 * another one could not be. */
mend_status mend_foreign_synchronize(const mend_streams *streams, uint64_t *waits,
                                     mend_driver_call *call);

/* Holds the other contexts no longer. Goes on when the driver refuses, and returns its first
 * answer. */
mend_status mend_foreign_close(mend_streams *streams);

#endif
