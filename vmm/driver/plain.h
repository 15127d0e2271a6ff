/*
 * A driver without virtual memory management: a decorator that makes reservations of plain
 * allocations, so that a heap works over them as over addresses that are scarce.
 *
 * A reservation has its memory from the start. A chunk is a number alone, and to map it is to say
 * which part of a reservation counts as used: no driver call, and no bytes move. So the bytes at an
 * address stay whatever is unmapped and mapped there, and memory that is free in one reservation
 * cannot continue another. Memory is not shared with other processes or devices, and has no second
 * address.
 */
#ifndef MEND_DRIVER_PLAIN_H
#define MEND_DRIVER_PLAIN_H

#include "base/mutex.h"
#include "base/pointer_map.h"
#include "driver/passing.h"

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

/* All reservations are freed, or stay with the driver. */
void mend_plain_end(mend_plain *plain);

/* Says of an open device what this driver can do for it. */
void mend_plain_describe(mend_device_info *info);

#endif
