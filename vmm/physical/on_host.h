/*
 * Chunks on the host: their memory is the host's, and the device uses it over the link. Invariants,
 * checked by the audit:
 *  - one that is mapped is frozen, so its free memory is claimed, and what is freed in it becomes
 *    claimed: nothing but the blocks that live there uses memory of the host;
 *  - its blocks are in use as all others; it may be pinned, and is never exported;
 *  - it is in no sum of the device's memory (reserved_bytes), and never among the empty chunks;
 *  - without live bytes it is collected;
 *  - one that is not mapped is spare: the driver refused to take its memory back.
 *
 * Guarded by the heap's `state` lock; changed under both.
 */
#ifndef MEND_PHYSICAL_ON_HOST_H
#define MEND_PHYSICAL_ON_HOST_H

#include "physical/asleep.h"

/* Creates a spare chunk on the host. The caller reserved a node of the slab. Calls the driver; on
 * failure nothing changed. OUT_OF_MEMORY also where the driver creates none there. */
mend_status mend_chunk_create_on_host(mend_chunks *chunks, uint64_t size_bytes, mend_chunk **chunk);

/* Releases a spare chunk. Calls the driver; on failure nothing changed. */
mend_status mend_chunk_release_on_host(mend_chunks *chunks, mend_chunk *chunk);

/* A frozen chunk with an address, and one without, exchange their memory. If both are of the
 * device, and the first one has no live bytes, it may be the larger one: then its end is another.
 */
void mend_chunk_exchange(mend_chunks *chunks, mend_chunk *chunk, mend_chunk *other);

/* A part of a chunk on the host was taken; its live bytes are counted already. */
void mend_chunk_note_taken_on_host(mend_chunks *chunks, uint64_t size_bytes);

/* A part of a chunk on the host was freed; its live bytes are counted already. */
void mend_chunk_note_freed_on_host(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes);

/* The same of a chunk that sleeps or is on the host. */
static inline void mend_chunk_note_freed_aside(mend_chunks *chunks, mend_chunk *chunk,
                                               uint64_t size_bytes)
{
    if (chunk->on_host) {
        mend_chunk_note_freed_on_host(chunks, chunk, size_bytes);
    } else {
        mend_chunk_note_freed_asleep(chunks, chunk, size_bytes);
    }
}

/* The end of a mapped chunk on the host without live bytes, whose handle was released and which
 * left the layout: its mapping keeps the memory until it is unmapped. */
void mend_chunk_end_on_host(mend_chunks *chunks, mend_chunk *chunk);

#endif
