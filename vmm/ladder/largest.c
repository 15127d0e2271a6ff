/*
 * The largest request that would succeed: asks the planner for one size after the other, and
 * carries nothing out.
 */
#include "ladder/ladder.h"

#include "move/move.h"
#include "move/ranges.h"
#include "policy/constants.h"

/* The plans that create no more than the request lacks: if these fail, all others fail too. */
static const mend_plan_rules ways[] = {
    {.may_extend = true, .may_move = true},
    {.may_extend = true, .may_create = true, .may_move = true, .exact = true},
    {.may_create = true, .may_move = true, .exact = true},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]), EXTEND_AND_CREATE = 1 };

/* Whether the plan answers the question; it is not carried out. */
static bool end_plan(mend_question *q, mend_plan *plan, bool is_found)
{
    q->lacks_host_memory = q->lacks_host_memory || plan->lacks_host_memory;
    mend_plan_clear(plan);
    return is_found;
}

static bool finds_plan(mend_question *q, const mend_request *request, mend_plan_rules rules)
{
    mend_plan plan = {0};
    return end_plan(q, &plan, mend_plan_find(q->heap, request, rules, &plan));
}

/* Whether one is found beside memory that the stream may not use, as after all other ways. */
static bool finds_behind(mend_question *q, const mend_request *request)
{
    mend_plan plan = {0};
    return request->zone == MEND_ZONE_LARGE &&
           end_plan(q, &plan, mend_plan_find_behind(q->heap, request, &plan));
}

/* While pressure is critical a request breaks no empty chunk at first, which may fit where one that
 * is broken has no addresses; then mend_place gives back one of the wrong size. */
static bool finds_unbroken(mend_question *q, const mend_request *request)
{
    mend_heap *heap = q->heap;
    mend_request whole = *request;
    whole.may_break = false;
    if (request->zone != MEND_ZONE_LARGE || mend_budget_pressure(heap) != MEND_PRESSURE_CRITICAL) {
        return false;
    }
    mend_plan plan = {0};
    const bool is_found = mend_plan_find(heap, &whole, ways[EXTEND_AND_CREATE], &plan);
    const bool could_be = is_found || (!q->creates_nothing && !plan.lacks_host_memory &&
                                       mend_trim_finds_one(heap, &plan, !q->is_captured));
    return end_plan(q, &plan, could_be);
}

/* Asks the planner, but carries nothing out. Behind device waits it looks only at the runs that fit
 * best, as a request does. Where a request creates nothing, it looks anywhere and breaks empty
 * chunks before the host waits. */
static bool finds_place(mend_question *q, const mend_request *request)
{
    mend_heap *heap = q->heap;
    bool looks_anywhere = request->behind_wait == 0 || heap->streams.looks_ahead;
    for (int zone = request->zone; zone < MEND_ZONES_OF_BLOCKS; zone++) {
        mend_fit fit = looks_anywhere ? mend_fit_find_anywhere(heap, request, zone)
                                      : mend_fit_find(heap, request, zone, UINT64_MAX);
        if (fit.run != NULL) {
            return true;
        }
    }
    for (int i = 0; i < WAYS; i++) {
        bool is_open = request->zone == MEND_ZONE_LARGE || !ways[i].may_extend;
        bool is_found = is_open && finds_plan(q, request, ways[i]);
        if (is_found) {
            return true;
        }
    }
    return finds_unbroken(q, request) || (!q->creates_nothing && finds_behind(q, request));
}

static bool would_succeed_in(mend_question *q, const mend_request *asking, uint64_t size_bytes,
                             int zone)
{
    mend_request request = *asking;
    request.size_bytes = size_bytes;
    request.requested_bytes = size_bytes;
    request.may_break = true;
    request.creates_nothing = q->creates_nothing;
    request.zone = zone;
    request.behind_wait = q->heap->streams.looks_ahead ? MEND_ANY_FENCE : 0;
    if (finds_place(q, &request)) {
        return true;
    }
    request.behind_wait = asking->behind_wait;
    return request.behind_wait != 0 && finds_place(q, &request);
}

/* A small request that has no other place is placed as a large one. */
static bool would_succeed_now(mend_question *q, const mend_request *asking, uint64_t size_bytes)
{
    const bool is_small = size_bytes <= q->heap->config.placement.small_request_bytes;
    return (is_small && would_succeed_in(q, asking, size_bytes, MEND_ZONE_SMALL)) ||
           would_succeed_in(q, asking, size_bytes, MEND_ZONE_LARGE);
}

/* The first search goes by the soft limit: pressure is higher there, and plans are others. */
static bool would_succeed(mend_question *q, const mend_request *asking, uint64_t size_bytes)
{
    mend_search *search = &q->heap->search;
    assert(!search->keeps_soft_limit);
    bool is_found = would_succeed_now(q, asking, size_bytes);
    if (!is_found && mend_budget_has_soft_limit(q->heap)) {
        search->keeps_soft_limit = true;
        is_found = would_succeed_now(q, asking, size_bytes);
        search->keeps_soft_limit = false;
    }
    return is_found;
}

/* The bytes that are free or can be created: no request above this can succeed. */
static uint64_t most_bytes_of(const mend_heap *heap)
{
    const uint64_t free_bytes = heap->chunks.reserved_bytes - mend_heap_awake_bytes(heap);
    return mend_min_u64(free_bytes + mend_budget_room_bytes(heap), MEND_LARGEST_REQUEST_BYTES);
}

/* By halving: a request of this size finds a place, and one of a granule more does not. */
uint64_t mend_largest(mend_question *q, const mend_request *asking)
{
    assert(mend_mutex_is_held(&q->heap->grow));
    uint64_t found = 0;
    uint64_t refused = most_bytes_of(q->heap) / MEND_GRANULE_BYTES + 1;
    while (refused - found > 1) {
        uint64_t middle = found + (refused - found) / 2;
        if (would_succeed(q, asking, middle * MEND_GRANULE_BYTES)) {
            found = middle;
        } else {
            refused = middle;
        }
    }
    return found * MEND_GRANULE_BYTES;
}

/* ---- instead of a request that was refused --------------------------------------------------- */

/* What the device was seen to have in the last search. What it refused and counts as free it does
 * not have. */
static uint64_t device_gives_bytes(const mend_heap *heap)
{
    const mend_shortage *shortage = &heap->shortage;
    if (heap->attainable.is_refused) {
        return heap->attainable.bytes - heap->chunks.reserved_bytes;
    }
    const uint64_t free_bytes =
        shortage->device_is_asked ? shortage->device_free_bytes : UINT64_MAX;
    const bool refuses_free_memory =
        shortage->refused_bytes > 0 && shortage->refused_bytes <= free_bytes;
    return refuses_free_memory ? 0 : free_bytes;
}

enum { MOST_PLANS = 2 };

/* Whether a plan that creates no more than it lacks finds a place. */
static bool can_be_joined(mend_question *q, const mend_request *refused, uint64_t size_bytes)
{
    mend_request request = *refused;
    request.size_bytes = size_bytes;
    request.requested_bytes = size_bytes;
    request.zone = MEND_ZONE_LARGE;
    request.may_break = true;
    request.behind_wait = MEND_ANY_FENCE;
    return finds_plan(q, &request, ways[EXTEND_AND_CREATE]) || finds_behind(q, &request);
}

/* Of a run that could be continued: the usable bytes of the chunk in which its usable end begins.
 * The others are empty chunks. */
static uint64_t bytes_beside_empty(mend_heap *heap, const mend_request *request, mend_run *run)
{
    const uint64_t from = mend_plan_usable_from(heap, request, run);
    if (from == mend_run_end(run)) {
        return 0;
    }
    const mend_chunk *chunk = mend_run_chunk_at(heap, run, from);
    return from == chunk->address ? 0 : chunk->address + chunk->size_bytes - from;
}

/* The most of the longest few. */
static uint64_t end_bytes(mend_heap *heap, const mend_request *refused)
{
    mend_request request = *refused;
    request.behind_wait = MEND_ANY_FENCE;
    uint64_t most_bytes = 0;
    mend_run *run = mend_layout_growing_below(&heap->zones[MEND_ZONE_LARGE], refused->size_bytes);
    for (int tries = 0; run != NULL && tries < SEARCH_TRIES; tries++) {
        mend_raise_u64(&most_bytes, bytes_beside_empty(heap, &request, run));
        run = mend_layout_growing_smaller(run);
    }
    return most_bytes;
}

/* The largest chunk that could be created, where empty chunks are given back for it: not in a
 * capture, nor as far as others get them. */
static uint64_t one_chunk_bytes(const mend_question *q, uint64_t empty_bytes)
{
    const mend_heap *heap = q->heap;
    const uint64_t owed_bytes = heap->shortage.owed_bytes;
    const uint64_t given_bytes = q->is_captured ? 0 : empty_bytes;
    const uint64_t room_bytes = owed_bytes > 0 ? 0 : mend_budget_room_bytes(heap);
    const uint64_t gone_bytes = mend_max_u64(mend_budget_over_bytes(heap), owed_bytes);
    const uint64_t most_bytes = given_bytes + room_bytes;
    return mend_align_down(most_bytes - mend_min_u64(gone_bytes, most_bytes),
                           heap->device.granularity_bytes);
}

/*
 * Two sizes at most, because many programs go on after a refusal and make the same request again:
 * all empty chunks with what can be created, behind a free end; the same without that. What lies in
 * one run needs no plan.
 */
static uint64_t find_instead(mend_question *q, const mend_request *refused,
                             const mend_usable *usable)
{
    mend_heap *heap = q->heap;
    const uint64_t most_bytes = refused->size_bytes - MEND_GRANULE_BYTES;
    const uint64_t longest_bytes = mend_min_u64(usable->longest_bytes, most_bytes);
    const uint64_t created_bytes =
        mend_align_down(mend_budget_room_bytes(heap), heap->device.granularity_bytes);
    const uint64_t joined_bytes = usable->empty_bytes + created_bytes;
    if (refused->in_one_chunk) {
        const uint64_t one_bytes = one_chunk_bytes(q, usable->empty_bytes);
        return mend_max_u64(longest_bytes, mend_min_u64(one_bytes, most_bytes));
    }
    const uint64_t sizes[MOST_PLANS] = {joined_bytes + end_bytes(heap, refused), joined_bytes};
    for (int i = 0; i < MOST_PLANS; i++) {
        const uint64_t bytes = mend_min_u64(sizes[i], most_bytes);
        const bool is_new = i == 0 || sizes[i] < mend_min_u64(sizes[i - 1], most_bytes);
        if (bytes > longest_bytes && is_new && can_be_joined(q, refused, bytes)) {
            return bytes;
        }
    }
    return longest_bytes;
}

/* The size of all pages of a request; 0: they differ. */
static uint64_t page_of_all(const mend_parts *pages)
{
    const uint64_t page_bytes = pages->items[0].range->page_bytes;
    for (size_t i = 1; i < pages->count; i++) {
        if (pages->items[i].range->page_bytes != page_bytes) {
            return 0;
        }
    }
    return page_bytes;
}

/* Of a commit that was refused: the bytes of fewer pages that would have found memory, with waits
 * of the host, and without unmapping in a capture; 0: none, or not known. */
static uint64_t pages_that_fit(const mend_heap *heap, const mend_request *request,
                               const mend_usable *usable)
{
    const uint64_t page_bytes = page_of_all(request->pages);
    const uint64_t limit_bytes = mend_budget_limit_of_chunks(heap);
    if (page_bytes == 0) {
        return 0;
    }
    const uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    const uint64_t created_bytes = mend_min_u64(
        limit_bytes - mend_min_u64(reserved_bytes, limit_bytes), device_gives_bytes(heap));
    const uint64_t usable_bytes =
        usable->empty_bytes + mend_align_down(created_bytes, heap->device.granularity_bytes);
    const uint64_t over_bytes = reserved_bytes - mend_min_u64(reserved_bytes, limit_bytes);
    const uint64_t owed_bytes = mend_max_u64(over_bytes, heap->shortage.owed_bytes);
    const uint64_t bytes =
        mend_align_down(usable_bytes - mend_min_u64(owed_bytes, usable_bytes), page_bytes);
    return bytes < request->size_bytes ? bytes : 0;
}

uint64_t mend_largest_instead(mend_heap *heap, const mend_request *refused, bool is_captured,
                              const mend_usable *usable)
{
    mend_question q = {.heap = heap, .is_captured = is_captured};
    if (refused->pages != NULL) {
        return pages_that_fit(heap, refused, usable);
    }
    const mend_attainable known = heap->attainable;
    const bool spends_last_room = heap->search.spends_last_room;
    assert(!heap->streams.looks_ahead);
    if (heap->shortage.device_is_asked) {
        mend_attainable_assume(heap, heap->chunks.reserved_bytes + device_gives_bytes(heap));
    }
    heap->streams.looks_ahead = !is_captured;
    heap->search.spends_last_room = heap->chunks.missing_count == 0;
    const uint64_t plans_before = heap->budget.plans;
    const uint64_t fitting_bytes = find_instead(&q, refused, usable);
    assert(heap->budget.plans - plans_before <= MOST_PLANS);
    (void)plans_before;
    heap->search.spends_last_room = spends_last_room;
    heap->streams.looks_ahead = false;
    mend_attainable_restore(heap, known);
    return fitting_bytes;
}

/* What is given back can be created again, in one chunk or as pages; what is above the limit, or
 * beyond what the pool can hold, cannot. */
static bool can_be_made_again(const mend_heap *heap, const mend_request *request,
                              uint64_t empty_bytes)
{
    return empty_bytes + mend_budget_room_bytes(heap) >=
           mend_align_up(request->size_bytes, heap->device.granularity_bytes) +
               mend_budget_over_bytes(heap);
}

bool mend_largest_would_serve(mend_heap *heap, const mend_request *refused,
                              const mend_usable *usable, uint64_t attainable_bytes)
{
    mend_question q = {.heap = heap};
    mend_request later = *refused;
    const mend_attainable known = heap->attainable;
    const bool spends_last_room = heap->search.spends_last_room;
    const bool is_made_again = mend_request_makes_chunks(refused);
    assert(!heap->streams.looks_ahead);
    later.behind_wait = MEND_ANY_FENCE;
    heap->streams.looks_ahead = true;
    heap->search.spends_last_room = heap->chunks.missing_count == 0;
    mend_attainable_assume(heap, attainable_bytes);
    const bool is_served = is_made_again ? can_be_made_again(heap, refused, usable->empty_bytes)
                                         : would_succeed(&q, &later, refused->size_bytes);
    heap->search.spends_last_room = spends_last_room;
    heap->streams.looks_ahead = false;
    mend_attainable_restore(heap, known);
    return is_served;
}
