/* Work: queued on streams with a known completion time, and run when the clock reaches that
 * time. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "sim/captures.h"
#include "sim/state.h"

/* The caller frees the staged bytes where it fails, or is captured. */
static mend_status queue(mend_sim *sim, mend_sim_stream *stream, const mend_sim_item *item,
                         uint64_t duration_ns, uint64_t finish_ns, bool *captured)
{
    TRY(mend_sim_capture_takes_work(sim, stream, captured));
    if (*captured) {
        return mend_sim_graph_record(sim, stream, item, duration_ns);
    }
    NEED(mend_slab_reserve(&sim->item_slab, 1));
    TRY(mend_sim_stream_make_room(sim, stream));
    uint64_t start_ns = mend_max_u64(sim->now_ns, mend_sim_stream_tail(sim, stream));
    uint64_t complete_ns = mend_max_u64(start_ns + duration_ns, finish_ns);
    mend_sim_item placed = *item;
    placed.device = stream->device;
    mend_sim_item_add(sim, stream, &placed, start_ns, complete_ns);
    mend_sim_stream_extend(sim, stream, complete_ns);
    return MEND_DRIVER_OK;
}

mend_status mend_sim_queue(mend_sim *sim, mend_sim_stream *stream, const mend_sim_item *item,
                           uint64_t duration_ns, uint64_t finish_ns)
{
    assert(mend_mutex_is_held(&sim->mutex));
    bool captured = false;
    mend_status status = queue(sim, stream, item, duration_ns, finish_ns, &captured);
    if (status != MEND_DRIVER_OK || captured) {
        free(item->staged);
        return status;
    }
    mend_sim_run_until(sim, sim->now_ns);
    return sim->broken;
}

static mend_status check_kernel(mend_sim *sim, const mend_kernel *kernel)
{
    if (kernel->kind == MEND_KERNEL_SPIN) {
        return MEND_DRIVER_OK;
    }
    FORBID((unsigned)kernel->kind >= (unsigned)MEND_KERNEL_KINDS, MEND_DRIVER_INVALID_VALUE,
           "launch: there is no kernel %d", (int)kernel->kind);
    bool in_order = kernel->granule_count <= 1 || kernel->stride_bytes >= kernel->granule_bytes;
    bool fits = kernel->granule_count == 0 || kernel->stride_bytes == 0 ||
                kernel->granule_count <= (UINT64_C(1) << 60) / kernel->stride_bytes;
    if (mend_kernel_is_sound(kernel) && in_order && fits) {
        return MEND_DRIVER_OK;
    }
    return mend_sim_refuse(
        sim, MEND_DRIVER_INVALID_VALUE,
        "launch: %" PRIu64 " granules of %" PRIu64 " bytes, %" PRIu64 " bytes apart from 0x%" PRIx64
        ", are not separate granules of whole words, or no range to stream through",
        kernel->granule_count, kernel->granule_bytes, kernel->stride_bytes, kernel->address);
}

mend_status mend_sim_do_launch(mend_sim *sim, mend_stream handle, const mend_kernel *kernel)
{
    static const mend_sim_item_kind kinds[] = {
        [MEND_KERNEL_SPIN] = MEND_SIM_ITEM_SPIN,
        [MEND_KERNEL_WRITE] = MEND_SIM_ITEM_WRITE_WORDS,
        [MEND_KERNEL_VERIFY] = MEND_SIM_ITEM_VERIFY_WORDS,
        [MEND_KERNEL_STREAM] = MEND_SIM_ITEM_REWRITE,
        [MEND_KERNEL_READ] = MEND_SIM_ITEM_TOUCH,
        [MEND_KERNEL_GATHER] = MEND_SIM_ITEM_TOUCH,
    };
    static_assert(sizeof(kinds) / sizeof(*kinds) == MEND_KERNEL_KINDS, "each kernel has its item");
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find_for_work(sim, handle, &stream));
    TRY(check_kernel(sim, kernel));
    mend_sim_item item = {
        .kind = kinds[kernel->kind],
        .address = kernel->address,
        .granule_bytes = kernel->granule_bytes,
        .stride_bytes = kernel->stride_bytes,
        .granule_count = kernel->kind == MEND_KERNEL_SPIN ? 0 : kernel->granule_count,
        .value = kernel->value,
        .mismatches = kernel->mismatches,
    };
    return mend_sim_queue(sim, stream, &item, kernel->duration_ns, 0);
}

mend_result mend_sim_launch(mend_sim *sim, mend_stream stream, const mend_sim_work *work)
{
    static const mend_sim_item_kind kinds[] = {
        [MEND_SIM_WORK_TOUCH] = MEND_SIM_ITEM_TOUCH,
        [MEND_SIM_WORK_WRITE] = MEND_SIM_ITEM_WRITE_TAG,
        [MEND_SIM_WORK_VERIFY] = MEND_SIM_ITEM_VERIFY_TAG,
    };
    static_assert(sizeof(kinds) / sizeof(*kinds) == MEND_SIM_WORK_VERIFY + 1,
                  "each kind of work has its item");
    mend_sim_work all = MEND_SIM_WORK_INIT;
    if (sim == NULL || work == NULL || !mend_struct_read(&all, work, sizeof(all)) ||
        (unsigned)all.kind > MEND_SIM_WORK_VERIFY) {
        return mend_sim_invalid(
            "mend_sim_launch: sim or work is NULL, its struct_size is wrong, or "
            "there is no such kind of work");
    }
    mend_sim_stream *queue = NULL;
    mend_status status = mend_sim_user_begin(sim, MEND_CALL_launch, stream, &queue);
    if (status == MEND_DRIVER_OK) {
        mend_sim_item item = {.kind = kinds[all.kind],
                              .address = all.address,
                              .granule_bytes = all.size_bytes,
                              .granule_count = 1,
                              .value = all.tag};
        status = mend_sim_queue(sim, queue, &item, 0, all.finish_ns);
    }
    return mend_sim_user_end(sim, status);
}

mend_result mend_sim_synchronize(mend_sim *sim, mend_stream handle)
{
    mend_sim_stream *stream = NULL;
    if (sim == NULL) {
        return mend_sim_invalid("mend_sim_synchronize: sim is NULL");
    }
    mend_status status = mend_sim_user_begin(sim, MEND_CALL_stream_synchronize, handle, &stream);
    if (status == MEND_DRIVER_OK) {
        status = mend_sim_capture_forbids_stream(sim, stream);
    }
    if (status == MEND_DRIVER_OK) {
        mend_sim_run_until(sim, mend_sim_stream_tail(sim, stream));
    }
    return mend_sim_user_end(sim, status);
}

/* Copies the host's bytes when the call is made, as the driver does for pageable memory. If the
 * copy is recorded in a graph, each launch copies them again. */
static bool stage(const mend_sim *sim, mend_sim_item *item, uint64_t source, uint64_t size)
{
    if (sim->config.content == MEND_SIM_CONTENT_NONE || size == 0) {
        return true;
    }
    item->staged = malloc((size_t)size);
    if (item->staged == NULL) {
        return false;
    }
    memcpy(item->staged, (const void *)(uintptr_t)source, (size_t)size);
    return true;
}

mend_status mend_sim_do_copy(mend_sim *sim, uint64_t destination, uint64_t source,
                             uint64_t size_bytes, mend_stream handle)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find_for_work(sim, handle, &stream));
    bool to_device = mend_sim_is_device_address(sim, destination);
    bool from_device = mend_sim_is_device_address(sim, source);
    mend_sim_item item = {
        .kind = MEND_SIM_ITEM_COPY,
        .address = to_device ? destination : 0,
        .source = from_device ? source : 0,
        .host = to_device ? NULL : (void *)(uintptr_t)destination,
        .granule_bytes = size_bytes,
        .granule_count = 1,
    };
    const void *host_source = (const void *)(uintptr_t)source;
    if (!from_device &&
        (stream->capture != NULL || mend_sim_host_is_pinned(sim, host_source, size_bytes))) {
        item.host_source = host_source;
    } else if (!from_device && !stage(sim, &item, source, size_bytes)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_status status = mend_sim_queue(sim, stream, &item, sim->config.copy_ns, 0);
    sim->bill_row = to_device && from_device ? (int)MEND_CALL_copy : (int)MEND_CALL_host_copy;
    bool is_queued = item.host != NULL && mend_sim_host_is_pinned(sim, item.host, size_bytes);
    if (status == MEND_DRIVER_OK && !to_device && !is_queued && stream->capture == NULL) {
        sim->ledger.host_syncs++;
        mend_sim_run_until(sim, stream->tail_ns);
        status = sim->broken;
    }
    return status;
}

mend_status mend_sim_do_fill(mend_sim *sim, uint64_t address, uint8_t value, uint64_t size_bytes,
                             mend_stream handle)
{
    mend_sim_stream *stream = NULL;
    TRY(mend_sim_stream_find_for_work(sim, handle, &stream));
    mend_sim_item item = {.kind = MEND_SIM_ITEM_FILL,
                          .address = address,
                          .granule_bytes = size_bytes,
                          .granule_count = 1,
                          .value = value};
    return mend_sim_queue(sim, stream, &item, sim->config.copy_ns, 0);
}
