/*
 * Carries out a plan: the one transaction in which chunks are created, moved and mapped. All steps
 * that can fail come first; after a failure everything is undone and the heap is unchanged.
 */
#ifndef MEND_MOVE_GROW_H
#define MEND_MOVE_GROW_H

#include "policy/plan.h"

/* Maps the plan's chunks behind its base or at a new address, and takes the block there; at a fixed
 * address it takes none, and *span is NULL. Calls the driver; a driver scope is open. PLACED,
 * FAILED, AGAIN; NOTHING: the driver lacks memory or addresses, as heap->shortage says. */
mend_outcome mend_grow(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                       mend_span **span);

#endif
