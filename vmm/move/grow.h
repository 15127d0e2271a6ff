/*
 * Carrying out a plan: the one transaction in which chunks are created, moved and mapped. All that
 * can fail comes first; whatever fails is undone, and the heap is as it was.
 */
#ifndef MEND_MOVE_GROW_H
#define MEND_MOVE_GROW_H

#include "policy/plan.h"

/*
 * Maps the plan's chunks behind its base or at a fresh place, and takes the block of the request
 * there. Reaches the driver; the driver scope is open. MEND_ERROR_OUT_OF_MEMORY (the driver has no
 * memory, or no addresses), MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST.
 */
mend_result mend_grow(mend_heap *heap, const mend_request *request, mend_plan *plan,
                      mend_span **span);

#endif
