/* The heap as a whole: its beginning, and its locks. */
#include "heap/heap.h"

#include "layout/cache.h"
#include "layout/layout.h"
#include "move/access.h"
#include "move/retire.h"
#include "policy/budget.h"

/* Addresses that a zone reserves at a time, in multiples of the device's memory: what can be
 * mapped, and as much again for its growth and for mappings that retire. More costs a call of the
 * driver; too many are missing elsewhere, for a process may have no more than a terabyte (WSL). */
#define LARGEST_RESERVE_BYTES (2 * MEND_TIB)
enum { RESERVES_OF_DEVICE = 2 };

/* Room left behind a segment at a fresh place, in which it can grow. */
#define GROWTH_BYTES (4 * MEND_GIB)
enum { GROWTHS_OF_RESERVE = 8 };

static uint64_t reserve_bytes_of(const mend_heap *heap)
{
    if (heap->config.reserve_bytes != 0) {
        return heap->config.reserve_bytes;
    }
    return RESERVES_OF_DEVICE *
           mend_min_u64(heap->device.total_bytes, LARGEST_RESERVE_BYTES / RESERVES_OF_DEVICE);
}

mend_result mend_heap_init(mend_heap *heap, const mend_driver *driver,
                           const mend_device_info *device, const mend_heap_config *config)
{
    *heap = (mend_heap){.device = *device, .config = *config};
    mend_unlocking_init(&heap->unlocking, driver, &heap->state);
    heap->driver = &heap->unlocking.table;
    mend_result result = mend_streams_init(&heap->streams, heap->driver, device->context);
    if (result != MEND_OK) {
        return result;
    }
    heap->streams.verify = config->streams_may_vanish;
    heap->caching.closings = 1;
    mend_mutex_init(&heap->grow, MEND_RANK_GROW);
    mend_mutex_init(&heap->state, MEND_RANK_POOL);
    mend_chunks_init(&heap->chunks, heap->driver, config->device, config->rdma && device->rdma);
    mend_access_init(heap);
    uint64_t reserve_bytes = reserve_bytes_of(heap);
    uint64_t growth_bytes = mend_min_u64(GROWTH_BYTES, reserve_bytes / GROWTHS_OF_RESERVE);
    mend_space_init(&heap->space, heap->driver, device->granularity_bytes, reserve_bytes,
                    growth_bytes);
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        mend_layout_init_zone(&heap->zones[i]);
    }
    mend_pointer_map_init(&heap->blocks);
    mend_retire_init(heap);
    mend_list_init(&heap->groups.list);
    mend_slab_init(&heap->nodes.spans, sizeof(mend_span));
    mend_slab_init(&heap->nodes.runs, sizeof(mend_run));
    mend_slab_init(&heap->nodes.waits, sizeof(mend_wait));
    /* Where streams vanish a fence is recorded at each free: no block could be kept. */
    if (config->front_cache && !config->streams_may_vanish) {
        mend_cache_open(heap, mend_budget_pressure(heap) != MEND_PRESSURE_LOW);
    }
    return MEND_OK;
}
