/*
 * The rung of continued ends: what no other plan serves begins or ends in free memory of partly
 * used chunks (policy/ends.h).
 *
 * The caller holds both locks, a driver scope is open, and `state` is released in between.
 */
#ifndef MEND_LADDER_CONTINUE_H
#define MEND_LADDER_CONTINUE_H

#include "layout/state.h"

/* One try; memory of other streams only as far as the request allows. PLACED, NOTHING, FAILED; with
 * behind_wait also AGAIN. Calls the driver. */
mend_outcome mend_continue_ends(mend_heap *heap, const mend_request *request, mend_span **span);

#endif
