/*
 * One try to place a request, with the memory there is: in a mapped run, in empty chunks that are
 * moved, in chunks that are created. What makes more of it free is the ladder's (ladder/ladder.h).
 *
 * `state` is held; where the driver may be reached, both locks, and a driver scope is open. Then
 * `state` is let go of in between.
 */
#ifndef MEND_LADDER_PLACE_H
#define MEND_LADDER_PLACE_H

#include "layout/state.h"

/* Best fit among the free runs the stream may use now. No driver call unless behind_wait. PLACED,
 * NOTHING, FAILED; behind_wait: AGAIN. */
mend_outcome mend_place_mapped(mend_heap *heap, const mend_request *request, mend_span **span);

/* All ways that need no memory of other streams beyond what the request allows, cheapest first.
 * NOTHING: heap->shortage says what was lacking. Reaches the driver. */
mend_outcome mend_place(mend_heap *heap, const mend_request *request, mend_span **span);

/* The first stretch of any run that holds the request, also beside what the stream may not use:
 * looks at every free span. No driver call. */
mend_outcome mend_place_in_stretch(mend_heap *heap, const mend_request *request, mend_span **span);

#endif
