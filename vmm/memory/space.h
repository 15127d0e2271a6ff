/*
 * The addresses of a pool: reservations of the driver, accounted exactly. Addresses that are
 * neither mapped nor waiting to be unmapped are gaps. Neighboring gaps are joined, but never
 * across two reservations.
 *
 * While addresses are plentiful, each zone has its own reservations, with growth space between its
 * segments. Once the driver refuses more, all zones share all gaps: a request takes the smallest
 * gap that holds it, and the space reserves no more than needed. So no zone keeps addresses that
 * another zone needs. Invariants, checked by the validation:
 * - each byte of a reservation except its last page is in a gap or taken: by a mapped chunk, or by
 *   a retired mapping, or an import.
 * - a reservation counts its taken bytes. One without taken bytes may be freed.
 *
 * Guarded by the pool's `state` lock. mend_space_place calls the driver when addresses run out.
 */
#ifndef MEND_MEMORY_SPACE_H
#define MEND_MEMORY_SPACE_H

#include "base/slab.h"
#include "base/tree.h"
#include "driver/driver.h"

typedef struct mend_gap {
    mend_tree_node by_address;
    mend_tree_node by_size; /* and by address among equal sizes */
    uint64_t address;
    uint64_t size_bytes;
    struct mend_reservation *reservation;
} mend_gap;

typedef struct mend_reservation {
    mend_tree_node by_address;
    mend_list link;
    int zone; /* the zone it was reserved for */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t taken_bytes; /* bytes in no gap, without the last page */
} mend_reservation;

typedef struct mend_space {
    const mend_driver *driver;
    uint64_t page_bytes;
    uint64_t address_reservation_bytes; /* most bytes reserved by one call */
    uint64_t ask_bytes;     /* bytes to ask the driver for. Less after it has refused more */
    uint64_t refused_bytes; /* the smallest size refused since addresses were last freed */
    uint64_t growth_bytes;  /* bytes left free behind a new place, for it to grow */
    mend_tree gaps;         /* by address */
    mend_tree gaps_by_size; /* the same ones: a search looks at none that is too small */
    mend_tree reservations_by_address;
    mend_list reservations; /* oldest first */
    mend_slab gap_slab;
    mend_slab reservation_slab;
    uint64_t address_bytes; /* in all reservations */
    uint64_t taken_bytes;
} mend_space;

void mend_space_init(mend_space *space, const mend_driver *driver, uint64_t page_bytes,
                     uint64_t address_reservation_bytes, uint64_t growth_bytes);

/* Frees all reservations. Nothing is mapped in them any more. Calls the driver, goes on after a
 * refusal, and returns the first failure. */
mend_status mend_space_clear(mend_space *space);

/* Frees only the host memory. The driver keeps the reservations. */
void mend_space_abandon(mend_space *space);

/* Reserves nodes, so that the next mend_space_place and `count` calls of take or give need no
 * malloc. False if malloc fails. */
bool mend_space_reserve_nodes(mend_space *space, size_t count);

/*
 * A reservation for one owner, in a space without other reservations: the owner takes and returns
 * parts of it. Rounded up to a page, and one more. The caller reserved nodes. Returns the driver's
 * result. On failure nothing changed.
 */
mend_status mend_space_own(mend_space *space, uint64_t size_bytes, uint64_t *address);

/* Frees the reservation that begins at the address, if nothing of it is taken. False: it stays. */
bool mend_space_disown(mend_space *space, uint64_t address);

/* Whether the address lies in one of its reservations. O(log reservations). */
bool mend_space_holds(const mend_space *space, uint64_t address);

/* Whether the driver has refused addresses, and still has too few. */
static inline bool mend_space_has_few(const mend_space *space)
{
    return space->ask_bytes < space->address_reservation_bytes ||
           space->ask_bytes >= space->refused_bytes;
}

/* Number of unmapped bytes from `address` on. The gap may begin before it. */
uint64_t mend_space_free_from(const mend_space *space, uint64_t address);

/* Number of unmapped, usable bytes that begin exactly at `address`. 0 if there are none. */
uint64_t mend_space_room_at(const mend_space *space, uint64_t address);

/* The zone of pieces that never grow, as imports: they lie side by side. */
enum { MEND_SPACE_PACKED = 2 };

/* Finds a place for `size_bytes` of a zone, aligned to a page or more, with growth space behind it
 * if possible. Reserves more addresses if no gap fits. If the driver refuses, takes the best fit of
 * all gaps. The caller reserved nodes. The range is not taken yet. Returns OK, or the driver's
 * result of the last reserve. */
mend_status mend_space_place(mend_space *space, int zone, uint64_t size_bytes,
                             uint64_t alignment_bytes, uint64_t *address);

/* Takes the range out of the gap that contains it. mend_space_give puts it back. */
void mend_space_take(mend_space *space, uint64_t address, uint64_t size_bytes);
void mend_space_give(mend_space *space, uint64_t address, uint64_t size_bytes);

/* Frees the reservations without taken bytes, except the `keep_count` oldest of all. Calls the
 * driver. A reservation that it refuses to free stays. */
void mend_space_trim(mend_space *space, size_t keep_count);

/* The same, except the oldest one of each zone. Where they cost memory, all. */
void mend_space_trim_but_oldest(mend_space *space);

#endif
