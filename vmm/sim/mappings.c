/* Mappings: which chunk is mapped where, and which devices may access it. */
#include <assert.h>
#include <inttypes.h>

#include "base/align.h"
#include "sim/captures.h"
#include "sim/state.h"

MEND_TREE_ORDER(compare_addresses, mend_sim_mapping, by_address, address);

void mend_sim_mappings_init(mend_sim *sim)
{
    mend_tree_init(&sim->mappings, compare_addresses);
    mend_sim_notes_init(sim);
}

mend_sim_mapping *mend_sim_mapping_at(const mend_sim *sim, uint64_t address)
{
    mend_sim_mapping key = {.address = address};
    mend_sim_mapping *mapping = MEND_CONTAINER_OR_NULL(
        mend_tree_at_or_before(&sim->mappings, &key.by_address), mend_sim_mapping, by_address);
    return mapping != NULL && address - mapping->address < mapping->size_bytes ? mapping : NULL;
}

mend_sim_mapping *mend_sim_mapping_add(mend_sim *sim, mend_sim_range *range, uint64_t address,
                                       mend_sim_chunk *chunk)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(address >= range->address);
    assert(address - range->address + chunk->size_bytes <= range->size_bytes);
    assert(range->plain == chunk->plain);
    mend_sim_mapping *mapping = mend_slab_take(&sim->mapping_slab);
    mapping->address = address;
    mapping->size_bytes = chunk->size_bytes;
    mapping->chunk = chunk;
    mapping->range = range;
    if (!mend_sim_content_map(sim, mapping)) {
        mend_slab_give(&sim->mapping_slab, mapping);
        return NULL;
    }
    chunk->mapping_count++;
    range->mapping_count++;
    mend_tree_insert(&sim->mappings, &mapping->by_address);
    mend_sim_notes_remove(sim, address, mapping->size_bytes);
    if (!chunk->plain) {
        mend_sim_ledger *ledger = &sim->ledger;
        ledger->mappings++;
        ledger->mapped_bytes += mapping->size_bytes;
        ledger->peak_mappings = mend_max_u64(ledger->peak_mappings, ledger->mappings);
    }
    return mapping;
}

static void remove_mapping(mend_sim *sim, mend_sim_mapping *mapping)
{
    mend_sim_chunk *chunk = mapping->chunk;
    assert(chunk->mapping_count > 0);
    assert(mapping->range->mapping_count > 0);
    if (!chunk->plain) {
        assert(sim->ledger.mappings > 0);
        assert(sim->ledger.mapped_bytes >= mapping->size_bytes);
        assert(sim->ledger.accessible_bytes <= sim->ledger.mapped_bytes);
        sim->ledger.mappings--;
        sim->ledger.mapped_bytes -= mapping->size_bytes;
        sim->ledger.accessible_bytes -= mapping->access_devices != 0 ? mapping->size_bytes : 0;
    }
    mend_tree_remove(&sim->mappings, &mapping->by_address);
    mapping->range->mapping_count--;
    chunk->mapping_count--;
    mend_slab_give(&sim->mapping_slab, mapping);
    mend_sim_chunk_drop(sim, chunk);
}

void mend_sim_mapping_allow(mend_sim *sim, mend_sim_mapping *mapping, uint64_t devices,
                            mend_access access)
{
    assert(devices != 0);
    if (mapping->access_devices == 0) {
        mapping->access_ns = sim->now_ns;
        mapping->access_sequence = ++sim->sequence;
        sim->ledger.accessible_bytes += mapping->chunk->plain ? 0 : mapping->size_bytes;
    }
    mapping->access_devices |= devices;
    mapping->write_devices |= devices;
    if (access == MEND_ACCESS_READ) {
        mapping->write_devices &= ~devices;
    }
}

/* The reservation that contains the complete range. NULL: none. */
static mend_sim_range *reservation_of(const mend_sim *sim, uint64_t address, uint64_t size)
{
    mend_sim_range *range = mend_sim_range_at(sim, address);
    bool inside = range != NULL && !range->plain && size <= range->size_bytes &&
                  address - range->address <= range->size_bytes - size;
    return inside ? range : NULL;
}

/* A mapping that overlaps the range. NULL: none. */
static mend_sim_mapping *overlap_of(const mend_sim *sim, uint64_t address, uint64_t size)
{
    assert(size > 0);
    mend_sim_mapping key = {.address = address + (size - 1)};
    mend_sim_mapping *last = MEND_CONTAINER_OR_NULL(
        mend_tree_at_or_before(&sim->mappings, &key.by_address), mend_sim_mapping, by_address);
    return last != NULL && last->address + last->size_bytes > address ? last : NULL;
}

static mend_status check_map(mend_sim *sim, uint64_t address, uint64_t size, uint64_t offset,
                             const mend_sim_chunk *chunk, mend_chunk_handle handle)
{
    const mend_status invalid = MEND_DRIVER_INVALID_VALUE;
    uint64_t page = sim->config.page_bytes;
    FORBID(chunk == NULL, invalid, "map: 0x%" PRIx64 " is not a handle", handle);
    FORBID(offset != 0, MEND_DRIVER_NOT_SUPPORTED,
           "map: the offset must be 0, not %" PRIu64 " bytes", offset);
    FORBID(size != chunk->size_bytes, MEND_DRIVER_NOT_SUPPORTED,
           "map: %" PRIu64 " bytes asked for, but a chunk is mapped whole: "
           "0x%" PRIx64 " has %" PRIu64 " bytes",
           size, handle, chunk->size_bytes);
    FORBID(address % page != 0, invalid,
           "map: 0x%" PRIx64 " is not aligned to the page (%" PRIu64 " bytes)", address, page);
    FORBID(reservation_of(sim, address, size) == NULL, invalid,
           "map: " RANGE_FORMAT " does not lie in a reservation", RANGE_OF(address, size));
    const mend_sim_mapping *other = overlap_of(sim, address, size);
    FORBID(other != NULL, invalid, "map: " RANGE_FORMAT " lies over the mapping " RANGE_FORMAT,
           RANGE_OF(address, size), RANGE_OF(other->address, other->size_bytes));
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_map(mend_sim *sim, uint64_t address, uint64_t size_bytes,
                            uint64_t offset_bytes, mend_chunk_handle handle)
{
    mend_sim_chunk *chunk = mend_pointer_map_find(&sim->chunks, handle);
    TRY(check_map(sim, address, size_bytes, offset_bytes, chunk, handle));
    mend_sim_range *range = reservation_of(sim, address, size_bytes);
    NEED(mend_slab_reserve(&sim->mapping_slab, 1) &&
         mend_sim_mapping_add(sim, range, address, chunk) != NULL);
    sim->bill_mappings = 1;
    return MEND_DRIVER_OK;
}

/* Checks that the range consists of complete mappings of one reservation, without a hole. *first is
 * the first one. It is unknown whether the driver accepts two reservations in one call, even
 * neighbors. */
static mend_status check_whole(mend_sim *sim, const char *call, uint64_t address, uint64_t size,
                               mend_sim_mapping **first)
{
    const mend_status invalid = MEND_DRIVER_INVALID_VALUE;
    uint64_t at = address;
    uint64_t left = size;
    uint64_t count = 0;
    mend_sim_mapping *mapping = mend_sim_mapping_at(sim, address);
    *first = mapping;
    while (left > 0) {
        FORBID(mapping == NULL || mapping->chunk->plain || mapping->address > at, invalid,
               "%s: " RANGE_FORMAT " has a hole: nothing is mapped at 0x%" PRIx64, call,
               RANGE_OF(address, size), at);
        FORBID(mapping->address < at || mapping->size_bytes > left, invalid,
               "%s: " RANGE_FORMAT " is only part of the mapping " RANGE_FORMAT, call,
               RANGE_OF(address, size), RANGE_OF(mapping->address, mapping->size_bytes));
        FORBID(mapping->range != (*first)->range, invalid,
               "%s: " RANGE_FORMAT " lies in two reservations: the second "
               "begins at 0x%" PRIx64,
               call, RANGE_OF(address, size), mapping->range->address);
        at += mapping->size_bytes;
        left -= mapping->size_bytes;
        count++;
        mapping = mend_sim_mapping_next(mapping);
    }
    sim->bill_mappings = count;
    return count > 0 ? MEND_DRIVER_OK
                     : mend_sim_refuse(sim, invalid, "%s: the range is empty", call);
}

/* Reports captures that recorded work on one of `count` mappings. */
static void mind_captures(mend_sim *sim, const mend_sim_mapping *mapping, uint64_t count)
{
    for (uint64_t left = mend_list_is_empty(&sim->captures) ? 0 : count; left > 0; left--) {
        mend_sim_capture_minds_unmap(sim, mapping);
        mapping = mend_sim_mapping_next(mapping);
    }
}

mend_status mend_sim_do_unmap(mend_sim *sim, uint64_t address, uint64_t size_bytes)
{
    mend_sim_mapping *mapping = NULL;
    TRY(check_whole(sim, "unmap", address, size_bytes, &mapping));
    mind_captures(sim, mapping, sim->bill_mappings);
    if (!mend_sim_content_unmap(sim, address, size_bytes)) {
        return MEND_DRIVER_UNKNOWN;
    }
    for (uint64_t left = sim->bill_mappings; left > 0; left--) {
        mend_sim_mapping *next = mend_sim_mapping_next(mapping);
        remove_mapping(sim, mapping);
        mapping = next;
    }
    return MEND_DRIVER_OK;
}

static mend_status check_devices(mend_sim *sim, const int *devices, int count, uint64_t *mask)
{
    FORBID(count <= 0, MEND_DRIVER_INVALID_VALUE, "set_access: no device is named");
    for (int i = 0; i < count; i++) {
        FORBID(devices[i] < 0 || devices[i] >= sim->config.device_count, MEND_DRIVER_INVALID_DEVICE,
               "set_access: there is no device %d", devices[i]);
        *mask |= UINT64_C(1) << devices[i];
    }
    return MEND_DRIVER_OK;
}

/* Checks that each device is the one with the memory, or can reach it. */
static mend_status check_peers(mend_sim *sim, const mend_sim_mapping *mapping, uint64_t count,
                               const int *devices, int device_count)
{
    for (uint64_t left = count; left > 0; left--) {
        for (int i = 0; i < device_count; i++) {
            int home = mapping->chunk->device;
            FORBID(devices[i] != home && !mend_sim_can_reach(sim, devices[i], home),
                   MEND_DRIVER_INVALID_DEVICE,
                   "set_access: device %d cannot reach memory of device %d", devices[i], home);
        }
        mapping = mend_sim_mapping_next(mapping);
    }
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_set_access(mend_sim *sim, uint64_t address, uint64_t size_bytes,
                                   const int *devices, int device_count, mend_access access)
{
    uint64_t mask = 0;
    mend_sim_mapping *mapping = NULL;
    TRY(check_devices(sim, devices, device_count, &mask));
    TRY(check_whole(sim, "set_access", address, size_bytes, &mapping));
    TRY(check_peers(sim, mapping, sim->bill_mappings, devices, device_count));
    NEED(mend_sim_content_allow(sim, address, size_bytes));
    for (uint64_t left = sim->bill_mappings; left > 0; left--) {
        if (mapping->access_devices != 0) { /* the driver unmaps it for a moment */
            mend_sim_items_mark_hole(sim, mapping->address, mapping->size_bytes, mask);
        }
        mend_sim_mapping_allow(sim, mapping, mask, access);
        mapping = mend_sim_mapping_next(mapping);
    }
    assert(device_count > 0);
    sim->bill_mappings *= (uint64_t)device_count; /* each has page tables of its own */
    return MEND_DRIVER_OK;
}

void mend_sim_plain_drop(mend_sim *sim, mend_sim_mapping *mapping)
{
    mend_sim_range *range = mapping->range;
    assert(mapping->chunk->plain);
    assert(sim->ledger.plain_allocations > 0);
    assert(sim->ledger.plain_bytes >= mapping->chunk->charged_bytes);
    sim->ledger.plain_allocations--;
    sim->ledger.plain_bytes -= mapping->chunk->charged_bytes;
    (void)mend_sim_content_unmap(sim, mapping->address, mapping->size_bytes);
    remove_mapping(sim, mapping);
    mend_sim_range_give(sim, range);
}
