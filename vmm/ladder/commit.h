/*
 * One try to commit pages of ranges, with the memory there is: where it is still mapped, from
 * empty chunks that are moved, by creation. The ladder makes more memory free (ladder/ladder.h).
 *
 * The request has pages. What a try maps and cannot commit stays free memory, which a later try
 * finds; no page is committed before all are.
 */
#ifndef MEND_LADDER_COMMIT_H
#define MEND_LADDER_COMMIT_H

#include "layout/state.h"

/* Commits the pages if all of them are mapped, and the stream may use their memory. No driver call
 * unless behind_wait. The caller holds `state`. PLACED, NOTHING, FAILED; with behind_wait also
 * AGAIN. */
mend_outcome mend_commit_mapped(mend_heap *heap, const mend_request *request);

/* Maps what is missing, then the same. NOTHING: heap->shortage says what was missing. Calls the
 * driver: the caller holds both locks, and a driver scope is open. */
mend_outcome mend_commit(mend_heap *heap, const mend_request *request);

#endif
