/*
 * Placing a request: first in free memory that is mapped already (the fast way), then by the ladder
 * of ever dearer ways to make room.
 */
#ifndef MEND_LADDER_LADDER_H
#define MEND_LADDER_LADDER_H

#include "layout/state.h"

/* Best fit among the free runs the stream may use now. No driver call unless behind_wait. NULL with
 * MEND_OK when nothing fits. */
mend_result mend_place_in_run(mend_heap *heap, const mend_request *request, mend_span **span);

/* Old mappings are unmapped, fences recorded and polled, as every search does that makes room. */
mend_result mend_place_refresh(mend_heap *heap, const mend_request *request);

/* The request's stream may be made to wait for others, on the device. Reaches the driver. */
mend_result mend_place_may_wait_behind(mend_heap *heap, const mend_request *request,
                                       bool *may_wait);

/* The ladder. Both locks are held, the driver scope is open; reaches the driver, and lets go of
 * `state` in between. MEND_ERROR_OUT_OF_MEMORY, after all effort with a report: heap->shortage says
 * what stood in the way, until `state` is let go of. */
mend_result mend_place_with_effort(mend_heap *heap, const mend_request *request, mend_effort effort,
                                   mend_span **span);

#endif
