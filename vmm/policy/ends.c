/*
 * Continued ends: the last plans without a copy. What is lost when memory runs out are mostly the
 * free ends of partly used chunks. A plan here continues them: the block begins in the end of one
 * chunk, or in a run that can grow; then come empty and created chunks; it ends in the start of
 * another chunk. Both chunks get an alias (physical/chunk.h).
 */
#include "policy/policy.h"

#include <stdlib.h>

#include "policy/constants.h"

#define RUN_OF(node) MEND_CONTAINER_OF(node, mend_run, by_address)

bool mend_ends_are_open(const mend_heap *heap, const mend_request *request)
{
    return heap->device.aliases_at_once && request->zone == MEND_ZONE_LARGE &&
           !request->in_one_chunk;
}

/* ---- the ends that there are ----------------------------------------------------------------- */

/* Whether an alias may continue the chunk. A block in it keeps it where it is anyway. */
static bool is_partly_used(const mend_chunk *chunk)
{
    return chunk->live_bytes > 0 && !chunk->is_frozen && !mend_chunk_is_alias(chunk);
}

/* Whether the request may have the memory. Captured graphs may know the address of theirs. */
static bool is_usable(mend_heap *heap, const mend_request *request, const mend_span *span)
{
    const mend_streams *streams = &heap->streams;
    unsigned holds = mend_waits_blocked_by(streams, &span->waits, MEND_STREAM_UNKNOWN);
    bool is_any = !mend_streams_are_several(streams) && request->stream != MEND_STREAM_UNKNOWN;
    return (holds & MEND_BLOCKED_BY_GROUPS) == 0 &&
           (is_any ||
            mend_waits_are_ready(streams, &span->waits, request->stream, request->behind_wait));
}

/* The usable memory at the end of a chunk, in a run that begins inside the chunk. A block that
 * begins there is aligned. */
static mend_end tail_of(mend_heap *heap, const mend_request *request, mend_run *run)
{
    mend_chunk *chunk = mend_run_chunk_at(heap, run, run->address);
    const uint64_t end = chunk->address + chunk->size_bytes;
    if (!is_partly_used(chunk) || run->address == chunk->address || mend_run_end(run) < end) {
        return (mend_end){0};
    }
    uint64_t from = run->address;
    for (const mend_span *span = run->first; span != NULL && span->address < end;
         span = span != run->last ? span->next : NULL) {
        from = is_usable(heap, request, span) ? from : mend_min_u64(mend_span_end(span), end);
    }
    uint64_t offset_bytes = mend_align_up(from - chunk->address, request->alignment_bytes);
    return offset_bytes < chunk->size_bytes
               ? (mend_end){chunk, chunk->address + offset_bytes, chunk->size_bytes - offset_bytes}
               : (mend_end){0};
}

/* The usable memory at the start of a chunk, in a run that ends inside the chunk. */
static mend_end head_of(mend_heap *heap, const mend_request *request, mend_run *run)
{
    mend_chunk *chunk = mend_run_chunk_at(heap, run, mend_run_end(run) - 1);
    if (!is_partly_used(chunk) || run->address > chunk->address ||
        mend_run_end(run) == chunk->address + chunk->size_bytes) {
        return (mend_end){0};
    }
    uint64_t to = mend_run_end(run);
    for (const mend_span *span = run->last; span != NULL && mend_span_end(span) > chunk->address;
         span = span != run->first ? span->previous : NULL) {
        to = is_usable(heap, request, span) ? to : mend_max_u64(span->address, chunk->address);
    }
    return to > chunk->address ? (mend_end){chunk, chunk->address, to - chunk->address}
                               : (mend_end){0};
}

static int compare_ends(const void *left, const void *right)
{
    const mend_end *a = left;
    const mend_end *b = right;
    const int order = mend_compare_u64(a->size_bytes, b->size_bytes);
    return order != 0 ? order : mend_compare_u64(a->address, b->address);
}

bool mend_ends_gather(mend_heap *heap, const mend_request *request, mend_ends *ends)
{
    const mend_tree *runs = &heap->zones[request->zone].runs_by_address;
    assert(mend_ends_are_open(heap, request));
    mend_end *both = calloc(2 * runs->count + 1, sizeof(*both));
    if (both == NULL) {
        *ends = (mend_ends){0};
        return false;
    }
    *ends = (mend_ends){.heads = both, .tails = both + runs->count};
    for (mend_tree_node *at = mend_tree_first(runs); at != NULL; at = mend_tree_next(at)) {
        const mend_end head = head_of(heap, request, RUN_OF(at));
        const mend_end tail = tail_of(heap, request, RUN_OF(at));
        ends->heads[ends->head_count] = head;
        ends->head_count += head.chunk != NULL ? 1 : 0;
        ends->tails[ends->tail_count] = tail;
        ends->tail_count += tail.chunk != NULL ? 1 : 0;
    }
    qsort(ends->heads, ends->head_count, sizeof(*both), compare_ends);
    qsort(ends->tails, ends->tail_count, sizeof(*both), compare_ends);
    return true;
}

void mend_ends_clear(mend_ends *ends)
{
    free(ends->heads); /* both lists */
    *ends = (mend_ends){0};
}

/* The smallest end that is enough, or else the largest; an empty one if there is none. */
static mend_end find_end(const mend_end *ends, size_t count, uint64_t need_bytes)
{
    if (count == 0) {
        return (mend_end){0};
    }
    need_bytes = mend_min_u64(need_bytes, ends[count - 1].size_bytes);
    size_t low = 0;
    size_t high = count - 1; /* this one is enough */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool is_enough = ends[middle].size_bytes >= need_bytes;
        high = is_enough ? middle : high;
        low = is_enough ? low : middle + 1;
    }
    return ends[low];
}

static mend_end find_head(const mend_ends *ends, uint64_t need_bytes)
{
    return find_end(ends->heads, ends->head_count, need_bytes);
}

/* Whether `a` serves a need better than `b`: the smallest one that is enough, or else the
 * largest. */
static bool is_better(const mend_end *a, const mend_end *b, uint64_t need_bytes)
{
    bool is_enough = a->size_bytes >= need_bytes;
    if (is_enough != (b->size_bytes >= need_bytes)) {
        return is_enough;
    }
    return is_enough ? a->size_bytes < b->size_bytes : a->size_bytes > b->size_bytes;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static uint64_t largest_of(const mend_end *ends, size_t count)
{
    return count > 0 ? ends[count - 1].size_bytes : 0;
}

/* What must be created although ends give all they can. */
static uint64_t least_of(const mend_heap *heap, const mend_ends *ends, uint64_t missing_bytes,
                         const mend_plan *plan)
{
    const uint64_t end_bytes = largest_of(ends->heads, ends->head_count) +
                               (plan->base == NULL ? largest_of(ends->tails, ends->tail_count) : 0);
    return mend_align_up(missing_bytes - mend_min_u64(missing_bytes, end_bytes),
                         heap->device.granularity_bytes);
}

/* Picks empty chunks and plans creations that the block uses completely. Returns what is lacking
 * then; 0 if malloc fails. */
static uint64_t fill(mend_heap *heap, const mend_request *request, const mend_ends *ends,
                     uint64_t need_bytes, mend_plan *plan)
{
    uint64_t missing = mend_pick_chunks(heap, request, plan, need_bytes);
    uint64_t most = mend_min_u64(missing, mend_budget_room_bytes(heap));
    most = ends->creates_least ? mend_min_u64(most, least_of(heap, ends, missing, plan)) : most;
    plan->create_bytes = mend_align_down(most, heap->device.granularity_bytes);
    plan->create_unit_bytes = mend_budget_lone_chunk(heap, request);
    return plan->lacks_host_memory ? 0 : missing - plan->create_bytes;
}

/* The part of a tail that the block begins in: the last bytes, from where it is aligned. */
static mend_end cut_tail(mend_end tail, uint64_t need_bytes, uint64_t alignment_bytes)
{
    const mend_chunk *chunk = tail.chunk;
    if (need_bytes < tail.size_bytes) {
        uint64_t offset_bytes = mend_align_down(chunk->size_bytes - need_bytes, alignment_bytes);
        assert(chunk->address + offset_bytes >= tail.address);
        tail.address = chunk->address + offset_bytes;
        tail.size_bytes = chunk->size_bytes - offset_bytes;
    }
    return tail;
}

/* Chooses one end for what a plan lacks, or both. False if they are not enough. */
static bool choose_ends(const mend_ends *ends, const mend_request *request, uint64_t lacking_bytes,
                        mend_plan *plan)
{
    mend_end head = find_head(ends, lacking_bytes);
    mend_end tail = {0};
    if (plan->base == NULL) {
        tail = find_end(ends->tails, ends->tail_count, lacking_bytes);
        bool is_one_enough = head.size_bytes >= lacking_bytes || tail.size_bytes >= lacking_bytes;
        if (is_one_enough && is_better(&head, &tail, lacking_bytes)) {
            tail = (mend_end){0};
        }
    }
    if (tail.chunk != NULL) {
        plan->tail = cut_tail(tail, lacking_bytes, request->alignment_bytes);
        lacking_bytes -= mend_min_u64(lacking_bytes, plan->tail.size_bytes);
        head = lacking_bytes > 0 ? find_head(ends, lacking_bytes) : (mend_end){0};
    }
    bool are_enough = head.size_bytes >= lacking_bytes;
    if (head.chunk != NULL && are_enough) {
        head.size_bytes = lacking_bytes;
        plan->head = head;
    }
    return are_enough;
}

/* Whether the plan lacks nothing any more. */
static bool complete(mend_heap *heap, const mend_request *request, const mend_ends *ends,
                     uint64_t need_bytes, mend_plan *plan)
{
    uint64_t lacking_bytes = fill(heap, request, ends, need_bytes, plan);
    return !plan->lacks_host_memory && lacking_bytes > 0 &&
           choose_ends(ends, request, lacking_bytes, plan);
}

/* Behind a run that can grow. */
static bool extend(mend_heap *heap, const mend_request *request, const mend_ends *ends,
                   mend_run *run, mend_plan *plan)
{
    const uint64_t end = mend_run_end(run);
    const uint64_t start = mend_align_up(run->address, request->alignment_bytes);
    *plan = (mend_plan){
        .base = run, .base_address = run->address, .base_bytes = run->size_bytes, .start = start};
    bool is_found = start < end && end - start < request->size_bytes &&
                    mend_layout_is_ready(heap, run, start, end - start, request->stream,
                                         request->behind_wait) &&
                    complete(heap, request, ends, request->size_bytes - (end - start), plan) &&
                    mend_plan_mapped_bytes(plan) <= mend_space_room_at(&heap->space, end);
    return is_found;
}

/* Behind each run that can grow, the largest first; then at a new address. */
static bool plan_with(mend_heap *heap, const mend_request *request, const mend_ends *ends,
                      mend_plan *plan)
{
    bool lacks_host_memory = false;
    mend_run *run = mend_layout_growing_below(&heap->zones[request->zone], request->size_bytes - 1);
    for (int tries = 0; run != NULL && tries < SEARCH_TRIES; tries++) {
        if (extend(heap, request, ends, run, plan)) {
            return true;
        }
        lacks_host_memory = lacks_host_memory || plan->lacks_host_memory;
        mend_plan_clear(plan);
        run = mend_layout_growing_smaller(run);
    }
    *plan = (mend_plan){0};
    bool is_found = complete(heap, request, ends, request->size_bytes, plan);
    plan->lacks_host_memory = plan->lacks_host_memory || (lacks_host_memory && !is_found);
    return is_found;
}

bool mend_ends_find(mend_heap *heap, const mend_request *request, const mend_ends *ends,
                    mend_plan *plan)
{
    assert(mend_ends_are_open(heap, request));
    heap->budget.plans++;
    mend_request last = *request;
    last.may_break = true; /* otherwise a plan might leave an empty chunk alone, and lend instead */
    *plan = (mend_plan){0};
    return ends->head_count + ends->tail_count > 0 && plan_with(heap, &last, ends, plan);
}
