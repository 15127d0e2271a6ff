/*
 * A plan: which free run to extend, which empty chunks to map behind it, and which to create. It is
 * a value that owns the list of its chunks, so that several plans can exist and be compared. It is
 * valid while `state` is held. And picking: which empty chunks a plan takes. The plan says if
 * malloc failed.
 */
#include "plan/policy.h"

#include <stdlib.h>
#include <string.h>

#include "plan/constants.h"

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

/* ---- picks ----------------------------------------------------------------------------------- */

static bool is_ready(mend_heap *heap, mend_chunk *chunk, const mend_request *request)
{
    return !mend_streams_are_several(&heap->streams) ||
           mend_layout_chunk_is_ready(heap, chunk, request->stream, request->behind_wait);
}

/* ---- the list of a plan ---------------------------------------------------------------------- */

enum { FIRST_CAPACITY = 16 };

/* One allocation: the picks in order, and space for a sorted copy. */
static bool reserve(mend_picks *picks)
{
    if (picks->count < picks->capacity) {
        return true;
    }
    size_t capacity = picks->capacity == 0 ? FIRST_CAPACITY : 2 * picks->capacity;
    mend_chunk **chunks = realloc(picks->chunks, 2 * capacity * sizeof(mend_chunk *));
    if (chunks == NULL) {
        return false;
    }
    picks->chunks = chunks;
    picks->capacity = capacity;
    picks->sorted_count = 0; /* the sorted copy is at another place now */
    assert(picks->count < picks->capacity);
    return true;
}

void mend_pick_add(mend_plan *plan, mend_chunk *chunk)
{
    assert(mend_chunk_is_empty(chunk));
    assert(!mend_plan_is_in_base(plan, chunk));
    if (!reserve(&plan->picks)) {
        plan->lacks_host_memory = true;
        return;
    }
    plan->picks.chunks[plan->picks.count++] = chunk;
    plan->picked_bytes += chunk->size_bytes;
    plan->moved_count += chunk->address != 0 ? 1 : 0;
}

bool mend_pick_may(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                   mend_chunk *chunk)
{
    return !mend_plan_is_in_base(plan, chunk) && is_ready(heap, chunk, request);
}

static bool try_pick(mend_heap *heap, const mend_request *request, mend_plan *plan,
                     mend_chunk *chunk)
{
    bool picks = mend_pick_may(heap, request, plan, chunk);
    if (picks) {
        mend_pick_add(plan, chunk);
    }
    return picks;
}

/* ---- in which order chunks of one size are taken --------------------------------------------- */

/* A chunk of the size, and the run that it is in. If it is not mapped, all is 0. */
typedef struct candidate {
    mend_chunk *chunk;
    const mend_run *run;
    uint64_t run_bytes;
} candidate;

/* First chunks in the smallest run, because its addresses serve no large request, and from the
 * run's end, so that the rest stays in one piece and can grow. */
static int compare_candidates(const candidate *a, const candidate *b)
{
    if (a->run_bytes != b->run_bytes) {
        return mend_compare_u64(a->run_bytes, b->run_bytes);
    }
    return a->chunk->address != b->chunk->address
               ? mend_compare_u64(b->chunk->address, a->chunk->address)
               : mend_compare_u64(b->chunk->memory.number, a->chunk->memory.number);
}

/* Puts a candidate in its place among those behind it in a heap, whose root is taken first. Few of
 * them are taken, so that to sort all would cost several times as much. */
static void sift(candidate *candidates, size_t count, size_t at)
{
    const candidate moved = candidates[at];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child +=
            child + 1 < count && compare_candidates(&candidates[child + 1], &candidates[child]) < 0;
        if (compare_candidates(&moved, &candidates[child]) <= 0) {
            break;
        }
        candidates[at] = candidates[child];
        at = child;
    }
    candidates[at] = moved;
}

/* The candidate before is often in the same run. */
static candidate candidate_of(const mend_heap *heap, mend_chunk *chunk, const candidate *before)
{
    candidate found = *before;
    found.chunk = chunk;
    if (before->run == NULL || chunk->address - before->run->address >= before->run_bytes) {
        found.run = mend_layout_run_at(&heap->zones[chunk->zone], chunk->address);
        found.run_bytes = found.run != NULL ? found.run->size_bytes : 0;
    }
    return found;
}

/* From a chunk on, in the order of the set. */
static uint64_t pick_from(mend_heap *heap, const mend_request *request, mend_plan *plan,
                          mend_chunk *at, uint64_t need_bytes)
{
    const uint64_t size_bytes = at != NULL ? at->size_bytes : 0;
    for (; at != NULL && at->size_bytes == size_bytes && size_bytes <= need_bytes;
         at = mend_chunk_empty_next(at)) {
        need_bytes -= try_pick(heap, request, plan, at) ? size_bytes : 0;
    }
    return need_bytes;
}

/* Among many chunks of the size, the oldest ones are compared, a few more than are needed. */
static uint64_t pick_by_run(mend_heap *heap, const mend_request *request, mend_plan *plan,
                            uint64_t size_bytes, uint64_t need_bytes)
{
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, size_bytes, 0);
    assert(at != NULL && at->size_bytes == size_bytes); /* the caller knows that there is one */
    const size_t most =
        mend_min_u64(need_bytes / size_bytes + CHUNKS_COMPARED, heap->chunks.empty.count);
    candidate *candidates = malloc(most * sizeof(*candidates));
    if (candidates == NULL) {
        plan->lacks_host_memory = true;
        return need_bytes;
    }
    candidate before = {0};
    size_t count = 0;
    for (; at != NULL && at->size_bytes == size_bytes && count < most;
         at = mend_chunk_empty_next(at)) {
        before = candidate_of(heap, at, &before);
        candidates[count++] = before;
    }
    for (size_t i = count / 2; i-- > 0;) {
        sift(candidates, count, i);
    }
    for (; count > 0 && size_bytes <= need_bytes; sift(candidates, count, 0)) {
        need_bytes -= try_pick(heap, request, plan, candidates[0].chunk) ? size_bytes : 0;
        candidates[0] = candidates[--count];
    }
    free(candidates);
    return at != NULL && at->size_bytes == size_bytes
               ? pick_from(heap, request, plan, at, need_bytes)
               : need_bytes;
}

/* ---- for a need ------------------------------------------------------------------------------ */

/* The smallest chunk that covers the rest of the need and does not waste too much. */
static bool pick_cover(mend_heap *heap, const mend_request *request, mend_plan *plan,
                       uint64_t need_bytes)
{
    uint64_t allowed_bytes = mend_budget_waste_allowed(heap, request);
    assert(need_bytes > 0);
    mend_chunk *cover = mend_chunk_empty_at_least(&heap->chunks, need_bytes, 0);
    while (cover != NULL && (!is_ready(heap, cover, request) || mend_plan_uses(plan, cover))) {
        cover = mend_chunk_empty_next(cover);
    }
    bool covers = cover != NULL && cover->size_bytes - need_bytes <= allowed_bytes;
    if (covers) {
        mend_pick_add(plan, cover);
    }
    return covers;
}

uint64_t mend_pick_chunks(mend_heap *heap, const mend_request *request, mend_plan *plan,
                          uint64_t need_bytes)
{
    assert(need_bytes > 0);
    mend_chunk *largest = mend_chunk_empty_at_most(&heap->chunks, need_bytes, UINT64_MAX);
    while (need_bytes > 0 && largest != NULL) {
        uint64_t size_bytes = largest->size_bytes;
        if (size_bytes > need_bytes) {
            largest = mend_chunk_empty_at_most(&heap->chunks, need_bytes, UINT64_MAX);
            continue;
        }
        need_bytes = pick_by_run(heap, request, plan, size_bytes, need_bytes);
        largest = mend_chunk_empty_at_most(&heap->chunks, size_bytes - 1, UINT64_MAX);
    }
    return need_bytes == 0 || pick_cover(heap, request, plan, need_bytes) ? 0 : need_bytes;
}

bool mend_pick_one(mend_heap *heap, const mend_request *request, mend_plan *plan,
                   uint64_t largest_bytes)
{
    mend_chunk *chunk = mend_chunk_empty_at_least(&heap->chunks, request->size_bytes, 0);
    while (chunk != NULL && chunk->size_bytes <= largest_bytes) {
        if (try_pick(heap, request, plan, chunk)) {
            return true;
        }
        chunk = mend_chunk_empty_next(chunk);
    }
    return false;
}
