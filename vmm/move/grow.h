/*
 * Carrying out a plan: the one transaction in which chunks are created, moved and mapped. All that
 * can fail comes first; whatever fails is undone, and the heap is as it was.
 */
#ifndef MEND_MOVE_GROW_H
#define MEND_MOVE_GROW_H

#include "policy/plan.h"

/* Maps the plan's chunks behind its base or at a new address, and takes the block of the request
 * there. Reaches the driver; a driver scope is open. PLACED, FAILED, AGAIN; NOTHING: the driver has
 * no memory, or no addresses, as heap->shortage says. */
mend_outcome mend_grow(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                       mend_span **span);

#endif
