/* Creation of a heap, and its end. */
#include "alloc/heap.h"

#include <stdlib.h>

/* A zone reserves addresses for twice the device's memory by one call (for mappings, growth and
 * retired mappings), but at most this much. Larger reservations save driver calls, but a process
 * may have only one terabyte of addresses (WSL). */
#define LARGEST_RESERVE_BYTES (2 * MEND_TIB)
enum { RESERVES_OF_DEVICE = 2 };

/* Addresses left free behind a segment at a new place, for it to grow. */
#define GROWTH_BYTES (4 * MEND_GIB)
enum { GROWTHS_OF_RESERVE = 8 };

/* The driver's clock: of the system, or of a simulated device. */
static uint64_t clock_ns(const void *driver)
{
    return ((const mend_driver *)driver)->clock_ns(driver);
}

mend_result mend_heap_init(mend_heap *heap, const mend_driver *driver,
                           const mend_device_info *device, const mend_heap_config *config)
{
    assert(mend_is_power_of_two(device->granularity_bytes));
    assert(device->granularity_bytes >= MEND_GRANULE_BYTES);
    *heap = (mend_heap){.device = *device, .config = *config};
    heap->driver = mend_unlocking_init(&heap->unlocking, driver, &heap->state, &heap->events);
    mend_strategy_apply(heap, config->strategy);
    MEND_TRY(mend_streams_init(&heap->streams, heap->driver, config->home, device->context,
                               config->detect_destroyed_streams, &heap->events));
    mend_mutex_init(&heap->grow, MEND_RANK_GROW);
    mend_mutex_init(&heap->state, MEND_RANK_POOL);
    const mend_chunk_properties properties = {.device = config->device,
                                              .share_types = config->share_types,
                                              .rdma = config->rdma && device->rdma};
    mend_chunks_init(&heap->chunks, heap->driver, &properties, &heap->events);
    mend_map_init(heap);
    heap->events =
        (mend_events){.clock_ns = clock_ns, .clock = heap->driver, .guard = &heap->state};
    uint64_t address_reservation_bytes = config->address_reservation_bytes;
    if (address_reservation_bytes == 0) {
        address_reservation_bytes =
            RESERVES_OF_DEVICE *
            mend_min_u64(device->total_bytes, LARGEST_RESERVE_BYTES / RESERVES_OF_DEVICE);
    }
    uint64_t growth_bytes =
        mend_min_u64(GROWTH_BYTES, address_reservation_bytes / GROWTHS_OF_RESERVE);
    mend_space_init(&heap->space, heap->driver, device->granularity_bytes,
                    address_reservation_bytes, growth_bytes);
    mend_space_init(&heap->range_space, heap->driver, device->granularity_bytes,
                    device->granularity_bytes, 0);
    mend_layout_init(heap);
    mend_list_init(&heap->graph_pools.list);
    MEND_FEATURES_CALL(init, heap);
    /* With detect_destroyed_streams, each free records a fence, so the cache could not keep any
     * block. */
    if (config->front_cache && !config->detect_destroyed_streams) {
        mend_cache_open(heap, mend_budget_is_pressed(heap));
    }
    return MEND_OK;
}

/* ---- destruction ----------------------------------------------------------------------------- */

/*
 * The end of a heap: it waits for the work of the context, gives everything back to the driver, and
 * frees the host memory, whatever the driver answers. If it cannot wait, the memory that work may
 * still use stays with the driver.
 */

/* A refused call is tried once more, because there is no later time to try. */
enum { TRIES = 2 };

void mend_ending_unmap(mend_heap *heap, mend_ending *ending, uint64_t address, uint64_t size_bytes)
{
    mend_status status = MEND_DRIVER_UNKNOWN;
    for (int tries = 0; tries < TRIES && status != MEND_DRIVER_OK; tries++) {
        status = heap->driver->unmap(heap->driver, address, size_bytes);
    }
    mend_answer_note(&ending->unmapped, MEND_ANSWER(unmap, status));
}

void mend_ending_release(mend_heap *heap, mend_ending *ending, mend_chunk_handle handle)
{
    mend_status status = MEND_DRIVER_UNKNOWN;
    for (int tries = 0; tries < TRIES && status != MEND_DRIVER_OK; tries++) {
        status = heap->driver->release(heap->driver, handle);
    }
    mend_answer_note(&ending->first, MEND_ANSWER(release, status));
}

/* Waits for all queued work. waited->status tells whether it succeeded. MEND_ERROR_CAPTURING if a
 * capture forbids the wait. If the driver does not say whether there is a capture, it does not
 * wait, because that might invalidate one. */
static mend_result wait_for_work(mend_heap *heap, mend_answer *waited)
{
    bool is_captured = false;
    mend_result asked = MEND_ERROR_DRIVER;
    for (int tries = 0; tries < TRIES && asked == MEND_ERROR_DRIVER; tries++) {
        asked = mend_streams_find_capture_at_end(&heap->streams, &is_captured);
    }
    if (asked == MEND_ERROR_DRIVER) {
        *waited = MEND_ANSWER(stream_get_info, mend_process_failure()->driver_status);
        return MEND_OK;
    }
    *waited = MEND_ANSWER(context_synchronize, MEND_DRIVER_UNKNOWN);
    for (int tries = 0; tries < TRIES && waited->status != MEND_DRIVER_OK && !is_captured;
         tries++) {
        uint64_t waits = 0;
        *waited = mend_foreign_synchronize(&heap->streams, &waits);
        is_captured = mend_status_is_of_capture(waited->status);
    }
    return is_captured
               ? mend_failure(MEND_ERROR_CAPTURING,
                              "a stream is being captured: the pool cannot be destroyed now")
               : MEND_OK;
}

/* Releases memory only if no work may still use it, or if the context is lost. Without a context,
 * host memory stays with the driver. */
static void give_back(mend_heap *heap, mend_ending *ending)
{
    assert(heap->zones[MEND_ZONE_SMALL].cache.count == 0);
    assert(heap->zones[MEND_ZONE_LARGE].cache.count == 0);
    MEND_FEATURES_CALL(give_back, heap, ending);
    if (ending->is_idle) {
        for (const mend_chunk *chunk = mend_chunk_from(&heap->chunks, 0); chunk != NULL;) {
            const uint64_t address = chunk->address;
            const uint64_t size_bytes = mend_access_stretch(&chunk, false);
            if (size_bytes > 0) {
                mend_ending_unmap(heap, ending, address, size_bytes);
            }
        }
        for (mend_retired *at = mend_retire_first(heap); at != NULL; at = mend_retire_next(at)) {
            mend_ending_unmap(heap, ending, at->address, at->size_bytes);
        }
        mend_answer_note(&ending->first, ending->unmapped);
        MEND_TREE_EACH(const mend_chunk, chunk, memory.by_number, &heap->chunks.all) {
            mend_ending_release(heap, ending, chunk->memory.handle);
        }
        MEND_TREE_EACH(const mend_span, span, by_end, &heap->zones[MEND_ZONE_PASSED].segment_ends) {
            mend_answer_note(
                &ending->first,
                MEND_ANSWER(plain_free, heap->driver->plain_free(heap->driver, span->address)));
        }
    }
    mend_answer_note(&ending->first, mend_streams_clear(&heap->streams));
    if (ending->is_idle && ending->unmapped.status == MEND_DRIVER_OK) {
        mend_answer_note(&ending->first, MEND_ANSWER(address_free, mend_space_clear(&heap->space)));
        mend_answer_note(&ending->first,
                         MEND_ANSWER(address_free, mend_space_clear(&heap->range_space)));
    } else {
        mend_space_abandon(&heap->space);
        mend_space_abandon(&heap->range_space);
    }
}

mend_result mend_heap_destroy(mend_heap *heap)
{
    assert(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    mend_ending ending = {.unmapped.status = MEND_DRIVER_OK, .first.status = MEND_DRIVER_OK};
    const mend_driver *driver = heap->driver;
    mend_driver_scope scope;
    mend_heap_lock_all(heap);
    for (int tries = 0; tries < TRIES && !ending.has_context; tries++) {
        ending.has_context = mend_driver_scope_open(heap, &scope) == MEND_OK;
    }
    mend_answer waited = scope.answer;
    const bool has_mappings = heap->chunks.all.count > 0 || heap->imports.mappings > 0 ||
                              heap->chunks.deferred.count[MEND_DEFERRED_MAPPING] > 0 ||
                              mend_heap_passed_bytes(heap) > 0;
    const mend_result result =
        ending.has_context && has_mappings ? wait_for_work(heap, &waited) : MEND_OK;
    if (result == MEND_OK) {
        mend_answer_note(&ending.first, waited);
        ending.is_idle = waited.status == MEND_DRIVER_OK || mend_status_is_fatal(waited.status);
        give_back(heap, &ending);
    }
    if (ending.has_context) {
        mend_driver_scope_close(heap, &scope);
    }
    mend_heap_unlock_all(heap);
    MEND_TRY(result); /* a capture: nothing changed */
    MEND_FEATURES_CALL(clear, heap);
    mend_chunks_clear(&heap->chunks);
    mend_layout_clear(heap);
    mend_retire_clear(heap);
    assert(heap->streams.items == NULL);
    mend_mutex_destroy(&heap->state);
    mend_mutex_destroy(&heap->grow);
    const mend_answer first = ending.first;
    if (first.status == MEND_DRIVER_OK || first.status == MEND_DRIVER_DEINITIALIZED) {
        return MEND_OK; /* a driver that has shut down holds nothing of the heap */
    }
    return mend_refused(driver, MEND_ERROR_DRIVER, first.call, first.status,
                        "the driver refused to release memory of the pool");
}
