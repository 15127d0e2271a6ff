/*
 * A plan: which free run to extend, which empty chunks to map behind it, and what to create. It is
 * a value that owns the list of its chunks, so that several plans can exist and be compared. It is
 * valid while `state` is held.
 */
#include "policy/policy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void mend_plan_clear(mend_plan *plan)
{
    free(plan->picks.chunks);
    *plan = (mend_plan){0};
}

/* Compares pointers to chunks, in the order of the sets of empty chunks. */
static int compare_chunks(const void *first, const void *second)
{
    const mend_chunk *a = *(mend_chunk *const *)first;
    const mend_chunk *b = *(mend_chunk *const *)second;
    if (a->size_bytes != b->size_bytes) {
        return a->size_bytes < b->size_bytes ? -1 : 1;
    }
    return (a->memory.number > b->memory.number) - (a->memory.number < b->memory.number);
}

/* Sorts a copy of the picks, in the second half of the list, when it is called first. */
bool mend_plan_uses(mend_plan *plan, const mend_chunk *chunk)
{
    mend_picks *picks = &plan->picks;
    if (mend_plan_is_in_base(plan, chunk) || picks->count == 0) {
        return mend_plan_is_in_base(plan, chunk);
    }
    mend_chunk **sorted = picks->chunks + picks->capacity;
    assert(picks->count <= picks->capacity);
    if (picks->sorted_count != picks->count) {
        memcpy(sorted, picks->chunks, picks->count * sizeof(mend_chunk *));
        qsort(sorted, picks->count, sizeof(mend_chunk *), compare_chunks);
        picks->sorted_count = picks->count;
    }
    return bsearch(&chunk, sorted, picks->count, sizeof(mend_chunk *), compare_chunks) != NULL;
}

uint64_t mend_plan_mapped_bytes(const mend_plan *plan)
{
    return mend_end_mapped_bytes(&plan->tail) + plan->picked_bytes + plan->create_bytes +
           mend_end_mapped_bytes(&plan->head);
}

uint64_t mend_plan_next_chunk(const mend_plan *plan, uint64_t left_bytes)
{
    assert(left_bytes > 0);
    assert(left_bytes <= plan->create_bytes);
    assert(plan->create_unit_bytes > 0);
    assert(plan->create_tail_bytes < plan->create_bytes);
    assert(plan->create_head_bytes <= plan->create_bytes);
    if (plan->create_head_bytes != 0 && left_bytes == plan->create_bytes) {
        return plan->create_head_bytes;
    }
    return left_bytes > plan->create_tail_bytes
               ? mend_min_u64(left_bytes - plan->create_tail_bytes, plan->create_unit_bytes)
               : left_bytes;
}

size_t mend_plan_create_count(const mend_plan *plan)
{
    size_t count = 0;
    for (uint64_t left = plan->create_bytes; left > 0; count++) {
        left -= mend_plan_next_chunk(plan, left);
    }
    return count;
}
