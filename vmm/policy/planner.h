/*
 * Planning: from a request and the heap to a plan. Nothing of the heap is changed, but that free
 * spans which are idle are joined on the way (mend_layout_is_ready); no driver is called.
 */
#ifndef MEND_POLICY_PLANNER_H
#define MEND_POLICY_PLANNER_H

#include "policy/plan.h"

/* What a plan may do. */
typedef struct mend_plan_rules {
    bool may_extend; /* use a base */
    bool may_create; /* create what is missing */
    bool may_move;   /* use empty chunks from anywhere */
    bool exact;      /* create no more than what is missing */
} mend_plan_rules;

/* Finds a plan for the request in its zone; false when there is none by these rules, or malloc
 * fails. Then *plan is the one that lacks least. mend_plan_clear ends it, whatever was found. */
bool mend_plan_find(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                    mend_plan *plan);

/* The same for a small request: one empty chunk that holds it and is not above `largest_bytes`. */
bool mend_plan_find_small(mend_heap *heap, const mend_request *request, uint64_t largest_bytes,
                          mend_plan *plan);

/* The same: a new chunk alone, as the limit allows. */
bool mend_plan_create_only(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                           mend_plan *plan);

#endif
