/*
 * The addresses of a pool: reservations of the driver, exactly accounted. What is neither mapped
 * nor waiting to be unmapped is a gap; gaps joined with their neighbours, never across two
 * reservations.
 *
 * Zones lie apart while there are addresses enough: each has reservations of its own, with room to
 * grow between its segments. Where the driver has no more, a gap is anybody's: the smallest that
 * holds the request, wherever it lies, and reservations of what is needed and no more. So no zone
 * keeps addresses that another needs. Invariants, which the audit checks:
 *  - each byte of a reservation but its last page is in a gap, or taken: by a chunk that is mapped
 *    there, or by a mapping that retires;
 *  - a reservation counts what is taken in it. One with nothing taken may be given back.
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
    mend_tree_node by_address;
    mend_list link;
    int zone; /* that it was made for */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t taken_bytes; /* not in gaps */
} mend_reservation;

typedef struct mend_space {
    const mend_driver *driver;
    uint64_t page_bytes;
    uint64_t reserve_bytes; /* most addresses asked for at a time */
    uint64_t ask_bytes;     /* what the driver is asked for: fewer, once it has refused more */
    uint64_t refused_bytes; /* the least that it refused since something was given back */
    uint64_t growth_bytes;  /* room left behind a fresh place, for what grows there */
    mend_tree gaps;         /* by address */
    mend_tree reservations_by_address;
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
 * Finds a place for `size_bytes` of a zone, aligned to a page at least, with room to grow behind it
 * where possible, reserving more addresses when there is none; where the driver has no more, the
 * place that fits best among all gaps. Takes nothing yet; nodes were reserved. At most five refused
 * calls of the driver, one where the device is lost or addresses are known to be short. OK, or its
 * answer to the last reserve.
 */
mend_status mend_space_place(mend_space *space, int zone, uint64_t size_bytes,
                             uint64_t alignment_bytes, uint64_t *address);

/* Takes the range out of the gap that contains it; gives it back. */
void mend_space_take(mend_space *space, uint64_t address, uint64_t size_bytes);
void mend_space_give(mend_space *space, uint64_t address, uint64_t size_bytes);

/* Frees the reservations in which nothing is taken, except the `keep_count` oldest. Reaches the
 * driver; what it refuses stays. */
void mend_space_trim(mend_space *space, size_t keep_count);

/* The same, except the oldest of each zone. */
void mend_space_trim_but_oldest(mend_space *space);

#endif
