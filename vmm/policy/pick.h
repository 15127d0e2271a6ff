/* Picking: which empty chunks a plan takes. Changes only the plan. Allocates host memory; the plan
 * says if malloc failed. */
#ifndef MEND_POLICY_PICK_H
#define MEND_POLICY_PICK_H

#include "policy/plan.h"

/* Adds chunks for `need_bytes` that the request's stream may use and that are not in the plan's
 * base: the largest ones not above the need first, then the smallest one that covers the rest.
 * Called once for a plan. Returns the bytes still missing. */
uint64_t mend_pick_chunks(mend_heap *heap, const mend_request *request, mend_plan *plan,
                          uint64_t need_bytes);

/* Adds one chunk that holds the request and is not above `largest_bytes`; false if there is
 * none. */
bool mend_pick_one(mend_heap *heap, const mend_request *request, mend_plan *plan,
                   uint64_t largest_bytes);

/* Whether the plan may use an empty chunk: the request's stream may, and it is not in the base. And
 * adds one; plan->lacks_host_memory says if malloc failed. */
bool mend_pick_may(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                   mend_chunk *chunk);
void mend_pick_add(mend_plan *plan, mend_chunk *chunk);

#endif
