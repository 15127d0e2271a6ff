/*
 * A plan: which free run to extend, which empty chunks to map behind it, and what to create. It is
 * a value that owns the list of its chunks, so that several plans can exist and be compared. It is
 * valid while `state` is held.
 */
#ifndef MEND_POLICY_PLAN_H
#define MEND_POLICY_PLAN_H

#include "layout/layout.h"
#include "layout/range.h"

/* Chunks in the order in which they are mapped. */
typedef struct mend_picks {
    mend_chunk **chunks;
    size_t count;
    size_t capacity;
    size_t sorted_count; /* length of the sorted copy for mend_plan_uses; 0: none */
} mend_picks;

/* A free part of a partly used chunk, which an alias of the chunk continues elsewhere. */
typedef struct mend_end {
    mend_chunk *chunk; /* NULL: none */
    uint64_t address;
    uint64_t size_bytes;
} mend_end;

typedef struct mend_plan {
    mend_end tail;  /* the end of a chunk, before all others; only without a base */
    mend_end head;  /* the start of a chunk, behind all others */
    mend_run *base; /* the run to extend; NULL: use a new address */
    uint64_t base_address;
    uint64_t base_bytes;
    const struct mend_parts
        *pages;             /* what the request commits: memory there stays. NULL: a block */
    uint64_t start;         /* with a base: where the block begins in it */
    uint64_t fixed_address; /* where the chunks are mapped, in a range: free memory there, and no
                             * block is taken. 0: behind the base, or at a new address */
    mend_picks picks;
    size_t moved_count; /* picked chunks that are mapped */
    uint64_t picked_bytes;
    uint64_t create_bytes;      /* bytes to create behind the picked chunks */
    uint64_t create_unit_bytes; /* size of the created chunks; the last may be smaller */
    uint64_t create_tail_bytes; /* size of the last created chunk; 0: as the others */
    uint64_t create_head_bytes; /* size of the first one; 0: as the others */
    uint64_t lacking_bytes;     /* if there is no plan: bytes to give back first, because of the
                                 * limit; 0: another reason */
    uint64_t refused_bytes;     /* smallest creation that the limit allows and the device has no
                                 * memory for; 0: none */
    bool lacks_host_memory;     /* there is no plan because malloc failed */
} mend_plan;

/* Frees the host memory of a plan and empties it. Does nothing for an empty plan. */
void mend_plan_clear(mend_plan *plan);

/* Whether the chunk lies in the plan's base, or among its pages. */
static inline bool mend_plan_is_in_base(const mend_plan *plan, const mend_chunk *chunk)
{
    return chunk->address != 0 &&
           (plan->pages != NULL ? mend_parts_contain(plan->pages, chunk->address)
                                : chunk->address - plan->base_address < plan->base_bytes);
}

/* Whether the plan uses the chunk: it picked it, or extends the run that the chunk is in. */
bool mend_plan_uses(mend_plan *plan, const mend_chunk *chunk);

/* Bytes of the addresses that the plan maps; those of a chunk with an end, without one 0. */
uint64_t mend_plan_mapped_bytes(const mend_plan *plan);
static inline uint64_t mend_end_mapped_bytes(const mend_end *end)
{
    return end->chunk != NULL ? end->chunk->size_bytes : 0;
}

/* The number of ends. */
static inline size_t mend_plan_end_count(const mend_plan *plan)
{
    return (size_t)(plan->tail.chunk != NULL) + (plan->head.chunk != NULL);
}

/* The size of the next chunk to create if `left_bytes` of create_bytes are left; and the number of
 * chunks to create. */
uint64_t mend_plan_next_chunk(const mend_plan *plan, uint64_t left_bytes);
size_t mend_plan_create_count(const mend_plan *plan);

#endif
