/*
 * What of the limit the device can give. A limit may be all of the device, and nobody attains that:
 * contexts, other pools, other programs hold a part of it, and what they hold changes.
 *
 * Nothing is asked as long as the driver refuses nothing. When it refuses a creation it is asked
 * how much is free: what is reserved and what is free are together the *attainable* limit, by which
 * room, pressure and plans go from then on, so that nothing hopeless is created and given back
 * chunk by chunk. It is asked again before a request goes without memory for want of it, after so
 * many bytes were allocated, and after a trim: others may have given back what they held.
 *
 * Guarded by both locks of the heap; `state` is enough to read.
 */
#ifndef MEND_MOVE_ATTAINABLE_H
#define MEND_MOVE_ATTAINABLE_H

#include "policy/budget.h"

/* Nothing is known of the device that is below the limit. */
void mend_attainable_forget(mend_heap *heap);

/* The driver had no memory for a creation: asks it once in a search for what there is. The driver
 * scope is open. */
void mend_attainable_note_refusal(mend_heap *heap);

/* Asks the driver what there is, as if it had refused something. The driver scope is open. */
void mend_attainable_learn(mend_heap *heap);

/* A search begins: what was known for long is asked again. The driver scope is open. */
void mend_attainable_begin_search(mend_heap *heap);

/* There is no room, perhaps for what the device could not give: asks it again, once in a search.
 * True when there is more now. The driver scope is open. */
bool mend_attainable_has_grown(mend_heap *heap);

/* Asks the driver how much memory the device has left, for heap->shortage as well. The driver scope
 * is open. */
void mend_attainable_look(mend_heap *heap);

#endif
