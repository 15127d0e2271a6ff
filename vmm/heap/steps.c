#include "heap/steps.h"

enum { NOT_READY_TRIES = 4 };

mend_status mend_step_map(mend_heap *heap, uint64_t address, const mend_chunk *chunk)
{
    const mend_driver *driver = heap->driver;
    mend_status status = MEND_DRIVER_NOT_READY;
    for (int tries = 0; tries < NOT_READY_TRIES && status == MEND_DRIVER_NOT_READY; tries++) {
        status = driver->map(driver, address, chunk->size_bytes, 0, chunk->handle);
    }
    return status;
}

mend_status mend_step_allow(mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    const mend_driver *driver = heap->driver;
    mend_status status = MEND_DRIVER_NOT_READY;
    for (int tries = 0; tries < NOT_READY_TRIES && status == MEND_DRIVER_NOT_READY; tries++) {
        status = driver->set_access(driver, address, size_bytes, &heap->config.device, 1);
    }
    return status;
}

void mend_step_uncreate(mend_heap *heap, mend_chunk *chunk)
{
    uint64_t size_bytes = chunk->size_bytes;
    if (mend_chunk_release(&heap->chunks, chunk) != MEND_DRIVER_OK) {
        heap->counters.driver_failures++;
    } else {
        heap->chunks.created--;
        heap->chunks.created_bytes -= size_bytes;
        heap->chunks.released--;
    }
}

void mend_step_note_peaks(mend_heap *heap)
{
    mend_heap_counters *counters = &heap->counters;
    counters->peak_reserved_bytes =
        mend_max_u64(counters->peak_reserved_bytes, heap->chunks.reserved_bytes);
    counters->peak_mappings =
        mend_max_u64(counters->peak_mappings, heap->chunks.mapped.count + heap->retired.count);
    counters->peak_chunks = mend_max_u64(counters->peak_chunks, heap->chunks.all.count);
    for (int i = 0; i < MEND_ZONE_COUNT; i++) {
        mend_zone_counters *zone = &counters->zone[i];
        zone->peak_reserved_bytes =
            mend_max_u64(zone->peak_reserved_bytes, zone->live_bytes + heap->zones[i].free_bytes);
    }
}
