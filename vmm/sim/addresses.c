/* Addresses: gaps, and the ranges taken from them for reservations and plain allocations. */
#include <assert.h>
#include <inttypes.h>

#include "base/align.h"
#include "sim/state.h"

#define RANGE_BY_ADDRESS(node) MEND_CONTAINER_OF(node, mend_sim_range, by_address)
#define RANGE_BY_SIZE(node)    MEND_CONTAINER_OF(node, mend_sim_range, by_size)

MEND_TREE_ORDER(compare_addresses, mend_sim_range, by_address, address);
MEND_TREE_ORDER_BY_TWO(compare_sizes, mend_sim_range, by_size, size_bytes, address);

static void add_gap(mend_sim *sim, mend_sim_range *gap)
{
    assert(gap->size_bytes > 0);
    assert(gap->mapping_count == 0);
    mend_tree_insert(&sim->gaps, &gap->by_address);
    mend_tree_insert(&sim->gaps_by_size, &gap->by_size);
}

static void remove_gap(mend_sim *sim, mend_sim_range *gap)
{
    assert(sim->gaps.count == sim->gaps_by_size.count);
    mend_tree_remove(&sim->gaps, &gap->by_address);
    mend_tree_remove(&sim->gaps_by_size, &gap->by_size);
}

mend_status mend_sim_space_init(mend_sim *sim)
{
    mend_tree_init(&sim->gaps, compare_addresses);
    mend_tree_init(&sim->gaps_by_size, compare_sizes);
    mend_tree_init(&sim->ranges, compare_addresses);
    sim->space_high = sim->space_base;
    NEED(mend_slab_reserve(&sim->range_slab, 1));
    mend_sim_range *all = mend_slab_take(&sim->range_slab);
    all->address = sim->space_base;
    all->size_bytes = sim->space_bytes;
    add_gap(sim, all);
    return MEND_DRIVER_OK;
}

/* The smallest gap that holds an aligned range. *at is the address of the range. */
static mend_sim_range *find_gap(const mend_sim *sim, uint64_t size, uint64_t alignment,
                                uint64_t *at)
{
    mend_sim_range key = {.size_bytes = size};
    mend_tree_node *node = mend_tree_at_or_after(&sim->gaps_by_size, &key.by_size);
    for (; node != NULL; node = mend_tree_next(node)) {
        mend_sim_range *gap = RANGE_BY_SIZE(node);
        uint64_t lead = (alignment - gap->address % alignment) % alignment;
        if (lead <= gap->size_bytes && gap->size_bytes - lead >= size) {
            *at = gap->address + lead;
            return gap;
        }
    }
    return NULL;
}

mend_sim_range *mend_sim_range_take(mend_sim *sim, uint64_t size_bytes, uint64_t alignment_bytes)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(size_bytes > 0);
    assert(mend_is_power_of_two(alignment_bytes));
    uint64_t at = 0;
    mend_sim_range *gap = find_gap(sim, size_bytes, alignment_bytes, &at);
    if (gap == NULL || !mend_slab_reserve(&sim->range_slab, 2)) {
        return NULL;
    }
    assert(at % alignment_bytes == 0);
    remove_gap(sim, gap);
    uint64_t end = gap->address + gap->size_bytes;
    assert(at + size_bytes <= end);
    if (at > gap->address) {
        mend_sim_range *lead = mend_slab_take(&sim->range_slab);
        lead->address = gap->address;
        lead->size_bytes = at - gap->address;
        add_gap(sim, lead);
    }
    if (at + size_bytes < end) {
        mend_sim_range *rest = mend_slab_take(&sim->range_slab);
        rest->address = at + size_bytes;
        rest->size_bytes = end - rest->address;
        add_gap(sim, rest);
    }
    *gap = (mend_sim_range){.address = at, .size_bytes = size_bytes};
    mend_tree_insert(&sim->ranges, &gap->by_address);
    sim->space_high = mend_max_u64(sim->space_high, at + size_bytes);
    return gap;
}

void mend_sim_range_give(mend_sim *sim, mend_sim_range *range)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(range->mapping_count == 0);
    mend_tree_remove(&sim->ranges, &range->by_address);
    mend_tree_node *before = mend_tree_at_or_before(&sim->gaps, &range->by_address);
    mend_tree_node *after = mend_tree_at_or_after(&sim->gaps, &range->by_address);
    if (before != NULL) {
        mend_sim_range *gap = RANGE_BY_ADDRESS(before);
        assert(gap->address + gap->size_bytes <= range->address);
        if (gap->address + gap->size_bytes == range->address) {
            remove_gap(sim, gap);
            range->address = gap->address;
            range->size_bytes += gap->size_bytes;
            mend_slab_give(&sim->range_slab, gap);
        }
    }
    if (after != NULL) {
        mend_sim_range *gap = RANGE_BY_ADDRESS(after);
        if (range->address + range->size_bytes == gap->address) {
            remove_gap(sim, gap);
            range->size_bytes += gap->size_bytes;
            mend_slab_give(&sim->range_slab, gap);
        }
    }
    add_gap(sim, range);
}

mend_sim_range *mend_sim_range_at(const mend_sim *sim, uint64_t address)
{
    mend_sim_range key = {.address = address};
    mend_tree_node *node = mend_tree_at_or_before(&sim->ranges, &key.by_address);
    mend_sim_range *range = node != NULL ? RANGE_BY_ADDRESS(node) : NULL;
    return range != NULL && address - range->address < range->size_bytes ? range : NULL;
}

bool mend_sim_is_device_address(const mend_sim *sim, uint64_t address)
{
    return address >= sim->space_base && address < sim->space_high;
}

mend_status mend_sim_do_reserve(mend_sim *sim, uint64_t size_bytes, uint64_t alignment_bytes,
                                uint64_t hint, uint64_t *address)
{
    (void)hint;
    uint64_t page = sim->config.page_bytes;
    FORBID(size_bytes == 0 || size_bytes % page != 0, MEND_DRIVER_INVALID_VALUE,
           "reserve: %" PRIu64 " bytes are not a multiple of the page (%" PRIu64 " bytes)",
           size_bytes, page);
    FORBID(alignment_bytes != 0 && !mend_is_power_of_two(alignment_bytes),
           MEND_DRIVER_INVALID_VALUE, "reserve: the alignment 0x%" PRIx64 " is not a power of two",
           alignment_bytes);
    mend_sim_range *range =
        mend_sim_range_take(sim, size_bytes, mend_max_u64(alignment_bytes, page));
    NEED(range != NULL);
    sim->ledger.reservations++;
    sim->ledger.address_bytes += size_bytes;
    *address = range->address;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_address_free(mend_sim *sim, uint64_t address, uint64_t size_bytes)
{
    mend_sim_range *range = mend_sim_range_at(sim, address);
    FORBID(range == NULL || range->plain || range->address != address ||
               range->size_bytes != size_bytes,
           MEND_DRIVER_INVALID_VALUE,
           "address_free: " RANGE_FORMAT " is not a reservation as it was made",
           RANGE_OF(address, size_bytes));
    FORBID(range->mapping_count != 0, MEND_DRIVER_INVALID_VALUE,
           "address_free: %" PRIu64 " mappings lie in the reservation " RANGE_FORMAT,
           range->mapping_count, RANGE_OF(address, size_bytes));
    assert(sim->ledger.reservations > 0);
    assert(sim->ledger.address_bytes >= size_bytes);
    sim->ledger.reservations--;
    sim->ledger.address_bytes -= size_bytes;
    mend_sim_range_give(sim, range);
    return MEND_DRIVER_OK;
}
