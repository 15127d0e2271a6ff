#include "ladder/available.h"
#include "users/capture_group.h"
#include "users/requester.h"

#include "base/error.h"
#include "ladder/ladder.h"
#include "move/attainable.h"
#include "move/remap.h"
#include "move/scope.h"
#include "physical/capture.h"
#include "policy/budget.h"
#include "policy/fit.h"
#include "policy/planner.h"

/* The plans that create no more than the request lacks: if these fail, all others fail too. */
static const mend_plan_rules ways[] = {
    {.may_extend = true, .may_move = true},
    {.may_extend = true, .may_create = true, .may_move = true, .exact = true},
    {.may_create = true, .may_move = true, .exact = true},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

typedef struct question {
    mend_heap *heap;
    bool lacks_host_memory; /* the answer failed because malloc failed */
} question;

static bool finds_plan(question *q, const mend_request *request, mend_plan_rules rules)
{
    mend_plan plan;
    bool is_found = mend_plan_find(q->heap, request, rules, &plan);
    q->lacks_host_memory = q->lacks_host_memory || plan.lacks_host_memory;
    mend_plan_clear(&plan);
    return is_found;
}

/* Asks the planner, but carries nothing out. Behind device waits it looks only at the runs that fit
 * best, as a request does. */
static bool finds_place(question *q, const mend_request *request)
{
    mend_heap *heap = q->heap;
    bool looks_anywhere = !request->behind_wait || heap->streams.looks_ahead;
    for (int zone = request->zone; zone < MEND_ZONE_COUNT; zone++) {
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
    return false;
}

static bool would_succeed(question *q, const mend_request *asking, uint64_t size_bytes)
{
    mend_request request = *asking;
    request.size_bytes = size_bytes;
    request.requested_bytes = size_bytes;
    request.may_break = true;
    request.zone =
        size_bytes <= q->heap->config.small_request_bytes ? MEND_ZONE_SMALL : MEND_ZONE_LARGE;
    request.behind_wait = q->heap->streams.looks_ahead;
    if (finds_place(q, &request)) {
        return true;
    }
    request.behind_wait = asking->behind_wait;
    return request.behind_wait && finds_place(q, &request);
}

/* By halving: a request of this size finds a place, and one of a granule more does not. */
static uint64_t largest(question *q, const mend_request *asking)
{
    const mend_heap *heap = q->heap;
    uint64_t free_bytes = heap->chunks.reserved_bytes - heap->counters.live_bytes;
    uint64_t most_bytes =
        mend_min_u64(free_bytes + mend_budget_room_bytes(heap), MEND_LARGEST_REQUEST_BYTES);
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
    return found * MEND_GRANULE_BYTES;
}

/* Restores what asking would change, so that later requests do not depend on who has asked. */
static mend_result fill(mend_heap *heap, const mend_request *asking, bool is_captured,
                        mend_room *room)
{
    question q = {heap, false};
    mend_room found = *room;
    mend_shortage shortage = heap->shortage;
    mend_attainable attainable = heap->budget.attainable;
    mend_attainable_learn(heap);
    found.device_free_bytes = heap->shortage.device_free_bytes;
    bool served_any = heap->streams.serves_any;
    heap->streams.serves_any = served_any || asking->stream == MEND_STREAM_UNKNOWN;
    found.group_bytes = mend_ladder_group_bytes(heap);
    found.pinned_bytes = mend_chunks_kept_by_pins(&heap->chunks);
    found.now_bytes = largest(&q, asking);
    heap->streams.looks_ahead = !is_captured;
    mend_request waiting = *asking;
    waiting.behind_wait = true;
    found.after_waiting_bytes = mend_max_u64(largest(&q, &waiting), found.now_bytes);
    heap->streams.looks_ahead = false;
    heap->streams.serves_any = served_any;
    heap->shortage = shortage;
    heap->budget.attainable = attainable;
    if (q.lacks_host_memory) {
        return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a plan");
    }
    *room = found;
    return MEND_OK;
}

static mend_result look(mend_heap *heap, mend_request *asking, mend_room *room)
{
    bool is_captured = false;
    mend_result result = mend_ladder_refresh(heap, asking);
    if (result == MEND_OK) {
        result = mend_ladder_may_wait_behind(heap, asking, &asking->behind_wait);
    }
    if (result == MEND_OK) {
        result = mend_streams_find_capture(&heap->streams, asking->stream, &is_captured);
    }
    if (result == MEND_OK) {
        result = fill(heap, asking, is_captured, room);
    }
    return result;
}

mend_result mend_ladder_get_room(mend_heap *heap, mend_order order, mend_room *room)
{
    mend_request asking = {
        .alignment_bytes = MEND_GRANULE_BYTES, .handle = order.stream, .capture = order.capture};
    mend_result result = MEND_OK;
    if (order.stream == MEND_EVERY_STREAM) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "MEND_EVERY_STREAM is for mend_group_begin");
    }
    if (order.stream != MEND_NO_STREAM) { /* it would count as a request */
        result = mend_requester_find(heap, &asking);
    }
    mend_scope scope;
    result = result == MEND_OK ? mend_scope_open(heap, &scope) : result;
    if (result == MEND_OK) {
        mend_capture_groups_collect(heap);
        mend_remap_try(heap); /* as a request does before it makes room */
        result = look(heap, &asking, room);
        mend_scope_close(heap, &scope);
    }
    return result;
}

/* ---- parts of the answer for others -------------------------------------------------------------
 */

#define RUN_OF(node) MEND_CONTAINER_OF(node, mend_run, by_address)

static bool is_held_by_group(const mend_heap *heap, const mend_span *span)
{
    unsigned holds = mend_waits_blocked_by(&heap->streams, &span->waits, MEND_STREAM_UNKNOWN);
    return (holds & MEND_BLOCKED_BY_GROUPS) != 0;
}

uint64_t mend_ladder_group_bytes(const mend_heap *heap)
{
    uint64_t bytes = 0;
    for (int i = 0; i < MEND_ZONE_COUNT && heap->groups.count > 0; i++) {
        const mend_zone *zone = &heap->zones[i];
        const mend_tree_node *at = mend_tree_first(&zone->runs_by_address);
        for (; at != NULL; at = mend_tree_next(at)) {
            const mend_span *end = RUN_OF(at)->last->next;
            for (const mend_span *span = RUN_OF(at)->first; span != end; span = span->next) {
                bytes += is_held_by_group(heap, span) ? span->size_bytes : 0;
            }
        }
        for (uint32_t k = 0; k < zone->cache.count; k++) {
            const mend_span *span = zone->cache.spans[k];
            bytes += is_held_by_group(heap, span) ? span->size_bytes : 0;
        }
    }
    return bytes;
}
