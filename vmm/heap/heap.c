/* The heap as a whole: its beginning, its locks, and its way through the door. */
#include "heap/heap.h"

#include "base/error.h"
#include "base/process.h"
#include "heap/group.h"
#include "heap/layout.h"
#include "heap/retire.h"
#include "physical/fence.h"

/* Addresses reserved at a time: a multiple of the device's memory, between these. Addresses cost
 * nothing; running out of them costs a driver call. */
#define LEAST_RESERVE_BYTES   (64 * MEND_GIB)
#define LARGEST_RESERVE_BYTES (2 * MEND_TIB)
enum { RESERVES_OF_DEVICE = 16 };

/* Room left behind a segment at a fresh place, in which it can grow. */
#define GROWTH_BYTES (4 * MEND_GIB)
enum { GROWTHS_OF_RESERVE = 8 };

static uint64_t reserve_bytes_of(const mend_heap *heap)
{
    if (heap->config.reserve_bytes != 0) {
        return heap->config.reserve_bytes;
    }
    uint64_t total = mend_min_u64(heap->device.total_bytes, LARGEST_RESERVE_BYTES);
    return mend_min_u64(mend_max_u64(total * RESERVES_OF_DEVICE, LEAST_RESERVE_BYTES),
                        LARGEST_RESERVE_BYTES);
}

mend_result mend_heap_init(mend_heap *heap, const mend_driver *driver,
                           const mend_device_info *device, const mend_heap_config *config)
{
    *heap = (mend_heap){.device = *device, .config = *config};
    mend_yielding_init(&heap->yielding, driver, &heap->state);
    heap->driver = &heap->yielding.table;
    mend_result result = mend_streams_init(&heap->streams, heap->driver, device->context);
    if (result != MEND_OK) {
        return result;
    }
    heap->streams.verify = config->streams_may_vanish;
    mend_mutex_init(&heap->making, MEND_RANK_MAKING);
    mend_mutex_init(&heap->state, MEND_RANK_POOL);
    mend_chunks_init(&heap->chunks, heap->driver, config->device);
    uint64_t reserve_bytes = reserve_bytes_of(heap);
    uint64_t growth_bytes = mend_min_u64(GROWTH_BYTES, reserve_bytes / GROWTHS_OF_RESERVE);
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        mend_space_init(&heap->zones[i].space, heap->driver, device->granularity_bytes,
                        reserve_bytes, growth_bytes);
        mend_layout_init_zone(&heap->zones[i]);
    }
    mend_pointer_map_init(&heap->blocks);
    mend_retire_init(heap);
    mend_list_init(&heap->groups);
    mend_slab_init(&heap->span_slab, sizeof(mend_span));
    mend_slab_init(&heap->run_slab, sizeof(mend_run));
    mend_slab_init(&heap->wait_slab, sizeof(mend_wait));
    return MEND_OK;
}

void mend_heap_lock(mend_heap *heap)
{
    mend_mutex_lock(&heap->state);
}

void mend_heap_unlock(mend_heap *heap)
{
    mend_mutex_unlock(&heap->state);
}

void mend_heap_begin_making(mend_heap *heap)
{
    mend_mutex_lock(&heap->making);
    mend_mutex_lock(&heap->state);
}

void mend_heap_end_making(mend_heap *heap)
{
    mend_mutex_unlock(&heap->state);
    mend_mutex_unlock(&heap->making);
}

/* The calls that make memory usable may find that there is none; NOT_READY says so in disguise. */
static bool is_lack_of_memory(mend_driver_call call, mend_status status)
{
    return (call == MEND_CALL_create || call == MEND_CALL_map || call == MEND_CALL_set_access) &&
           (status == MEND_DRIVER_OUT_OF_MEMORY || status == MEND_DRIVER_NOT_READY);
}

mend_result mend_heap_driver_failed(mend_heap *heap, mend_driver_call call, mend_status status)
{
    mend_result result = MEND_ERROR_DRIVER;
    heap->counters.driver_failures++;
    if (mend_status_is_fatal(status)) {
        result = MEND_ERROR_DEVICE_LOST;
    } else if (is_lack_of_memory(call, status)) {
        result = MEND_ERROR_OUT_OF_MEMORY;
    }
    const char *name = mend_driver_call_name(call);
    return mend_fail_driver(result, name, status, heap->driver->status_name(heap->driver, status),
                            "%s failed", name);
}

void mend_heap_record_fence(mend_heap *heap, uint32_t stream)
{
    mend_thread_error error_before = *mend_process_error();
    if (mend_streams_close_named(&heap->streams, stream) != MEND_OK) {
        heap->counters.driver_failures++;
        *mend_process_error() = error_before;
    }
}

mend_result mend_heap_find_stream(mend_heap *heap, mend_stream stream, uint32_t group,
                                  uint32_t *index)
{
    if (mend_streams_handle_suffices(&heap->streams, stream) &&
        mend_streams_lookup(&heap->streams, stream, group, index)) {
        return MEND_OK;
    }
    mend_door door;
    mend_result result = mend_heap_open_door(heap, &door);
    if (result == MEND_OK) {
        result = mend_streams_find(&heap->streams, stream, group, index);
        if (result == MEND_OK && heap->streams.verify) {
            mend_heap_record_fence(heap, *index);
        }
        mend_heap_close_door(heap, &door);
    }
    if (result == MEND_OK && group != 0) {
        mend_group_watch_again(heap, group);
    }
    return result;
}

mend_result mend_heap_open_door(mend_heap *heap, mend_door *door)
{
    const mend_driver *driver = heap->driver;
    door->call = MEND_CALL_context_push;
    door->status = driver->context_push(driver, heap->device.context);
    if (door->status != MEND_DRIVER_OK) {
        return mend_heap_driver_failed(heap, MEND_CALL_context_push, door->status);
    }
    door->mode = MEND_CAPTURE_MODE_RELAXED;
    door->call = MEND_CALL_exchange_capture_mode;
    door->status = driver->exchange_capture_mode(driver, &door->mode);
    if (door->status != MEND_DRIVER_OK) {
        driver->context_pop(driver);
        return mend_heap_driver_failed(heap, MEND_CALL_exchange_capture_mode, door->status);
    }
    return MEND_OK;
}

void mend_heap_close_door(mend_heap *heap, mend_door *door)
{
    const mend_driver *driver = heap->driver;
    if (driver->exchange_capture_mode(driver, &door->mode) != MEND_DRIVER_OK) {
        heap->counters.driver_failures++;
    }
    if (driver->context_pop(driver) != MEND_DRIVER_OK) {
        heap->counters.driver_failures++;
    }
}
