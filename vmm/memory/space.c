/*
 * Gaps in two trees, by address and by size. Reservations, in halves of the size once the driver
 * refuses.
 */
#include "memory/space.h"

#include "base/align.h"

#define GAP_OF(node)         MEND_CONTAINER_OR_NULL(node, mend_gap, by_address)
#define RESERVATION_OF(node) MEND_CONTAINER_OF(node, mend_reservation, link)

/* How many times a refused reservation is halved and tried again. */
enum { SMALLER_TRIES = 3 };

MEND_TREE_ORDER(compare_address, mend_gap, by_address, address);
MEND_TREE_ORDER_BY_TWO(compare_size, mend_gap, by_size, size_bytes, address);
MEND_TREE_ORDER(compare_reservations, mend_reservation, by_address, address);

void mend_space_init(mend_space *space, const mend_driver *driver, uint64_t page_bytes,
                     uint64_t address_reservation_bytes, uint64_t growth_bytes)
{
    assert(mend_is_power_of_two(page_bytes) && address_reservation_bytes > 0);
    *space = (mend_space){.driver = driver,
                          .page_bytes = page_bytes,
                          .address_reservation_bytes =
                              mend_align_up(address_reservation_bytes, page_bytes),
                          .ask_bytes = mend_align_up(address_reservation_bytes, page_bytes),
                          .refused_bytes = UINT64_MAX,
                          .growth_bytes = mend_align_up(growth_bytes, page_bytes)};
    mend_slab_init(&space->gap_slab, sizeof(mend_gap));
    mend_slab_init(&space->reservation_slab, sizeof(mend_reservation));
    mend_space_abandon(space);
}

mend_status mend_space_clear(mend_space *space)
{
    mend_status first = MEND_DRIVER_OK;
    MEND_LIST_EACH(const mend_reservation, reservation, link, &space->reservations) {
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
    mend_tree_init(&space->reservations_by_address, compare_reservations);
    mend_tree_init(&space->gaps, compare_address);
    mend_tree_init(&space->gaps_by_size, compare_size);
}

bool mend_space_reserve_nodes(mend_space *space, size_t count)
{
    return mend_slab_reserve(&space->gap_slab, count + 1) &&
           mend_slab_reserve(&space->reservation_slab, 1);
}

/* The gap that contains the address or ends right before it. */
static mend_gap *gap_before(const mend_space *space, uint64_t address)
{
    const mend_gap key = {.address = address};
    return GAP_OF(mend_tree_at_or_before(&space->gaps, &key.by_address));
}

uint64_t mend_space_room_at(const mend_space *space, uint64_t address)
{
    const mend_gap *gap = gap_before(space, address);
    assert(gap == NULL || gap->size_bytes > 0);
    return gap != NULL && gap->address == address ? gap->size_bytes : 0;
}

uint64_t mend_space_free_from(const mend_space *space, uint64_t address)
{
    const mend_gap *gap = gap_before(space, address);
    return gap != NULL && address - gap->address < gap->size_bytes
               ? gap->size_bytes - (address - gap->address)
               : 0;
}

static void add_gap(mend_space *space, mend_reservation *reservation, uint64_t address,
                    uint64_t size_bytes)
{
    assert(size_bytes > 0 && address >= reservation->address);
    assert(address - reservation->address + size_bytes <=
           reservation->size_bytes - space->page_bytes);
    mend_gap *gap = mend_slab_take(&space->gap_slab);
    gap->address = address;
    gap->size_bytes = size_bytes;
    gap->reservation = reservation;
    mend_tree_insert(&space->gaps, &gap->by_address);
    mend_tree_insert_by(&space->gaps_by_size, &gap->by_size, compare_size);
}

static void drop_gap(mend_space *space, mend_gap *gap)
{
    mend_tree_remove(&space->gaps, &gap->by_address);
    mend_tree_remove(&space->gaps_by_size, &gap->by_size);
    mend_slab_give(&space->gap_slab, gap);
}

/* Its other bounds, which leave it between the same neighbors. */
static void set_gap(mend_space *space, mend_gap *gap, uint64_t address, uint64_t size_bytes)
{
    assert(size_bytes > 0);
    mend_tree_remove(&space->gaps_by_size, &gap->by_size);
    gap->address = address;
    gap->size_bytes = size_bytes;
    mend_tree_insert_by(&space->gaps_by_size, &gap->by_size, compare_size);
}

void mend_space_take(mend_space *space, uint64_t address, uint64_t size_bytes)
{
    mend_gap *gap = gap_before(space, address);
    assert((address | size_bytes) % space->page_bytes == 0 && size_bytes > 0 && gap != NULL);
    assert(address - gap->address + size_bytes <= gap->size_bytes);
    mend_reservation *reservation = gap->reservation;
    uint64_t end = gap->address + gap->size_bytes;
    reservation->taken_bytes += size_bytes;
    space->taken_bytes += size_bytes;
    assert(reservation->taken_bytes < reservation->size_bytes);
    assert(space->taken_bytes < space->address_bytes);
    const uint64_t rest_bytes = end - address - size_bytes;
    if (address > gap->address) {
        set_gap(space, gap, gap->address, address - gap->address);
        if (rest_bytes > 0) {
            add_gap(space, reservation, address + size_bytes, rest_bytes);
        }
    } else if (rest_bytes > 0) {
        set_gap(space, gap, address + size_bytes, rest_bytes);
    } else {
        drop_gap(space, gap);
    }
}

static mend_reservation *reservation_of(const mend_space *space, uint64_t address)
{
    mend_reservation key = {.address = address};
    return MEND_CONTAINER_OR_NULL(
        mend_tree_at_or_before(&space->reservations_by_address, &key.by_address), mend_reservation,
        by_address);
}

bool mend_space_holds(const mend_space *space, uint64_t address)
{
    const mend_reservation *reservation = reservation_of(space, address);
    return reservation != NULL && address - reservation->address < reservation->size_bytes;
}

void mend_space_give(mend_space *space, uint64_t address, uint64_t size_bytes)
{
    mend_reservation *reservation = reservation_of(space, address);
    assert((address | size_bytes) % space->page_bytes == 0);
    assert(address - reservation->address < reservation->size_bytes);
    assert(reservation->taken_bytes >= size_bytes && space->taken_bytes >= size_bytes);
    reservation->taken_bytes -= size_bytes;
    space->taken_bytes -= size_bytes;
    mend_gap *before = gap_before(space, address);
    mend_gap *after = before != NULL ? GAP_OF(mend_tree_next(&before->by_address))
                                     : GAP_OF(mend_tree_first(&space->gaps));
    assert(before == NULL || before->address + before->size_bytes <= address);
    assert(after == NULL || address + size_bytes <= after->address);
    /* Gaps of two reservations do not meet: the last page of each is in none. */
    const bool joins_after = after != NULL && after->address == address + size_bytes;
    const bool joins_before = before != NULL && before->address + before->size_bytes == address;
    assert(!joins_after || after->reservation == reservation);
    assert(!joins_before || before->reservation == reservation);
    size_bytes += joins_after ? after->size_bytes : 0;
    if (joins_before) {
        set_gap(space, before, before->address, before->size_bytes + size_bytes);
        if (joins_after) {
            drop_gap(space, after);
        }
    } else if (joins_after) {
        set_gap(space, after, address, size_bytes);
    } else {
        add_gap(space, reservation, address, size_bytes);
    }
}

static mend_status reserve(mend_space *space, int zone, uint64_t size_bytes,
                           uint64_t alignment_bytes)
{
    assert(size_bytes % space->page_bytes == 0 && size_bytes > space->page_bytes);
    uint64_t address;
    mend_status status =
        space->driver->reserve(space->driver, size_bytes, alignment_bytes, 0, &address);
    if (status != MEND_DRIVER_OK) {
        space->refused_bytes = mend_min_u64(space->refused_bytes, size_bytes);
        return status;
    }
    mend_reservation *made = mend_slab_take(&space->reservation_slab);
    *made = (mend_reservation){.zone = zone, .address = address, .size_bytes = size_bytes};
    mend_tree_insert(&space->reservations_by_address, &made->by_address);
    mend_list_append(&space->reservations, &made->link);
    space->address_bytes += size_bytes;
    add_gap(space, made, address, size_bytes - space->page_bytes);
    return MEND_DRIVER_OK;
}

/* The smallest gap of this size or more. */
static mend_tree_node *first_of_size(const mend_space *space, uint64_t size_bytes)
{
    mend_gap key = {.size_bytes = size_bytes};
    return mend_tree_at_or_after(&space->gaps_by_size, &key.by_size);
}

/* A request for a place. */
typedef struct place {
    int zone;
    uint64_t size_bytes;
    uint64_t alignment_bytes;
} place;

static uint64_t room_to_grow(const mend_space *space, const place *p)
{
    return p->zone == MEND_SPACE_PACKED ? 0 : mend_max_u64(space->growth_bytes, p->size_bytes);
}

/* The lowest gap of the zone that holds the size, growth space behind it, and growth space for the
 * segment that ends where the gap begins. Few gaps are so large. */
static bool find_roomy(const mend_space *space, const place *p, uint64_t *address)
{
    uint64_t growth = room_to_grow(space, p);
    uint64_t lowest = UINT64_MAX;
    for (mend_tree_node *at = first_of_size(space, p->size_bytes + growth); at != NULL;
         at = mend_tree_next(at)) {
        const mend_gap *gap = MEND_CONTAINER_OF(at, mend_gap, by_size);
        uint64_t lead = gap->address == gap->reservation->address ? 0 : growth;
        uint64_t start = mend_align_up(gap->address + lead, p->alignment_bytes);
        if (gap->reservation->zone == p->zone && start < lowest &&
            start - gap->address + p->size_bytes + growth <= gap->size_bytes) {
            lowest = start;
        }
    }
    *address = lowest != UINT64_MAX ? lowest : *address;
    return lowest != UINT64_MAX;
}

/* The beginning of the smallest gap that holds the size, so that larger gaps stay complete. */
static bool find_tight(const mend_space *space, const place *p, uint64_t *address)
{
    for (mend_tree_node *at = first_of_size(space, p->size_bytes); at != NULL;
         at = mend_tree_next(at)) {
        const mend_gap *gap = MEND_CONTAINER_OF(at, mend_gap, by_size);
        uint64_t start = mend_align_up(gap->address, p->alignment_bytes);
        if (start - gap->address + p->size_bytes <= gap->size_bytes) {
            *address = start;
            return true;
        }
    }
    return false;
}

/* Half of the refused size, half of that, and so on, and at last no more than the place needs. The
 * size that succeeds becomes ask_bytes. */
static mend_status reserve_fewer(mend_space *space, const place *p)
{
    assert(space->ask_bytes <= space->address_reservation_bytes);
    uint64_t exact_bytes = p->size_bytes + space->page_bytes;
    uint64_t ask_bytes = space->ask_bytes;
    for (int tries = 0; tries < SMALLER_TRIES && ask_bytes / 2 > exact_bytes + p->alignment_bytes;
         tries++) {
        ask_bytes = mend_align_up(ask_bytes / 2, space->page_bytes);
        if (ask_bytes >= space->refused_bytes) {
            continue;
        }
        mend_status status = reserve(space, p->zone, ask_bytes, 0);
        if (status == MEND_DRIVER_OK) {
            space->ask_bytes = ask_bytes;
        }
        if (status == MEND_DRIVER_OK || mend_status_is_fatal(status)) {
            return status;
        }
    }
    return reserve(space, p->zone, exact_bytes, p->alignment_bytes);
}

mend_status mend_space_place(mend_space *space, int zone, uint64_t size_bytes,
                             uint64_t alignment_bytes, uint64_t *address)
{
    assert(size_bytes > 0 && size_bytes % space->page_bytes == 0);
    assert(alignment_bytes == 0 || mend_is_power_of_two(alignment_bytes));
    const place p = {zone, size_bytes, mend_max_u64(alignment_bytes, space->page_bytes)};
    /* The driver may have refused ask_bytes, with no addresses freed since. */
    if (space->ask_bytes < space->refused_bytes) {
        if (find_roomy(space, &p, address)) {
            return MEND_DRIVER_OK;
        }
        /* ask_bytes, or more if this place with its growth space needs more */
        const uint64_t least_bytes = size_bytes + p.alignment_bytes + room_to_grow(space, &p);
        const mend_status status =
            reserve(space, zone, mend_max_u64(space->ask_bytes, least_bytes), 0);
        if (mend_status_is_fatal(status) ||
            (status == MEND_DRIVER_OK && find_roomy(space, &p, address))) {
            return status;
        }
    }
    if (find_tight(space, &p, address)) {
        return MEND_DRIVER_OK;
    }
    MEND_TRY_CALL(reserve_fewer(space, &p));
    return find_tight(space, &p, address) ? MEND_DRIVER_OK : MEND_DRIVER_OUT_OF_MEMORY;
}

static bool free_reservation(mend_space *space, mend_reservation *reservation)
{
    if (reservation->taken_bytes != 0 ||
        space->driver->address_free(space->driver, reservation->address, reservation->size_bytes) !=
            MEND_DRIVER_OK) {
        return false;
    }
    assert(mend_space_room_at(space, reservation->address) ==
           reservation->size_bytes - space->page_bytes);
    drop_gap(space, gap_before(space, reservation->address));
    space->ask_bytes = mend_max_u64(
        space->ask_bytes, mend_min_u64(reservation->size_bytes, space->address_reservation_bytes));
    space->refused_bytes = UINT64_MAX;
    space->address_bytes -= reservation->size_bytes;
    mend_tree_remove(&space->reservations_by_address, &reservation->by_address);
    mend_list_remove(&reservation->link);
    mend_slab_give(&space->reservation_slab, reservation);
    return true;
}

void mend_space_trim(mend_space *space, size_t keep_count)
{
    size_t kept = 0;
    for (mend_list *at = space->reservations.next, *next; at != &space->reservations; at = next) {
        next = at->next;
        if (kept++ >= keep_count) {
            free_reservation(space, RESERVATION_OF(at));
        }
    }
}

void mend_space_trim_but_oldest(mend_space *space)
{
    uint64_t zones_met = UINT64_C(1) << MEND_SPACE_PACKED;
    for (mend_list *at = space->reservations.next, *next; at != &space->reservations; at = next) {
        const uint64_t zone = UINT64_C(1) << RESERVATION_OF(at)->zone;
        next = at->next;
        if ((zones_met & zone) != 0) {
            free_reservation(space, RESERVATION_OF(at));
        }
        zones_met |= zone;
    }
}

mend_status mend_space_own(mend_space *space, uint64_t size_bytes, uint64_t *address)
{
    const uint64_t all_bytes = mend_align_up(size_bytes, space->page_bytes) + space->page_bytes;
    MEND_TRY_CALL(reserve(space, 0, all_bytes, 0));
    *address = RESERVATION_OF(space->reservations.previous)->address;
    return MEND_DRIVER_OK;
}

bool mend_space_disown(mend_space *space, uint64_t address)
{
    mend_reservation *reservation = reservation_of(space, address);
    assert(reservation != NULL && reservation->address == address);
    return free_reservation(space, reservation);
}
