#include "ladder/largest.h"

#include <assert.h>

#include "ladder/report.h"
#include "move/trim.h"
#include "policy/budget.h"
#include "policy/fit.h"
#include "policy/planner.h"

/* The plans that create no more than the request lacks: if these fail, all others fail too. */
static const mend_plan_rules ways[] = {
    {.may_extend = true, .may_move = true},
    {.may_extend = true, .may_create = true, .may_move = true, .exact = true},
    {.may_create = true, .may_move = true, .exact = true},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]), EXTEND_AND_CREATE = 1 };

static bool finds_plan(mend_question *q, const mend_request *request, mend_plan_rules rules)
{
    mend_plan plan;
    bool is_found = mend_plan_find(q->heap, request, rules, &plan);
    q->lacks_host_memory = q->lacks_host_memory || plan.lacks_host_memory;
    mend_plan_clear(&plan);
    return is_found;
}

/* Whether a request would find its place once an empty chunk of the wrong size is given back, as
 * mend_place does while pressure is critical. */
static bool finds_remade(mend_question *q, const mend_request *request)
{
    mend_heap *heap = q->heap;
    mend_request whole = *request;
    whole.may_break = false;
    if (request->zone != MEND_ZONE_LARGE || mend_budget_pressure(heap) != MEND_PRESSURE_CRITICAL) {
        return false;
    }
    mend_plan plan;
    bool is_found = mend_plan_find(heap, &whole, ways[EXTEND_AND_CREATE], &plan);
    bool could_be =
        !is_found && !plan.lacks_host_memory && mend_trim_finds_one(heap, &plan, !q->is_captured);
    q->lacks_host_memory = q->lacks_host_memory || plan.lacks_host_memory;
    mend_plan_clear(&plan);
    return could_be;
}

/* Whether free ends of partly used chunks would make a place, as after all other ways. */
static bool finds_ends(mend_question *q, const mend_request *request)
{
    if (!mend_ends_are_open(q->heap, request)) {
        return false;
    }
    mend_ends *ends = &q->ends[request->behind_wait];
    if (ends->heads == NULL && !mend_ends_gather(q->heap, request, ends)) {
        q->lacks_host_memory = true;
        return false;
    }
    mend_plan plan;
    bool is_found = mend_ends_find(q->heap, request, ends, &plan);
    q->lacks_host_memory = q->lacks_host_memory || plan.lacks_host_memory;
    mend_plan_clear(&plan);
    return is_found;
}

/* Asks the planner, but carries nothing out. Behind device waits it looks only at the runs that fit
 * best, as a request does. */
static bool finds_place(mend_question *q, const mend_request *request)
{
    mend_heap *heap = q->heap;
    bool looks_anywhere =
        !q->creates_nothing && (!request->behind_wait || heap->streams.looks_ahead);
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
    return !q->creates_nothing && (finds_remade(q, request) || finds_ends(q, request));
}

static bool would_succeed_in(mend_question *q, const mend_request *asking, uint64_t size_bytes,
                             int zone)
{
    mend_request request = *asking;
    request.size_bytes = size_bytes;
    request.requested_bytes = size_bytes;
    request.may_break = !q->creates_nothing;
    request.creates_nothing = q->creates_nothing;
    request.zone = zone;
    request.behind_wait = q->heap->streams.looks_ahead;
    if (finds_place(q, &request)) {
        return true;
    }
    request.behind_wait = asking->behind_wait;
    return request.behind_wait && finds_place(q, &request);
}

/* A small request that has no other place is placed as a large one. */
static bool would_succeed(mend_question *q, const mend_request *asking, uint64_t size_bytes)
{
    const bool is_small = size_bytes <= q->heap->config.placement.small_request_bytes;
    return (is_small && would_succeed_in(q, asking, size_bytes, MEND_ZONE_SMALL)) ||
           would_succeed_in(q, asking, size_bytes, MEND_ZONE_LARGE);
}

/* By halving: a request of this size finds a place, and one of a granule more does not. */
uint64_t mend_largest_up_to(mend_question *q, const mend_request *asking, uint64_t most_bytes)
{
    assert(mend_mutex_is_held(&q->heap->grow));
    uint64_t found = 0;
    uint64_t refused = most_bytes / MEND_GRANULE_BYTES + 1;
    while (refused - found > 1) {
        uint64_t middle = found + (refused - found) / 2;
        if (would_succeed(q, asking, middle * MEND_GRANULE_BYTES)) {
            found = middle;
        } else {
            refused = middle;
        }
    }
    mend_ends_clear(&q->ends[false]);
    mend_ends_clear(&q->ends[true]);
    return found * MEND_GRANULE_BYTES;
}

uint64_t mend_largest_thinkable(const mend_heap *heap)
{
    uint64_t free_bytes = heap->chunks.reserved_bytes - mend_heap_awake_bytes(heap);
    return mend_min_u64(free_bytes + mend_budget_room_bytes(heap), MEND_LARGEST_REQUEST_BYTES);
}

/* ---- instead of a request that was refused ------------------------------------------------------
 */

/* What the last search learnt of the device counts. If the driver refused what it counts as free,
 * nothing can be created. */
static void count_what_the_device_has(mend_heap *heap)
{
    const mend_shortage *shortage = &heap->shortage;
    bool is_strange =
        shortage->refused_bytes != 0 && shortage->refused_bytes <= shortage->device_free_bytes;
    uint64_t free_bytes = is_strange ? 0 : shortage->device_free_bytes;
    if (shortage->device_is_asked) {
        heap->budget.attainable.is_known = true;
        heap->budget.attainable.bytes = heap->chunks.reserved_bytes + free_bytes;
    }
}

uint64_t mend_largest_instead(mend_heap *heap, const mend_request *refused, bool is_captured)
{
    mend_question q = {.heap = heap, .is_captured = is_captured};
    if (refused->range != NULL) {
        return is_captured ? 0 : mend_report_pages_that_fit(heap, refused);
    }
    mend_request waiting = *refused;
    mend_attainable attainable = heap->budget.attainable;
    bool spends_last_room = heap->budget.spends_last_room;
    assert(!heap->streams.looks_ahead);
    count_what_the_device_has(heap);
    waiting.behind_wait = true;
    heap->streams.looks_ahead = !is_captured;
    heap->budget.spends_last_room = heap->chunks.missing_count == 0;
    uint64_t most_bytes = mend_min_u64(mend_largest_thinkable(heap), refused->size_bytes - 1);
    uint64_t fitting_bytes = mend_largest_up_to(&q, &waiting, most_bytes);
    heap->budget.spends_last_room = spends_last_room;
    heap->streams.looks_ahead = false;
    heap->budget.attainable = attainable;
    return q.lacks_host_memory ? 0 : fitting_bytes;
}
