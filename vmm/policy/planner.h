/*
 * Planning: from a request and the heap to a plan. Changes nothing in the heap, except that idle
 * free spans are joined (mend_layout_is_ready). Does not call the driver.
 */
#ifndef MEND_POLICY_PLANNER_H
#define MEND_POLICY_PLANNER_H

#include "policy/plan.h"

/* What a plan is allowed to do. */
typedef struct mend_plan_rules {
    bool may_extend; /* extend a run */
    bool may_create; /* create missing memory */
    bool may_move;   /* use empty chunks, wherever they are mapped */
    bool exact;      /* create no more than is missing */
} mend_plan_rules;

/* Finds a plan for the request in its zone. False if these rules allow none, or if malloc fails:
 * then *plan is the one that lacks least. The caller ends it with mend_plan_clear in every case. */
bool mend_plan_find(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                    mend_plan *plan);

/* The same for a small request: one empty chunk that holds it and is not above `largest_bytes`. */
bool mend_plan_find_small(mend_heap *heap, const mend_request *request, uint64_t largest_bytes,
                          mend_plan *plan);

/* The same for a block that must lie in one chunk: the smallest empty chunk that holds it, whatever
 * its size, or a new one. `exact`: the new one is no larger than needed. */
bool mend_plan_find_one(mend_heap *heap, const mend_request *request, bool exact, mend_plan *plan);

/* The same: only a new chunk, if the limit allows it. */
bool mend_plan_create_only(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                           mend_plan *plan);

#endif
