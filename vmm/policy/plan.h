/*
 * Planning: which free run to extend, which empty chunks to map behind it, what to create.
 * Pure: nothing is changed and no driver is called, so plans can be compared and thrown away.
 */
#ifndef MEND_POLICY_PLAN_H
#define MEND_POLICY_PLAN_H

#include "layout/layout.h"

typedef struct mend_plan {
    mend_run *base;     /* the run to extend; NULL: a place of its own */
    uint64_t start;     /* with a base: where in it the block begins */
    mend_chunk *picked; /* chunks to move, in order, linked by next_picked */
    size_t picked_count;
    size_t moved_count; /* of these, mapped somewhere */
    uint64_t picked_bytes;
    uint64_t create_bytes;      /* to be created behind them */
    uint64_t create_unit_bytes; /* in chunks of this size; the last may be smaller */
    uint64_t create_tail_bytes; /* of these, the last bytes, in a chunk of their own */
    uint64_t lacking_bytes;     /* no plan: what must be given back first, for the limit's sake; 0:
                                   that was not the reason */
} mend_plan;

/* What a plan may do. */
typedef struct mend_plan_rules {
    bool may_extend; /* use a base */
    bool may_create; /* create what is missing */
    bool may_move;   /* use empty chunks from anywhere */
    bool exact;      /* create no more than what is missing */
} mend_plan_rules;

/* Finds a plan for the request in its zone; false when there is none by these rules. Then it is the
 * one that lacks least, and the chunks it would use have its number, heap->plan_number. */
bool mend_plan_find(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                    mend_plan *plan);

/* For a small request: one empty chunk that holds it and is not above `largest_bytes`. */
bool mend_plan_find_small(mend_heap *heap, const mend_request *request, uint64_t largest_bytes,
                          mend_plan *plan);

/* A new chunk alone, as the limit allows. */
bool mend_plan_create_only(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                           mend_plan *plan);

/* The size of the next chunk to create, when `left_bytes` of create_bytes are left; and how many
 * there are in all. */
uint64_t mend_plan_next_chunk(const mend_plan *plan, uint64_t left_bytes);
size_t mend_plan_create_count(const mend_plan *plan);

#endif
