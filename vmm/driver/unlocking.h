/*
 * The heap's way to the driver: a decorator of the table that lets go of a lock around the calls
 * that may take long, so that other threads go on allocating from what is free while one makes
 * room; and that remembers a status after which the context is lost.
 *
 * Whoever makes a call holds the lock. After one that may take long, whatever the lock guards may
 * be different.
 */
#ifndef MEND_DRIVER_UNLOCKING_H
#define MEND_DRIVER_UNLOCKING_H

#include "base/mutex.h"
#include "driver/driver.h"

typedef struct mend_unlocking {
    mend_driver table; /* its `state` is this structure, which must not move */
    const mend_driver *inner;
    mend_mutex *lock;
    mend_status lost; /* the first status that is fatal (mend_status_is_fatal), or OK */
} mend_unlocking;

/* Notes a status by which the context was lost, of a call made beside the table; passes it through.
 * Under the lock. */
mend_status mend_unlocking_remember(mend_unlocking *unlocking, mend_status status);

/* Both are borrowed. Create, release, map, unmap, set_access, reserve, address_free, memory_info,
 * the calls that wait for the GPU, and those that wait for room in a stream's queue (event_record,
 * stream_wait) let go of the lock; all others keep it. */
void mend_unlocking_init(mend_unlocking *unlocking, const mend_driver *inner, mend_mutex *lock);

#endif
