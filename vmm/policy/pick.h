/* Picking: which empty chunks a plan takes from where they are mapped. Changes nothing but the
 * plan. Needs memory of the host; the plan says when there was none. */
#ifndef MEND_POLICY_PICK_H
#define MEND_POLICY_PICK_H

#include "policy/plan.h"

/* Adds chunks for `need_bytes` that the request's stream may use and that lie outside the plan's
 * base: the largest not above the need first, then the smallest that covers the rest. Once for each
 * plan. Returns what is still missing. */
uint64_t mend_pick_chunks(mend_heap *heap, const mend_request *request, mend_plan *plan,
                          uint64_t need_bytes);

/* One chunk that holds the request and is not above `largest_bytes`; false when there is none. */
bool mend_pick_one(mend_heap *heap, const mend_request *request, mend_plan *plan,
                   uint64_t largest_bytes);

#endif
