/* Creation of a heap. */
#include "heap/heap.h"

#include <assert.h>

#include "base/error.h"
#include "driver/forward.h"
#include "layout/layout.h"
#include "move/move.h"
#include "move/ranges.h"
#include "policy/policy.h"
#include "sleep/sleep.h"
#include "users/users.h"

/* A zone reserves addresses for twice the device's memory by one call (for what can be mapped,
 * growth and retired mappings), but at most this much. Larger reservations save driver calls, but a
 * process may have only one terabyte of addresses (WSL). */
#define LARGEST_RESERVE_BYTES (2 * MEND_TIB)
enum { RESERVES_OF_DEVICE = 2 };

/* Addresses left free behind a segment at a new place, for it to grow. */
#define GROWTH_BYTES (4 * MEND_GIB)
enum { GROWTHS_OF_RESERVE = 8 };

/* The driver's clock: that of the system, or that of a simulated device. */
static uint64_t clock_ns(const void *driver)
{
    return ((const mend_driver *)driver)->clock_ns(driver);
}

/* Without virtual memory a reservation has its memory from the start: then parts of the limit. */
enum { RESERVES_OF_LIMIT = 32 };

static uint64_t reserve_bytes_of(const mend_heap *heap)
{
    if (!heap->device.virtual_memory) {
        uint64_t part = heap->config.limit_bytes / RESERVES_OF_LIMIT;
        return mend_align_up(part, MEND_PLAIN_STEP_BYTES);
    }
    if (heap->config.reserve_bytes != 0) {
        return heap->config.reserve_bytes;
    }
    return RESERVES_OF_DEVICE *
           mend_min_u64(heap->device.total_bytes, LARGEST_RESERVE_BYTES / RESERVES_OF_DEVICE);
}

mend_result mend_heap_init(mend_heap *heap, const mend_driver *driver,
                           const mend_device_info *device, const mend_heap_config *config)
{
    assert(mend_is_power_of_two(device->granularity_bytes));
    assert(device->granularity_bytes >= MEND_GRANULE_BYTES);
    assert(config->limit_bytes <= config->default_limit_bytes ||
           config->limit_bytes <= device->total_bytes);
    *heap = (mend_heap){.device = *device, .config = *config};
    mend_unlocking_init(&heap->unlocking, driver, &heap->state);
    heap->driver = &heap->unlocking.pass.table;
    mend_tightness_apply(heap, config->tightness);
    MEND_TRY(mend_streams_init(&heap->streams, heap->driver, device->context));
    heap->streams.verify = config->streams_may_vanish;
    heap->caching.closings = 1;
    mend_mutex_init(&heap->grow, MEND_RANK_GROW);
    mend_mutex_init(&heap->state, MEND_RANK_POOL);
    const mend_chunk_properties properties = {.device = config->device,
                                              .share_types = config->share_types,
                                              .rdma = config->rdma && device->rdma};
    mend_chunks_init(&heap->chunks, heap->driver, &properties);
    mend_access_init(heap);
    mend_history_init(&heap->history, clock_ns, heap->driver);
    heap->unlocking.history = &heap->history;
    heap->chunks.history = &heap->history;
    heap->streams.history = &heap->history;
    uint64_t reserve_bytes = reserve_bytes_of(heap);
    uint64_t growth_bytes = mend_min_u64(GROWTH_BYTES, reserve_bytes / GROWTHS_OF_RESERVE);
    assert(reserve_bytes > 0);
    mend_space_init(&heap->space, heap->driver, device->granularity_bytes, reserve_bytes,
                    growth_bytes);
    mend_ranges_init(heap);
    heap->space.is_scarce = !device->virtual_memory;
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        mend_layout_init_zone(&heap->zones[i]);
    }
    mend_pointer_map_init(&heap->blocks);
    mend_pins_init(heap);
    mend_exports_init(heap);
    mend_copies_init(heap);
    mend_imports_init(heap);
    mend_list_init(&heap->groups.list);
    mend_slab_init(&heap->nodes.spans, sizeof(mend_span));
    mend_slab_init(&heap->nodes.runs, sizeof(mend_run));
    mend_slab_init(&heap->nodes.waits, sizeof(mend_wait));
    mend_slab_init(&heap->retire.nodes, sizeof(mend_retired));
    /* If streams may vanish, each free records a fence, so the cache could not keep any block. */
    if (config->front_cache && !config->streams_may_vanish) {
        mend_cache_open(heap, mend_budget_spares_empty(heap));
    }
    return MEND_OK;
}
