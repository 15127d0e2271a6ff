/*
 * A plan: which free run to extend, which empty chunks to map behind it, what to create. It is a
 * value: it owns the list of its chunks, so that several plans can be held, compared and thrown
 * away. It is true as long as `state` is held.
 */
#ifndef MEND_POLICY_PLAN_H
#define MEND_POLICY_PLAN_H

#include "layout/layout.h"

/* Chunks in the order in which they are mapped. */
typedef struct mend_picks {
    mend_chunk **chunks;
    size_t count;
    size_t capacity;
    size_t sorted_count; /* that are found by mend_plan_uses */
} mend_picks;

typedef struct mend_plan {
    mend_run *base; /* the run to extend; NULL: a new address */
    uint64_t base_address;
    uint64_t base_bytes;
    uint64_t start; /* with a base: where in it the block begins */
    mend_picks picks;
    size_t moved_count; /* picked chunks that are mapped somewhere */
    uint64_t picked_bytes;
    uint64_t create_bytes;      /* to be created behind them */
    uint64_t create_unit_bytes; /* in chunks of this size; the last may be smaller */
    uint64_t create_tail_bytes; /* of these, the last bytes, in a chunk of their own */
    uint64_t lacking_bytes;     /* no plan: what must be given back first, for the limit's sake; 0:
                                   that was not the reason */
    uint64_t refused_bytes;     /* least creation that the limit would allow, and the device has no
                                   memory for; 0: none */
    bool lacks_host_memory;     /* no plan: malloc failed */
} mend_plan;

/* Frees the host memory of a plan, which is empty then. Nothing for one that is empty. */
void mend_plan_clear(mend_plan *plan);

/* The chunk lies in the plan's base. */
static inline bool mend_plan_is_in_base(const mend_plan *plan, const mend_chunk *chunk)
{
    return chunk->address != 0 && chunk->address - plan->base_address < plan->base_bytes;
}

/* The plan would use the chunk: it picked it, or extends the run it lies in. */
bool mend_plan_uses(mend_plan *plan, const mend_chunk *chunk);

/* The size of the next chunk to create, when `left_bytes` of create_bytes are left; and how many
 * there are in all. */
uint64_t mend_plan_next_chunk(const mend_plan *plan, uint64_t left_bytes);
size_t mend_plan_create_count(const mend_plan *plan);

#endif
