/* The driver's own allocators: memory that is mapped and accessible from the start. */
#include <assert.h>
#include <inttypes.h>

#include "base/align.h"
#include "sim/captures.h"
#include "sim/state.h"

/* Larger than any address space. Prevents overflow when sizes are rounded up. */
#define MOST_PLAIN_BYTES (UINT64_C(1) << 60)

static mend_status make(mend_sim *sim, int device, uint64_t size_bytes, mend_sim_mapping **made)
{
    if (size_bytes == 0 || size_bytes > MOST_PLAIN_BYTES) {
        return size_bytes == 0 ? MEND_DRIVER_INVALID_VALUE : MEND_DRIVER_OUT_OF_MEMORY;
    }
    uint64_t unit = mend_max_u64(MEND_SIM_PLAIN_BLOCK_BYTES, sim->config.page_bytes);
    uint64_t usable = mend_align_up(size_bytes, MEND_GRANULE_BYTES);
    NEED(mend_slab_reserve(&sim->mapping_slab, 1));
    mend_sim_range *range = mend_sim_range_take(sim, mend_align_up(usable, unit), unit);
    NEED(range != NULL);
    assert(range->mapping_count == 0);
    range->plain = true;
    mend_sim_chunk *chunk = mend_sim_chunk_take(sim, device, usable, true);
    if (chunk == NULL) {
        mend_sim_range_give(sim, range);
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_sim_mapping *mapping = mend_sim_mapping_add(sim, range, range->address, chunk);
    if (mapping == NULL) {
        mend_sim_chunk_drop(sim, chunk);
        mend_sim_range_give(sim, range);
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_sim_mapping_allow(sim, mapping, UINT64_C(1) << device, MEND_ACCESS_READ_WRITE);
    sim->ledger.plain_allocations++;
    sim->ledger.plain_bytes += chunk->charged_bytes;
    *made = mapping;
    return MEND_DRIVER_OK;
}

/* The allocation that begins at the address and is not being freed. NULL: none. */
static mend_sim_mapping *find(const mend_sim *sim, uint64_t address)
{
    mend_sim_mapping *mapping = mend_sim_mapping_at(sim, address);
    bool found = mapping != NULL && mapping->chunk->plain && mapping->address == address &&
                 !mapping->freeing;
    return found ? mapping : NULL;
}

mend_status mend_sim_do_plain_alloc(mend_sim *sim, uint64_t size_bytes, uint64_t *address)
{
    int device = 0;
    mend_sim_mapping *mapping = NULL;
    TRY(mend_sim_current_device(sim, &device));
    TRY(mend_sim_capture_admits_unsafe(sim));
    TRY(make(sim, device, size_bytes, &mapping));
    *address = mapping->address;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_plain_free(mend_sim *sim, uint64_t address)
{
    int device = 0;
    TRY(mend_sim_current_device(sim, &device));
    TRY(mend_sim_capture_admits_unsafe(sim));
    mend_sim_mapping *mapping = find(sim, address);
    FORBID(mapping == NULL, MEND_DRIVER_INVALID_VALUE,
           "plain_free: 0x%" PRIx64 " is not the start of an allocation", address);
    uint64_t size_bytes = mapping->size_bytes;
    assert(mapping->chunk->plain);
    sim->ledger.host_syncs++;
    mend_sim_run_until(sim, sim->devices[mapping->chunk->device].tail_ns);
    if (sim->broken != MEND_DRIVER_OK) {
        return sim->broken;
    }
    mend_sim_plain_drop(sim, mapping);
    sim->bill_bytes = size_bytes;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_async_alloc(mend_sim *sim, uint64_t size_bytes, mend_stream handle,
                                    uint64_t *address)
{
    mend_sim_stream *stream = NULL;
    mend_sim_mapping *mapping = NULL;
    TRY(mend_sim_stream_find_for_work(sim, handle, &stream));
    if (stream->capture != NULL || sim->config.has_no_memory_pools != 0) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    TRY(make(sim, stream->device, size_bytes, &mapping));
    mapping->asynchronous = true;
    *address = mapping->address;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_async_free(mend_sim *sim, uint64_t address, mend_stream handle)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find_for_work(sim, handle, &stream));
    if (stream->capture != NULL) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    mend_sim_mapping *mapping = find(sim, address);
    FORBID(mapping == NULL || !mapping->asynchronous, MEND_DRIVER_INVALID_VALUE,
           "async_free: 0x%" PRIx64 " is not the start of an allocation of "
           "async_alloc, or it was freed already",
           address);
    sim->bill_bytes = mapping->size_bytes;
    mapping->freeing = true;
    const mend_status status = mend_sim_queue(
        sim, stream, &(mend_sim_item){.kind = MEND_SIM_ITEM_ASYNC_FREE, .value = address}, 0, 0);
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        mapping->freeing = false;
    }
    return status;
}
