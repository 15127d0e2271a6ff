/*
 * Continued ends: the last plans without a copy. What is lost when memory runs out are mostly the
 * free ends of partly used chunks. A plan here continues them: the block begins in the end of one
 * chunk, or in a run that can grow; then come empty and created chunks; it ends in the start of
 * another chunk. Both chunks get an alias (physical/alias.h).
 *
 * As the planner it changes nothing, but joins idle spans; does not call the driver.
 */
#ifndef MEND_POLICY_ENDS_H
#define MEND_POLICY_ENDS_H

#include "policy/plan.h"

/* Whether the device may use one chunk at two addresses, and the request may lie so. */
bool mend_ends_are_open(const mend_heap *heap, const mend_request *request);

/* The free ends of partly used chunks that a request may have: read once, because many plans ask
 * for them. Valid while `state` is held; they do not depend on the size of the request. */
typedef struct mend_ends {
    struct mend_end *heads; /* by (size, address) */
    struct mend_end *tails;
    size_t head_count;
    size_t tail_count;
} mend_ends;

/* False if malloc fails. The caller ends it with mend_ends_clear. */
bool mend_ends_gather(mend_heap *heap, const mend_request *request, mend_ends *ends);
void mend_ends_clear(mend_ends *ends);

/* Finds a plan with ends for a large request that no other plan serves: with as few bytes of them
 * as it lacks. False if there is none, or if malloc fails. The caller ends it with mend_plan_clear
 * in every case. */
bool mend_ends_find(mend_heap *heap, const mend_request *request, const mend_ends *ends,
                    mend_plan *plan);

#endif
