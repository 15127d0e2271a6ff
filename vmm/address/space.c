#include "address/space.h"

#include <assert.h>

#include "base/align.h"

#define GAP_OF(node)         ((node) ? MEND_CONTAINER_OF(node, mend_gap, by_address) : NULL)
#define RESERVATION_OF(node) MEND_CONTAINER_OF(node, mend_reservation, link)

static int compare_address(const mend_tree_node *a, const mend_tree_node *b)
{
    uint64_t first = MEND_CONTAINER_OF(a, mend_gap, by_address)->address;
    uint64_t second = MEND_CONTAINER_OF(b, mend_gap, by_address)->address;
    return (first > second) - (first < second);
}

void mend_space_init(mend_space *space, const mend_driver *driver, uint64_t page_bytes,
                     uint64_t reserve_bytes, uint64_t growth_bytes)
{
    *space = (mend_space){.driver = driver,
                          .page_bytes = page_bytes,
                          .reserve_bytes = mend_align_up(reserve_bytes, page_bytes),
                          .growth_bytes = mend_align_up(growth_bytes, page_bytes)};
    mend_tree_init(&space->gaps, compare_address);
    mend_list_init(&space->reservations);
    mend_slab_init(&space->gap_slab, sizeof(mend_gap));
    mend_slab_init(&space->reservation_slab, sizeof(mend_reservation));
}

mend_status mend_space_clear(mend_space *space)
{
    mend_status first = MEND_DRIVER_OK;
    for (mend_list *at = space->reservations.next; at != &space->reservations; at = at->next) {
        mend_reservation *reservation = RESERVATION_OF(at);
        mend_status status = space->driver->address_free(space->driver, reservation->address,
                                                         reservation->size_bytes);
        first = first != MEND_DRIVER_OK ? first : status;
    }
    mend_space_abandon(space);
    return first;
}

void mend_space_abandon(mend_space *space)
{
    mend_slab_clear(&space->gap_slab);
    mend_slab_clear(&space->reservation_slab);
    mend_list_init(&space->reservations);
    mend_tree_init(&space->gaps, compare_address);
}

bool mend_space_reserve_nodes(mend_space *space, size_t count)
{
    return mend_slab_reserve(&space->gap_slab, count + 1) &&
           mend_slab_reserve(&space->reservation_slab, 1);
}

/* The gap that contains the address, or ends right before it. */
static mend_gap *gap_before(const mend_space *space, uint64_t address)
{
    mend_gap key = {.address = address};
    return GAP_OF(mend_tree_at_or_before(&space->gaps, &key.by_address));
}

uint64_t mend_space_room_at(const mend_space *space, uint64_t address)
{
    const mend_gap *gap = gap_before(space, address);
    return gap != NULL && gap->address == address ? gap->size_bytes : 0;
}

static void add_gap(mend_space *space, mend_reservation *reservation, uint64_t address,
                    uint64_t size_bytes)
{
    mend_gap *gap = mend_slab_take(&space->gap_slab);
    gap->address = address;
    gap->size_bytes = size_bytes;
    gap->reservation = reservation;
    mend_tree_insert(&space->gaps, &gap->by_address);
}

static void drop_gap(mend_space *space, mend_gap *gap)
{
    mend_tree_remove(&space->gaps, &gap->by_address);
    mend_slab_give(&space->gap_slab, gap);
}

void mend_space_take(mend_space *space, uint64_t address, uint64_t size_bytes)
{
    mend_gap *gap = gap_before(space, address);
    assert(gap != NULL && address - gap->address + size_bytes <= gap->size_bytes);
    mend_reservation *reservation = gap->reservation;
    uint64_t end = gap->address + gap->size_bytes;
    reservation->taken_bytes += size_bytes;
    space->taken_bytes += size_bytes;
    if (address > gap->address) {
        gap->size_bytes = address - gap->address;
    } else {
        drop_gap(space, gap);
    }
    if (address + size_bytes < end) {
        add_gap(space, reservation, address + size_bytes, end - address - size_bytes);
    }
}

static mend_reservation *reservation_of(const mend_space *space, uint64_t address)
{
    for (mend_list *at = space->reservations.next; at != &space->reservations; at = at->next) {
        mend_reservation *reservation = RESERVATION_OF(at);
        if (address - reservation->address < reservation->size_bytes) {
            return reservation;
        }
    }
    return NULL;
}

void mend_space_give(mend_space *space, uint64_t address, uint64_t size_bytes)
{
    mend_reservation *reservation = reservation_of(space, address);
    assert(reservation != NULL && reservation->taken_bytes >= size_bytes);
    reservation->taken_bytes -= size_bytes;
    space->taken_bytes -= size_bytes;
    mend_gap *before = gap_before(space, address);
    mend_gap *after = before != NULL ? GAP_OF(mend_tree_next(&before->by_address))
                                     : GAP_OF(mend_tree_first(&space->gaps));
    if (after != NULL && after->address == address + size_bytes &&
        after->reservation == reservation) {
        size_bytes += after->size_bytes;
        drop_gap(space, after);
    }
    if (before != NULL && before->address + before->size_bytes == address &&
        before->reservation == reservation) {
        before->size_bytes += size_bytes;
    } else {
        add_gap(space, reservation, address, size_bytes);
    }
}

/* Reserves more addresses, fewer when the driver refuses many, but at least `least_bytes`. */
static mend_status reserve_more(mend_space *space, uint64_t least_bytes)
{
    /* The last page is never used: so no two reservations touch, and no range crosses from one into
     * another. */
    least_bytes += space->page_bytes;
    uint64_t size_bytes = mend_max_u64(space->reserve_bytes, least_bytes);
    uint64_t address;
    mend_status status;
    for (;;) {
        status = space->driver->reserve(space->driver, size_bytes, 0, 0, &address);
        if (status == MEND_DRIVER_OK || size_bytes == least_bytes) {
            break;
        }
        size_bytes = mend_max_u64(mend_align_up(size_bytes / 2, space->page_bytes), least_bytes);
    }
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    mend_reservation *reservation = mend_slab_take(&space->reservation_slab);
    reservation->address = address;
    reservation->size_bytes = size_bytes;
    mend_list_append(&space->reservations, &reservation->link);
    space->address_bytes += size_bytes;
    space->reservation_count++;
    add_gap(space, reservation, address, size_bytes - space->page_bytes);
    return MEND_DRIVER_OK;
}

/* The lowest gap with room for the size, the growth behind it, and the growth of whatever ends
 * where the gap begins; false when there is none. */
static bool find_roomy(const mend_space *space, uint64_t size_bytes, uint64_t alignment_bytes,
                       uint64_t *address)
{
    uint64_t growth = mend_max_u64(space->growth_bytes, size_bytes);
    for (mend_tree_node *at = mend_tree_first(&space->gaps); at != NULL; at = mend_tree_next(at)) {
        const mend_gap *gap = MEND_CONTAINER_OF(at, mend_gap, by_address);
        uint64_t lead = gap->address == gap->reservation->address ? 0 : growth;
        uint64_t start = mend_align_up(gap->address + lead, alignment_bytes);
        if (start - gap->address + size_bytes + growth <= gap->size_bytes) {
            *address = start;
            return true;
        }
    }
    return false;
}

/* The middle of the largest gap, if it holds the size at all. */
static bool find_tight(const mend_space *space, uint64_t size_bytes, uint64_t alignment_bytes,
                       uint64_t *address)
{
    const mend_gap *largest = NULL;
    for (mend_tree_node *at = mend_tree_first(&space->gaps); at != NULL; at = mend_tree_next(at)) {
        if (largest == NULL || GAP_OF(at)->size_bytes > largest->size_bytes) {
            largest = GAP_OF(at);
        }
    }
    if (largest == NULL || largest->size_bytes < size_bytes) {
        return false;
    }
    uint64_t end = largest->address + largest->size_bytes;
    uint64_t middle = largest->address + (largest->size_bytes - size_bytes) / 2;
    *address = mend_max_u64(mend_align_down(middle, alignment_bytes),
                            mend_align_up(largest->address, alignment_bytes));
    return *address + size_bytes <= end;
}

mend_status mend_space_place(mend_space *space, uint64_t size_bytes, uint64_t alignment_bytes,
                             uint64_t *address)
{
    alignment_bytes = mend_max_u64(alignment_bytes, space->page_bytes);
    if (find_roomy(space, size_bytes, alignment_bytes, address)) {
        return MEND_DRIVER_OK;
    }
    uint64_t needed_bytes = size_bytes + alignment_bytes;
    mend_status status =
        reserve_more(space, needed_bytes + mend_max_u64(space->growth_bytes, size_bytes));
    if (status == MEND_DRIVER_OK && find_roomy(space, size_bytes, alignment_bytes, address)) {
        return MEND_DRIVER_OK;
    }
    if (find_tight(space, size_bytes, alignment_bytes, address)) {
        return MEND_DRIVER_OK;
    }
    status = reserve_more(space, needed_bytes);
    return status != MEND_DRIVER_OK || find_tight(space, size_bytes, alignment_bytes, address)
               ? status
               : MEND_DRIVER_OUT_OF_MEMORY;
}

void mend_space_trim(mend_space *space, size_t keep_count)
{
    mend_list *at = space->reservations.next;
    for (size_t kept = 0; at != &space->reservations && kept < keep_count; kept++) {
        at = at->next;
    }
    while (at != &space->reservations) {
        mend_reservation *reservation = RESERVATION_OF(at);
        at = at->next;
        if (reservation->taken_bytes != 0 ||
            space->driver->address_free(space->driver, reservation->address,
                                        reservation->size_bytes) != MEND_DRIVER_OK) {
            continue;
        }
        drop_gap(space, gap_before(space, reservation->address));
        space->address_bytes -= reservation->size_bytes;
        space->reservation_count--;
        mend_list_remove(&reservation->link);
        mend_slab_give(&space->reservation_slab, reservation);
    }
}
