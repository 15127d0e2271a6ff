/* Decorators: tables that pass calls on to an inner table. */
#ifndef MEND_DRIVER_FORWARD_H
#define MEND_DRIVER_FORWARD_H

#include <assert.h>

#include "base/events.h"
#include "base/thread.h"
#include "driver/driver.h"

/* ---- forward.c ------------------------------------------------------------------------------- */

/* The first member of the decorator, which must not move: `state` of the table is its address. */
typedef struct mend_passing {
    mend_driver table;
    const mend_driver *inner;
} mend_passing;

void mend_passing_init(mend_passing *passing, const mend_driver *inner);

/* The caller of every function holds the lock. After a call that may take long, everything that the
 * lock guards may have changed. */

typedef struct mend_unlocking {
    mend_passing pass; /* first. This structure must not move */
    mend_mutex *lock;
    mend_events *events;      /* gets the time of calls that release the lock. NULL: none */
    mend_status lost;         /* the first status that is fatal (mend_status_is_fatal), or OK */
    mend_driver_call lost_in; /* the call that returned it */
} mend_unlocking;

/* Remembers a fatal status of a driver call made without the table. Returns the status. The caller
 * holds the lock. */
mend_status mend_unlocking_remember(mend_unlocking *unlocking, mend_answer answer);

/* All are borrowed. No events: NULL. Calls of the table that may take long release the lock
 * (takes_long). */
const mend_driver *mend_unlocking_init(mend_unlocking *unlocking, const mend_driver *inner,
                                       mend_mutex *lock, mend_events *events);

#endif
