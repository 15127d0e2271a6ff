/* Chunks: physical memory. It is freed when no handle, mapping, exported file or importer holds it
 * any more. */
#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "base/align.h"
#include "sim/captures.h"

/* Handles are never reused, so that a stale handle is always noticed. */
enum { HANDLE_STEP = 512 };

mend_sim_chunk *mend_sim_chunk_take(mend_sim *sim, int device, uint64_t size_bytes, bool plain)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(device >= 0);
    assert(device < sim->config.device_count);
    assert(size_bytes > 0);
    uint64_t unit = plain ? MEND_SIM_PLAIN_BLOCK_BYTES : sim->config.page_bytes;
    uint64_t free_bytes = mend_sim_free_bytes(sim, device);
    const mend_sim_device *of = &sim->devices[device];
    mend_sim_scrub_for(sim, device, size_bytes);
    if (of->quota_bytes != 0) { /* which the free memory that is reported does not show */
        free_bytes = mend_min_u64(free_bytes, of->quota_bytes -
                                                  mend_min_u64(of->charged_bytes, of->quota_bytes));
    }
    if (size_bytes > free_bytes || mend_align_up(size_bytes, unit) > free_bytes ||
        !mend_slab_reserve(&sim->chunk_slab, 1)) {
        return NULL;
    }
    mend_sim_chunk *chunk = mend_slab_take(&sim->chunk_slab);
    chunk->size_bytes = size_bytes;
    chunk->charged_bytes = mend_align_up(size_bytes, unit);
    chunk->device = device;
    chunk->plain = plain;
    if (!plain && !mend_sim_content_take(sim, chunk)) {
        mend_slab_give(&sim->chunk_slab, chunk);
        return NULL;
    }
    sim->devices[device].charged_bytes += chunk->charged_bytes;
    assert(sim->devices[device].charged_bytes <= sim->config.memory_bytes);
    if (!plain) {
        sim->ledger.chunks++;
        sim->ledger.chunk_bytes += size_bytes;
        sim->ledger.peak_chunk_bytes =
            mend_max_u64(sim->ledger.peak_chunk_bytes, sim->ledger.chunk_bytes);
    }
    return chunk;
}

void mend_sim_chunk_close_files(const mend_sim_chunk *chunk)
{
    assert(chunk->foreign);
    if (chunk->memory_file >= 0) {
        close(chunk->memory_file);
    }
    close(chunk->held);
}

static void drop_foreign(mend_sim *sim, mend_sim_chunk *chunk)
{
    assert(sim->ledger.foreign_chunks > 0);
    mend_sim_chunk_close_files(chunk);
    mend_list_remove(&chunk->link);
    sim->ledger.foreign_chunks--;
    mend_slab_give(&sim->chunk_slab, chunk);
}

/* Whether an importer has connected by the fabric handle, and is no holder yet: see fabric.c. */
static bool is_awaited(const mend_sim_chunk *chunk)
{
    struct pollfd end = {.fd = chunk->listener, .events = POLLIN};
    return chunk->fabric_id != 0 && poll(&end, 1, 0) > 0;
}

static void end_fabric(mend_sim_chunk *chunk)
{
    if (chunk->fabric_id != 0) {
        close(chunk->listener);
        mend_list_remove(&chunk->by_fabric);
        chunk->fabric_id = 0;
    }
}

void mend_sim_chunk_drop(mend_sim *sim, mend_sim_chunk *chunk)
{
    if (chunk->handle_count != 0 || chunk->mapping_count != 0 || chunk->share_count != 0 ||
        is_awaited(chunk)) {
        return;
    }
    if (chunk->foreign) {
        drop_foreign(sim, chunk);
        return;
    }
    end_fabric(chunk);
    assert(sim->devices[chunk->device].charged_bytes >= chunk->charged_bytes);
    sim->devices[chunk->device].charged_bytes -= chunk->charged_bytes;
    mend_sim_scrub_given(sim, chunk->device, chunk->charged_bytes);
    if (!chunk->plain) {
        assert(sim->ledger.chunks > 0);
        assert(sim->ledger.rdma_chunks >= chunk->rdma);
        assert(sim->ledger.chunk_bytes >= chunk->size_bytes);
        sim->ledger.chunks--;
        sim->ledger.rdma_chunks -= chunk->rdma;
        sim->ledger.chunk_bytes -= chunk->size_bytes;
        mend_sim_content_give(sim, chunk);
    }
    mend_slab_give(&sim->chunk_slab, chunk);
    mend_sim_faults_released(sim);
}

mend_chunk_handle mend_sim_chunk_add_handle(mend_sim *sim, mend_sim_chunk *chunk)
{
    sim->last_handle += HANDLE_STEP;
    mend_pointer_map_insert(&sim->chunks, sim->last_handle, chunk);
    sim->ledger.handles += chunk->handle_count == 0;
    chunk->handle_count++;
    return sim->last_handle;
}

static mend_status check_properties(mend_sim *sim, uint64_t size_bytes,
                                    const mend_chunk_properties *properties)
{
    uint64_t page = sim->config.page_bytes;
    FORBID(size_bytes == 0 || size_bytes % page != 0, MEND_DRIVER_INVALID_VALUE,
           "create: %" PRIu64 " bytes are not a multiple of the page (%" PRIu64 " bytes)",
           size_bytes, page);
    FORBID(properties->device < 0 || properties->device >= sim->config.device_count,
           MEND_DRIVER_INVALID_DEVICE, "create: there is no device %d", properties->device);
    bool lacks_rdma = properties->rdma && sim->config.has_rdma == 0;
    int known_types = MEND_SHARE_FILE_DESCRIPTOR | MEND_SHARE_FABRIC;
    if ((properties->share_types & ~known_types) != 0 || lacks_rdma ||
        sim->config.has_no_virtual_memory != 0) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    return (properties->share_types & MEND_SHARE_FABRIC) != 0 ? mend_sim_fabric_status(sim)
                                                              : MEND_DRIVER_OK;
}

mend_status mend_sim_do_create(mend_sim *sim, uint64_t size_bytes,
                               const mend_chunk_properties *properties, mend_chunk_handle *handle)
{
    TRY(check_properties(sim, size_bytes, properties));
    NEED(mend_pointer_map_reserve(&sim->chunks));
    mend_sim_chunk *chunk = mend_sim_chunk_take(sim, properties->device, size_bytes, false);
    NEED(chunk != NULL);
    chunk->share_types = properties->share_types;
    chunk->rdma = properties->rdma;
    sim->ledger.rdma_chunks += properties->rdma;
    *handle = mend_sim_chunk_add_handle(sim, chunk);
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_release(mend_sim *sim, mend_chunk_handle handle)
{
    mend_sim_chunk *chunk = mend_pointer_map_find(&sim->chunks, handle);
    FORBID(chunk == NULL, MEND_DRIVER_INVALID_VALUE,
           "release: 0x%" PRIx64 " is not a handle, or was released already", handle);
    (void)mend_pointer_map_remove(&sim->chunks, handle);
    sim->bill_bytes = chunk->size_bytes;
    assert(chunk->handle_count > 0);
    chunk->handle_count--;
    assert(sim->ledger.handles > 0);
    sim->ledger.handles -= chunk->handle_count == 0;
    mend_sim_chunk_drop(sim, chunk);
    return MEND_DRIVER_OK;
}
