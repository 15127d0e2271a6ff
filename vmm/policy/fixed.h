/*
 * Plans at a fixed address: which empty chunks to map into a gap of a range, and what to create for
 * the rest. No chunk crosses the border of a page, so that the decommit of a page sets free just
 * the chunks below it.
 */
#ifndef MEND_POLICY_FIXED_H
#define MEND_POLICY_FIXED_H

#include "layout/range.h"
#include "policy/plan.h"

/* Finds a plan for the gap, or for as much of its beginning as one plan can have. Uses nothing that
 * is mapped at any page of the request. False: as mend_plan_find. The caller ends it
 * with mend_plan_clear in every case. Called with memory missing, it asks no driver. */
bool mend_plan_find_fixed(mend_heap *heap, const mend_request *request, const mend_range *range,
                          mend_range_gap gap, mend_plan *plan);

#endif
