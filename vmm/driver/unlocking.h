/*
 * The heap's way to the driver: a decorator of the table that releases a lock around the calls that
 * may take long, so that other threads go on allocating from free memory meanwhile. It also
 * remembers a status after which the context is lost.
 *
 * The caller of every function holds the lock. After a call that may take long, everything that the
 * lock guards may have changed.
 */
#ifndef MEND_DRIVER_UNLOCKING_H
#define MEND_DRIVER_UNLOCKING_H

#include "base/history.h"
#include "base/mutex.h"
#include "driver/driver.h"

typedef struct mend_unlocking {
    mend_driver table; /* its `state` is this structure, which must not move */
    const mend_driver *inner;
    mend_mutex *lock;
    mend_history *history; /* gets the time of calls that release the lock; NULL: none */
    mend_status lost;      /* the first status that is fatal (mend_status_is_fatal), or OK */
} mend_unlocking;

/* Remembers a fatal status of a driver call made without the table; returns `status`. The caller
 * holds the lock. */
mend_status mend_unlocking_remember(mend_unlocking *unlocking, mend_status status);

/* Both are borrowed. These calls release the lock: create, release, map, unmap, set_access,
 * reserve, address_free, memory_info, the calls that wait for the GPU, and those that may wait for
 * space in a stream's queue (event_record, stream_wait). All others keep it. */
void mend_unlocking_init(mend_unlocking *unlocking, const mend_driver *inner, mend_mutex *lock);

#endif
