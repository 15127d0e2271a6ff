/*
 * Retired mappings: a moved chunk's former address, still mapped because work in flight may use it.
 * It is unmapped, in batches of neighbours, when that work has passed its fences; only then can its
 * addresses be used again. Chunks given back to the driver go the same way.
 */
#ifndef MEND_MOVE_RETIRE_H
#define MEND_MOVE_RETIRE_H

#include "layout/state.h"

void mend_retire_init(mend_heap *heap);

/* Nodes for `count` calls of mend_retire_mapping. False when malloc fails. */
bool mend_retire_reserve(mend_heap *heap, size_t count);

/* Puts a mapping of a chunk aside; takes over the nodes of *waits. */
void mend_retire_mapping(mend_heap *heap, const mend_chunk *chunk, uint64_t address,
                         mend_waits *waits);

/*
 * Unmaps what has passed its fences. Polls first, and records events for what has none, so that a
 * later call finds them. What the driver refuses stays retired, and is counted as a failure.
 * Nothing is unmapped while a stream is known to be captured (`asking` is the one for which this is
 * done, or MEND_STREAM_UNKNOWN). Reaches the driver.
 */
void mend_retire_flush(mend_heap *heap, uint32_t asking);

/* A retired mapping that still holds the chunk's memory; NULL when there is none. */
mend_retired *mend_retire_holds(const mend_heap *heap, mend_chunk_handle handle);

#endif
