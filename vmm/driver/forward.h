/* Decorators: tables that pass calls on to an inner table. */
#ifndef MEND_DRIVER_FORWARD_H
#define MEND_DRIVER_FORWARD_H

#include <assert.h>

#include "base/history.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "driver/driver.h"

/* ---- forward.c ------------------------------------------------------------------------------- */

/* The first member of the decorator, which must not move: `state` of the table is its address. */
typedef struct mend_passing {
    mend_driver table;
    const mend_driver *inner;
} mend_passing;

void mend_passing_init(mend_passing *passing, const mend_driver *inner);

/* A handle as the key of a pointer map, which spreads multiples of 512: it is a small number on
 * some devices, an address on others. */
static inline uint64_t mend_handle_key(mend_chunk_handle handle)
{
    assert(handle != 0);
    return handle << 9 | handle >> 55;
}

/* The caller of every function holds the lock. After a call that may take long, everything that the
 * lock guards may have changed. */

typedef struct mend_unlocking {
    mend_passing pass; /* first; this structure must not move */
    mend_mutex *lock;
    mend_history *history; /* gets the time of calls that release the lock; NULL: none */
    mend_status lost;      /* the first status that is fatal (mend_status_is_fatal), or OK */
} mend_unlocking;

/* Remembers a fatal status of a driver call made without the table; returns `status`. The caller
 * holds the lock. */
mend_status mend_unlocking_remember(mend_unlocking *unlocking, mend_status status);

/* All are borrowed; no history: NULL. Calls of the table that may take long release the lock
 * (takes_long). */
const mend_driver *mend_unlocking_init(mend_unlocking *unlocking, const mend_driver *inner,
                                       mend_mutex *lock, mend_history *history);

/* ---- plain.c --------------------------------------------------------------------------------- */

/*
 * A reservation has its memory from the start. A chunk is a number alone, and to map it is to say
 * which part of a reservation counts as used: no driver call, and no bytes move. So the bytes at an
 * address stay whatever is unmapped and mapped there, and memory that is free in one reservation
 * cannot continue another. Memory is not shared with other processes or devices, and has no second
 * address.
 */

/* Drivers allocate plain memory in steps of this, whatever is asked for. */
#define MEND_PLAIN_STEP_BYTES (UINT64_C(2) << 20)

typedef struct mend_plain {
    mend_passing pass;       /* first; this structure must not move */
    mend_mutex mutex;        /* guards the rest; never held while the inner table runs */
    mend_pointer_map ranges; /* from a reservation's address to what it was made of */
    mend_pointer_map sizes;  /* from a chunk's handle to its bytes */
    uint64_t range_bytes;    /* allocated for all reservations */
    uint64_t chunk_bytes;    /* of all chunks */
    uint64_t limit_bytes;    /* for range_bytes */
    uint64_t last_handle;
} mend_plain;

/* `limit_bytes`: most bytes to allocate. */
void mend_plain_init(mend_plain *plain, const mend_driver *inner, uint64_t limit_bytes);
void mend_plain_set_limit(mend_plain *plain, uint64_t limit_bytes);

/* Whether the limit leaves an allocation for a block of this size. */
bool mend_plain_may_hold(mend_plain *plain, uint64_t size_bytes);

/* What reservations hold beside chunks; and what chunks have beyond reservations, which is no
 * memory. */
uint64_t mend_plain_spare_bytes(mend_plain *plain);
uint64_t mend_plain_unbacked_bytes(mend_plain *plain);

/* All reservations are freed, or stay with the driver. */
void mend_plain_end(mend_plain *plain);

/* Says of an open device what this driver can do for it. */
void mend_plain_describe(mend_device_info *info);

#endif
