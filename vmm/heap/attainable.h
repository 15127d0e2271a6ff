/*
 * What of the limit the device can give. A limit may be all of the device, and nobody attains that:
 * contexts, other pools, other programs hold a part of it, and what they hold changes.
 *
 * Nothing is asked as long as the driver refuses nothing. When it refuses a creation it is asked
 * how much is free: what is reserved and what is free are together the *attainable* limit, by which
 * room, scarcity and plans go from then on, so that nothing hopeless is created and given back
 * chunk by chunk. It is asked again before a request goes without memory for want of it, after so
 * many bytes were allocated, and after a trim: others may have given back what they held.
 *
 * Guarded by the heap's `making` lock; whoever holds `state` may read.
 */
#ifndef MEND_HEAP_ATTAINABLE_H
#define MEND_HEAP_ATTAINABLE_H

#include "heap/state.h"

/* The limit, or less where the device has less. */
static inline uint64_t mend_attainable_limit(const mend_heap *heap)
{
    uint64_t limit = heap->config.limit_bytes;
    return heap->attainable.is_known ? mend_min_u64(limit, heap->attainable.bytes) : limit;
}

/* Nothing is known of the device that is below the limit. */
void mend_attainable_forget(mend_heap *heap);

/* The driver had no memory for a creation: asks it once in a search for what there is. The door is
 * open. */
void mend_attainable_note_refusal(mend_heap *heap);

/* Asks the driver what there is, as if it had refused something. The door is open. */
void mend_attainable_learn(mend_heap *heap);

/* The device lacks so much for a plan: of several plans in a search the one that needs least
 * counts.
 */
void mend_attainable_lacks(mend_heap *heap, uint64_t create_bytes);

/* A plan wants to create so many bytes and has no room for them: noted as refused by the device
 * where the limit would allow them. */
void mend_attainable_note_shortage(mend_heap *heap, uint64_t create_bytes);

/* A search begins: what was known for long is asked again. The door is open. */
void mend_attainable_begin_search(mend_heap *heap);

/* There is no room, perhaps for what the device could not give: asks it again, once in a search.
 * True when there is more now. The door is open. */
bool mend_attainable_has_grown(mend_heap *heap);

/* Asks the driver how much memory the device has left, for heap->shortage as well. The door is
 * open. */
void mend_attainable_look(mend_heap *heap);

#endif
