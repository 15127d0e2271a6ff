#include "policy/pick.h"

#include "policy/budget.h"

static bool is_ready(mend_heap *heap, const mend_chunk *chunk, const mend_request *request)
{
    if (chunk->address == 0 || !mend_streams_are_several(&heap->streams)) {
        return true; /* chunks mapped nowhere are idle */
    }
    mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], chunk->address);
    return mend_layout_is_ready(heap, run, chunk->address, chunk->size_bytes, request->stream,
                                request->behind_wait);
}

/* Not chosen by this plan, and not a part of its base (which is marked as chosen). */
static bool is_open(const mend_heap *heap, const mend_chunk *chunk)
{
    return chunk->picked != heap->plan_number;
}

/* What the plan has, and where the next chunk is linked to it. */
typedef struct pick_list {
    mend_plan *plan;
    mend_chunk **tail;
} pick_list;

static void pick(mend_heap *heap, pick_list *list, mend_chunk *chunk)
{
    chunk->picked = heap->plan_number;
    chunk->next_picked = NULL;
    *list->tail = chunk;
    list->tail = &chunk->next_picked;
    list->plan->picked_count++;
    list->plan->picked_bytes += chunk->size_bytes;
    list->plan->moved_count += chunk->address != 0 ? 1 : 0;
}

static bool try_pick(mend_heap *heap, const mend_request *request, pick_list *list,
                     mend_chunk *chunk)
{
    bool picks = is_open(heap, chunk) && is_ready(heap, chunk, request);
    if (picks) {
        pick(heap, list, chunk);
    }
    return picks;
}

/* ---- in which order chunks of one size are taken ------------------------------------------------
 */

/* Of the smallest run first, whose addresses serve no large request; and from its end, so that the
 * rest stays in one piece and can grow. */
static bool goes_before(const mend_chunk *a, const mend_chunk *b)
{
    return a->run_bytes != b->run_bytes ? a->run_bytes < b->run_bytes : a->address > b->address;
}

static mend_chunk *merged(mend_chunk *a, mend_chunk *b)
{
    mend_chunk *first = NULL;
    mend_chunk **tail = &first;
    while (a != NULL && b != NULL) {
        mend_chunk **from = goes_before(a, b) ? &a : &b;
        *tail = *from;
        tail = &(*tail)->next_picked;
        *from = *tail;
    }
    *tail = a != NULL ? a : b;
    return first;
}

/* The first `count` of a list, sorted; *rest is what comes behind. */
static mend_chunk *sorted(mend_chunk *list, size_t count, mend_chunk **rest)
{
    if (count <= 1) {
        *rest = list != NULL ? list->next_picked : NULL;
        if (list != NULL) {
            list->next_picked = NULL;
        }
        return list;
    }
    mend_chunk *half;
    mend_chunk *a = sorted(list, count / 2, &half);
    mend_chunk *b = sorted(half, count - count / 2, rest);
    return merged(a, b);
}

/* The chunks of one size that are open to the plan, in the order above. */
static mend_chunk *chunks_by_run(mend_heap *heap, uint64_t size_bytes)
{
    mend_chunk *list = NULL;
    mend_chunk **tail = &list;
    size_t count = 0;
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, size_bytes, 0);
    for (; at != NULL && at->size_bytes == size_bytes; at = mend_chunk_empty_next(at)) {
        if (is_open(heap, at)) {
            mend_run *run = mend_layout_run_at(&heap->zones[at->zone], at->address);
            at->run_bytes = run != NULL ? run->size_bytes : 0; /* mapped nowhere: no run */
            *tail = at;
            tail = &at->next_picked;
            count++;
        }
    }
    *tail = NULL;
    return sorted(list, count, &at);
}

static void pick_by_run(mend_heap *heap, const mend_request *request, pick_list *list,
                        uint64_t size_bytes, uint64_t *need_bytes)
{
    mend_chunk *at = chunks_by_run(heap, size_bytes);
    while (at != NULL && size_bytes <= *need_bytes) {
        mend_chunk *next = at->next_picked;
        *need_bytes -= try_pick(heap, request, list, at) ? size_bytes : 0;
        at = next;
    }
}

static void pick_oldest(mend_heap *heap, const mend_request *request, pick_list *list,
                        uint64_t size_bytes, uint64_t *need_bytes)
{
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, size_bytes, 0);
    for (; at != NULL && at->size_bytes == size_bytes && size_bytes <= *need_bytes;
         at = mend_chunk_empty_next(at)) {
        *need_bytes -= try_pick(heap, request, list, at) ? size_bytes : 0;
    }
}

/* ---- for a need ---------------------------------------------------------------------------------
 */

/* The smallest chunk that covers what is left of the need, and does not waste too much. */
static bool pick_cover(mend_heap *heap, const mend_request *request, pick_list *list,
                       uint64_t need_bytes)
{
    uint64_t allowed_bytes = mend_budget_waste_allowed(heap, request);
    mend_chunk *cover = mend_chunk_empty_at_least(&heap->chunks, need_bytes, 0);
    while (cover != NULL && !(is_open(heap, cover) && is_ready(heap, cover, request))) {
        cover = mend_chunk_empty_next(cover);
    }
    bool covers = cover != NULL && cover->size_bytes - need_bytes <= allowed_bytes;
    if (covers) {
        pick(heap, list, cover);
    }
    return covers;
}

uint64_t mend_pick_chunks(mend_heap *heap, const mend_request *request, mend_plan *plan,
                          uint64_t need_bytes)
{
    pick_list list = {plan, &plan->picked};
    bool keeps_runs = mend_budget_is_roomy(heap);
    mend_chunk *largest = mend_chunk_empty_at_most(&heap->chunks, need_bytes, UINT64_MAX);
    while (need_bytes > 0 && largest != NULL) {
        uint64_t size_bytes = largest->size_bytes;
        if (size_bytes > need_bytes) {
            largest = mend_chunk_empty_at_most(&heap->chunks, need_bytes, UINT64_MAX);
            continue;
        }
        if (keeps_runs) {
            pick_by_run(heap, request, &list, size_bytes, &need_bytes);
        } else {
            pick_oldest(heap, request, &list, size_bytes, &need_bytes);
        }
        largest = mend_chunk_empty_at_most(&heap->chunks, size_bytes - 1, UINT64_MAX);
    }
    return need_bytes == 0 || pick_cover(heap, request, &list, need_bytes) ? 0 : need_bytes;
}

bool mend_pick_one(mend_heap *heap, const mend_request *request, mend_plan *plan,
                   uint64_t largest_bytes)
{
    pick_list list = {plan, &plan->picked};
    mend_chunk *chunk = mend_chunk_empty_at_least(&heap->chunks, request->size_bytes, 0);
    while (chunk != NULL && chunk->size_bytes <= largest_bytes) {
        if (try_pick(heap, request, &list, chunk)) {
            return true;
        }
        chunk = mend_chunk_empty_next(chunk);
    }
    return false;
}
