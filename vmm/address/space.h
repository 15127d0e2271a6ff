/*
 * The addresses of one zone: large reservations of the driver, exactly accounted. What is neither
 * mapped nor waiting to be unmapped is a gap; gaps joined with their neighbours, never across two
 * reservations.
 *
 * Guarded by the pool's lock. mend_space_place reaches the driver when addresses run out.
 */
#ifndef MEND_ADDRESS_SPACE_H
#define MEND_ADDRESS_SPACE_H

#include "base/list.h"
#include "base/slab.h"
#include "base/tree.h"
#include "driver/driver.h"

typedef struct mend_gap {
    mend_tree_node by_address;
    uint64_t address;
    uint64_t size_bytes;
    struct mend_reservation *reservation;
} mend_gap;

typedef struct mend_reservation {
    mend_list link;
    uint64_t address;
    uint64_t size_bytes;
    uint64_t taken_bytes; /* not in gaps */
} mend_reservation;

typedef struct mend_space {
    const mend_driver *driver;
    uint64_t page_bytes;
    uint64_t reserve_bytes; /* addresses asked for at a time */
    uint64_t growth_bytes;  /* room left behind a fresh place, for what grows there */
    mend_tree gaps;         /* by address */
    mend_list reservations; /* oldest first */
    size_t reservation_count;
    mend_slab gap_slab;
    mend_slab reservation_slab;
    uint64_t address_bytes; /* in reservations */
    uint64_t taken_bytes;
} mend_space;

void mend_space_init(mend_space *space, const mend_driver *driver, uint64_t page_bytes,
                     uint64_t reserve_bytes, uint64_t growth_bytes);

/* Frees all reservations: nothing is mapped in them any more. Reaches the driver; goes on when it
 * refuses, and returns its first answer. */
mend_status mend_space_clear(mend_space *space);

/* Frees the host's memory alone: the driver keeps the reservations. */
void mend_space_abandon(mend_space *space);

/* The next place and `count` calls of take or give need no malloc. False when that fails. */
bool mend_space_reserve_nodes(mend_space *space, size_t count);

/* Unmapped, usable bytes that begin exactly at `address`; 0 when none do. */
uint64_t mend_space_room_at(const mend_space *space, uint64_t address);

/*
 * Finds a place for `size_bytes`, aligned to a page at least, with room to grow behind it where
 * possible, reserving more addresses when there is none. Takes nothing yet; nodes were reserved.
 * OK, or the driver's answer to the last reserve.
 */
mend_status mend_space_place(mend_space *space, uint64_t size_bytes, uint64_t alignment_bytes,
                             uint64_t *address);

/* Takes the range out of the gap that contains it; gives it back. */
void mend_space_take(mend_space *space, uint64_t address, uint64_t size_bytes);
void mend_space_give(mend_space *space, uint64_t address, uint64_t size_bytes);

/* Frees the reservations in which nothing is taken, except the `keep_count` oldest. Reaches the
 * driver; what it refuses stays. */
void mend_space_trim(mend_space *space, size_t keep_count);

#endif
