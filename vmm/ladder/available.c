/*
 * How much could be allocated now: the largest request that would succeed, and what else a program
 * must know to plan with it.
 */
#include "ladder/ladder.h"

#include "base/error.h"
#include "move/driver_scope.h"
#include "move/move.h"
#include "physical/waits.h"
#include "policy/policy.h"
#include "users/users.h"

/* Restores what asking would change, so that later requests do not depend on who has asked. */
static mend_result fill(mend_heap *heap, const mend_request *asking, bool is_captured,
                        mend_room *room)
{
    mend_question q = {.heap = heap, .is_captured = is_captured};
    q.creates_nothing = mend_ladder_owes_much(heap, asking) &&
                        mend_ladder_waits_on_host(heap, asking) &&
                        (!is_captured || heap->streams.context_event_count > 0);
    mend_room found = *room;
    mend_shortage shortage = heap->shortage;
    mend_attainable attainable = heap->budget.attainable;
    mend_attainable_learn(heap);
    found.device_free_bytes = heap->shortage.device_free_bytes;
    found.group_bytes = mend_ladder_group_bytes(heap);
    found.pinned_bytes = mend_chunks_kept_by_pins(&heap->chunks);
    found.now_bytes = mend_largest_up_to(&q, asking, mend_largest_thinkable(heap));
    q.creates_nothing = false;
    heap->streams.looks_ahead = !is_captured;
    mend_request waiting = *asking;
    waiting.behind_wait = true;
    found.after_waiting_bytes = mend_max_u64(
        mend_largest_up_to(&q, &waiting, mend_largest_thinkable(heap)), found.now_bytes);
    heap->streams.looks_ahead = false;
    heap->shortage = shortage;
    heap->budget.attainable = attainable;
    if (q.lacks_host_memory) {
        return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a plan");
    }
    *room = found;
    return MEND_OK;
}

/* As a request does that gives a chunk back to create another: it asks what is idle, also of its
 * own stream. */
static mend_result refresh_own(mend_heap *heap, const mend_request *asking)
{
    if (asking->stream == MEND_STREAM_UNKNOWN ||
        mend_budget_pressure(heap) != MEND_PRESSURE_CRITICAL) {
        return MEND_OK;
    }
    mend_result result = mend_streams_close_epoch(&heap->streams, asking->stream);
    mend_streams_poll(&heap->streams);
    return result;
}

static mend_result look(mend_heap *heap, mend_request *asking, mend_room *room)
{
    bool is_captured = false;
    heap->streams.asks_any = asking->stream == MEND_STREAM_UNKNOWN;
    mend_group_show_chunks(heap, asking->group);
    heap->chunks.parks_none = asking->group != 0;
    mend_result result = mend_ladder_refresh(heap, asking);
    if (result == MEND_OK) {
        result = refresh_own(heap, asking);
    }
    if (result == MEND_OK) {
        result = mend_ladder_may_wait_behind(heap, asking, &asking->behind_wait);
    }
    if (result == MEND_OK) {
        result = mend_streams_find_capture(&heap->streams, asking->stream, &is_captured);
    }
    if (result == MEND_OK) {
        result = fill(heap, asking, is_captured, room);
    }
    heap->streams.asks_any = false;
    heap->chunks.parks_none = false;
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
    mend_driver_scope scope;
    result = result == MEND_OK ? mend_enter(heap, &scope) : result;
    if (result == MEND_OK) {
        mend_capture_groups_collect(heap);
        bool any;
        result = mend_dissolve_aliases(heap, &any);
        result = result == MEND_OK ? look(heap, &asking, room) : result;
        mend_driver_scope_close(heap, &scope);
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
