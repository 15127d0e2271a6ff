/*
 * Retired mappings: the old address of a moved chunk, still mapped because work in flight may use
 * it. It is unmapped, in batches of neighbours, when that work has passed its fences; only then can
 * its addresses be used again. Chunks that go back to the driver retire too, and so do mappings of
 * other processes' chunks.
 */
#ifndef MEND_MOVE_RETIRE_H
#define MEND_MOVE_RETIRE_H

#include "layout/state.h"

void mend_retire_init(mend_heap *heap);

/* Reserves nodes for `count` calls of mend_retire_mapping. False if malloc fails. */
bool mend_retire_reserve(mend_heap *heap, size_t count);

/* Retires a mapping of a chunk, which is still in the zone that the mapping was in; takes over the
 * nodes of *waits. */
void mend_retire_mapping(mend_heap *heap, const mend_chunk *chunk, uint64_t address,
                         mend_waits *waits);

/* A scratch mapping of a chunk, which could not be unmapped, retires. But memory of the device that
 * copies may still write to is free memory there, which nobody gets before they have ended: what
 * was claimed of the chunk retires instead. The caller reserved nodes for both. */
void mend_retire_scratch(mend_heap *heap, mend_chunk *chunk, int zone, uint64_t address);

/* The same for a mapping of another process's chunk, which is idle after `stamp`. */
void mend_retire_foreign(mend_heap *heap, uint64_t address, uint64_t size_bytes, mend_stamp stamp);

/* The same for the present mapping of a chunk on the host that ends, whose handle was released: the
 * mapping keeps the memory. Takes over the nodes of *waits. */
void mend_retire_released(mend_heap *heap, const mend_chunk *chunk, mend_waits *waits);

/*
 * Unmaps retired mappings whose fences have passed. Polls first, and records events for those
 * without a fence, so that a later call can unmap them. What the driver refuses stays retired, and
 * counts as a driver failure. Unmaps nothing while the pool knows of a capture (`asking` is the
 * stream of the current call, or MEND_STREAM_UNKNOWN), or while copies of a failed transaction may
 * run. Calls the driver.
 */
void mend_retire_flush(mend_heap *heap, uint32_t asking);

/* A retired mapping that still maps the chunk; NULL: none. */
mend_retired *mend_retire_holds(const mend_heap *heap, mend_chunk_handle handle);

/* The retired mapping that contains the address; NULL: none. */
mend_retired *mend_retire_at(const mend_heap *heap, uint64_t address);

/* The chunk goes back to an old mapping of it, which is still there, and its present mapping
 * retires. The chunk is empty. The caller reserved nodes of the layout for a chunk. No driver
 * call. */
void mend_retire_swap(mend_heap *heap, mend_retired *retired, mend_chunk *chunk);

#endif
