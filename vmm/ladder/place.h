/*
 * One try to place a request with the memory there is: in a mapped run, in empty chunks that are
 * moved, in chunks that are created. The ladder makes more memory free (ladder/ladder.h).
 *
 * The caller holds `state`. If the driver may be called, the caller holds both locks, a driver
 * scope is open, and `state` is released in between.
 */
#ifndef MEND_LADDER_PLACE_H
#define MEND_LADDER_PLACE_H

#include "layout/state.h"

/* Best fit among the free runs that the stream may use now. No driver call unless behind_wait.
 * PLACED, NOTHING, FAILED; with behind_wait also AGAIN. */
mend_outcome mend_place_mapped(mend_heap *heap, const mend_request *request, mend_span **span);

/* Tries all ways, the cheapest first; memory of other streams only as far as the request allows.
 * NOTHING: heap->shortage says what was missing. Calls the driver. */
mend_outcome mend_place(mend_heap *heap, const mend_request *request, mend_span **span);

/* Takes the first stretch of any run that holds the request, also beside memory that the stream may
 * not use: looks at every free span. No driver call. */
mend_outcome mend_place_in_stretch(mend_heap *heap, const mend_request *request, mend_span **span);

#endif
