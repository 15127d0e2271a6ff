/*
 * Sleeping chunks. A sleeping chunk keeps its address, its place in the layout and its live blocks;
 * its memory goes back to the driver. Invariants, checked by the audit:
 *  - it is frozen, so its free memory is claimed, and what is freed in it becomes claimed;
 *  - it has `kept`, the description of its contents, and lacks something (`missing`). Between calls
 *    that is its memory, or as much as a refusal of the driver has left: whatever it has is a part
 *    of reserved_bytes, and the next wake goes on from there;
 *  - each of its blocks of which not all bytes here are kept says so (contents_dropped);
 *  - no pin, export or alias holds it, and no retired mapping maps its memory;
 *  - without live bytes it is collected: its record, its addresses and its contents go, unless its
 *    free memory is kept for captured graphs, which know the address.
 *
 * Guarded by the heap's `state` lock; changed under both.
 */
#ifndef MEND_PHYSICAL_ASLEEP_H
#define MEND_PHYSICAL_ASLEEP_H

#include "physical/chunk.h"

/* A frozen chunk, which is not mapped any more, sleeps from now on; it still has its memory. */
void mend_chunk_fall_asleep(mend_chunks *chunks, mend_chunk *chunk, struct mend_kept *kept);

/* Gives the memory of a sleeping, unmapped chunk back, and takes new memory for it. Call the
 * driver; on failure nothing changed. */
mend_status mend_chunk_give_memory(mend_chunks *chunks, mend_chunk *chunk);
mend_status mend_chunk_take_memory(mend_chunks *chunks, mend_chunk *chunk);

/* The memory of a sleeping, unmapped chunk becomes an empty chunk, mapped nowhere; that of such a
 * chunk, of the same size, becomes the sleeping one's. No driver call; the caller reserved a node
 * of the slab for the first. */
void mend_chunk_leave_memory(mend_chunks *chunks, mend_chunk *chunk);
void mend_chunk_take_over(mend_chunks *chunks, mend_chunk *chunk, mend_chunk *empty);

/* A sleeping chunk that has all it had before is an ordinary frozen chunk again. */
void mend_chunk_wake_up(mend_chunks *chunks, mend_chunk *chunk);

/* The end of a sleeping chunk without memory and live blocks, which left the layout. */
void mend_chunk_end_asleep(mend_chunks *chunks, mend_chunk *chunk);

/* A part of a sleeping chunk was freed; its live bytes are counted already. */
void mend_chunk_note_freed_asleep(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes);

#endif
