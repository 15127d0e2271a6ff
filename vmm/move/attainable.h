/*
 * How much of the limit the device can give. A limit may be the complete device, which no pool can
 * get: contexts, other pools and other programs hold a part, and that part changes.
 *
 * While the driver refuses nothing, Mend does not ask. When it refuses a creation, Mend asks how
 * much is free: the reserved plus the free memory is the *attainable* limit. Room, pressure and
 * plans use it from then on, so that Mend does not create chunks for a hopeless plan and release
 * them again. It asks again before a request fails for lack of memory, after a number of allocated
 * bytes, and after a trim, because others may have freed memory.
 *
 * Written under both locks of the heap, read under `state`.
 */
#ifndef MEND_MOVE_ATTAINABLE_H
#define MEND_MOVE_ATTAINABLE_H

#include "policy/budget.h"

/* Forgets what the device can give; the limit applies. */
void mend_attainable_forget(mend_heap *heap);

/* Called after the driver refused a creation: asks it for its free memory, once in a search, and
 * once more each time that the answer is forgotten. A driver scope is open. */
void mend_attainable_note_refusal(mend_heap *heap);

/* Asks the driver for its free memory, as after a refusal. A driver scope is open. */
void mend_attainable_learn(mend_heap *heap);

/* Called when a search begins: asks again if the last answer is old. A driver scope is open. */
void mend_attainable_begin_search(mend_heap *heap);

/* Called if there is no room, perhaps because of the device: asks again, once in a search. True if
 * there is more memory now. A driver scope is open. */
bool mend_attainable_has_grown(mend_heap *heap);

/* Asks the driver for its free memory, and notes it in heap->shortage. A driver scope is open. */
void mend_attainable_look(mend_heap *heap);

#endif
