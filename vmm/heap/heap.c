/* The heap as a whole: its beginning, its end, and its way through the door. */
#include "heap/heap.h"

#include "base/error.h"
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
    *heap = (mend_heap){.driver = driver, .device = *device, .config = *config};
    mend_yielding_init(&heap->yielding_driver, driver, &heap->state);
    heap->yielding = &heap->yielding_driver.table;
    mend_result result = mend_streams_init(&heap->streams, heap->yielding, device->context);
    if (result != MEND_OK) {
        return result;
    }
    heap->streams.verify = config->streams_may_vanish;
    mend_mutex_init(&heap->making, MEND_RANK_MAKING);
    mend_mutex_init(&heap->state, MEND_RANK_POOL);
    mend_chunks_init(&heap->chunks, heap->yielding, config->device);
    uint64_t reserve_bytes = reserve_bytes_of(heap);
    uint64_t growth_bytes = mend_min_u64(GROWTH_BYTES, reserve_bytes / GROWTHS_OF_RESERVE);
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        mend_space_init(&heap->zones[i].space, heap->yielding, device->granularity_bytes,
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

static void keep_first(mend_status *first, mend_status status)
{
    *first = *first != MEND_DRIVER_OK ? *first : status;
}

static mend_status unmap_everything(mend_heap *heap)
{
    mend_status first = MEND_DRIVER_OK;
    const mend_driver *driver = heap->driver;
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.mapped); at != NULL;) {
        mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        uint64_t address = chunk->address;
        uint64_t size_bytes = 0;
        while (chunk != NULL && chunk->address == address + size_bytes) {
            size_bytes += chunk->size_bytes;
            at = mend_tree_next(at);
            chunk = at != NULL ? MEND_CONTAINER_OF(at, mend_chunk, by_address) : NULL;
        }
        keep_first(&first, driver->unmap(driver, address, size_bytes));
    }
    for (mend_tree_node *at = mend_tree_first(&heap->retired); at != NULL;
         at = mend_tree_next(at)) {
        mend_retired *retired = MEND_CONTAINER_OF(at, mend_retired, by_address);
        keep_first(&first, driver->unmap(driver, retired->address, retired->size_bytes));
    }
    return first;
}

static mend_status release_everything(mend_heap *heap)
{
    mend_status first = MEND_DRIVER_OK;
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.all); at != NULL;
         at = mend_tree_next(at)) {
        mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_number);
        keep_first(&first, heap->driver->release(heap->driver, chunk->handle));
    }
    return first;
}

/* Everything queued so far is done, unless the driver fails; MEND_ERROR_CAPTURING when it must not
 * be waited for. */
static mend_result wait_for_work(mend_heap *heap, mend_status *status)
{
    bool is_captured = false;
    mend_streams_find_capture_at_end(&heap->streams, &is_captured);
    if (!is_captured) {
        *status = heap->driver->context_synchronize(heap->driver);
        is_captured = *status == MEND_DRIVER_CAPTURE_UNSUPPORTED ||
                      *status == MEND_DRIVER_CAPTURE_INVALIDATED;
    }
    return is_captured ? mend_fail(MEND_ERROR_CAPTURING,
                                   "a stream is being captured: the pool cannot be destroyed now")
                       : MEND_OK;
}

static mend_status give_back_everything(mend_heap *heap)
{
    mend_status first = unmap_everything(heap);
    keep_first(&first, release_everything(heap));
    keep_first(&first, mend_streams_clear(&heap->streams));
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        keep_first(&first, mend_space_clear(&heap->zones[i].space));
    }
    return first;
}

static void free_host_memory(mend_heap *heap)
{
    mend_chunks_clear(&heap->chunks);
    mend_pointer_map_clear(&heap->blocks);
    mend_slab_clear(&heap->span_slab);
    mend_slab_clear(&heap->run_slab);
    mend_slab_clear(&heap->wait_slab);
    mend_slab_clear(&heap->retired_slab);
    mend_mutex_destroy(&heap->state);
    mend_mutex_destroy(&heap->making);
}

mend_result mend_heap_destroy(mend_heap *heap)
{
    mend_door door;
    mend_status first = MEND_DRIVER_OK;
    mend_heap_begin_making(heap);
    bool is_open = mend_heap_open_door(heap, &door) == MEND_OK;
    keep_first(&first, is_open ? MEND_DRIVER_OK : door.status);
    mend_status waited = MEND_DRIVER_OK;
    if (heap->chunks.all.count > 0 && wait_for_work(heap, &waited) != MEND_OK) {
        if (is_open) {
            mend_heap_close_door(heap, &door);
        }
        mend_heap_end_making(heap);
        return MEND_ERROR_CAPTURING;
    }
    keep_first(&first, waited);
    keep_first(&first, give_back_everything(heap));
    if (is_open) {
        mend_heap_close_door(heap, &door);
    }
    mend_heap_end_making(heap);
    free_host_memory(heap);
    if (first == MEND_DRIVER_OK || first == MEND_DRIVER_DEINITIALIZED) {
        return MEND_OK; /* a driver that has shut down holds nothing of ours */
    }
    return mend_fail_driver(MEND_ERROR_DRIVER, "", first,
                            heap->driver->status_name(heap->driver, first),
                            "the driver refused to take back what the pool held");
}

/* The calls that make memory usable may find that there is none; NOT_READY says so in disguise. */
static bool is_lack_of_memory(mend_driver_call call, mend_status status)
{
    return (call == MEND_CALL_create || call == MEND_CALL_map || call == MEND_CALL_set_access) &&
           (status == MEND_DRIVER_OUT_OF_MEMORY || status == MEND_DRIVER_NOT_READY);
}

mend_status mend_heap_broken_by(const mend_heap *heap)
{
    return heap->broken != MEND_DRIVER_OK ? heap->broken : heap->streams.broken;
}

mend_result mend_heap_driver_failed(mend_heap *heap, mend_driver_call call, mend_status status)
{
    mend_result result = MEND_ERROR_DRIVER;
    heap->counters.driver_failures++;
    if (mend_status_is_fatal(status)) {
        heap->broken = status;
        result = MEND_ERROR_DEVICE_LOST;
    } else if (is_lack_of_memory(call, status)) {
        result = MEND_ERROR_OUT_OF_MEMORY;
    }
    const char *name = mend_driver_call_name(call);
    return mend_fail_driver(result, name, status, heap->driver->status_name(heap->driver, status),
                            "%s failed", name);
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
        mend_heap_close_door(heap, &door);
    }
    return result;
}

mend_result mend_heap_open_door(mend_heap *heap, mend_door *door)
{
    const mend_driver *driver = heap->driver;
    door->status = driver->context_push(driver, heap->device.context);
    if (door->status != MEND_DRIVER_OK) {
        return mend_heap_driver_failed(heap, MEND_CALL_context_push, door->status);
    }
    door->mode = MEND_CAPTURE_MODE_RELAXED;
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
