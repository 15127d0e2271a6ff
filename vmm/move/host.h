/*
 * Blocks on the host: a block that finds no memory of the device gets a chunk of its own there
 * (physical/on_host.h), if the program has allowed it; and the end of such chunks.
 *
 * The caller holds both locks; slow driver calls release `state`.
 */
#ifndef MEND_MOVE_HOST_H
#define MEND_MOVE_HOST_H

#include "layout/layout.h"

/* Size of a chunk on the host that holds so many bytes; 0: the pool makes none there. */
uint64_t mend_host_chunk_bytes(const mend_heap *heap, uint64_t size_bytes);

/* Whether the pool's limit for memory of the host has room for a chunk of this size. */
bool mend_host_has_room(const mend_heap *heap, uint64_t chunk_bytes);

/* Places a request in a new chunk on the host, in a driver scope of its own. The caller reserved an
 * entry of the pointer map.
 * PLACED; NOTHING: there is no room; FAILED. */
mend_outcome mend_host_place(mend_heap *heap, const mend_request *request, mend_span **span);

/* In an open driver scope: ends chunks that have lost their last block: their mappings retire, and
 * when the work and the captured graphs that may use them have ended, the host gets its memory
 * back. What the driver refuses stays. */
void mend_host_collect(mend_heap *heap);

/* The same if there is such a chunk. */
static inline void mend_host_collect_left(mend_heap *heap)
{
    if (heap->chunks.left_on_host > 0) {
        mend_host_collect(heap);
    }
}

#endif
