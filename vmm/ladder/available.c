/*
 * How much could be allocated now: the largest request that would succeed, and what else a program
 * must know to plan with it.
 */
#include "ladder/ladder.h"

#include "move/move.h"
#include "policy/policy.h"
#include "users/users.h"

/* A capture forbids waits for the context, but not for its events; nor, which a request without a
 * stream waits for too, for those of streams. */
static bool may_wait_in_capture(const mend_streams *streams, const mend_request *asking)
{
    bool has_event = streams->context_event_count > 0;
    MEND_SLOTS_EACH_IN(i, streams, MEND_SLOTS_UNPASSED) {
        has_event |= asking->stream == MEND_STREAM_UNKNOWN && streams->items[i].fence_count > 0;
    }
    return has_event;
}

/* Restores what asking would change, so that later requests do not depend on who has asked. */
static mend_result fill(mend_heap *heap, const mend_request *asking, bool is_captured,
                        mend_room *room)
{
    mend_question q = {.heap = heap, .is_captured = is_captured};
    q.creates_nothing = mend_ladder_owes_much(heap, asking) &&
                        mend_ladder_waits_on_host(heap, asking) && !mend_process_has_begun() &&
                        (!is_captured || may_wait_in_capture(&heap->streams, asking));
    mend_room found = *room;
    mend_shortage shortage = heap->shortage;
    const mend_attainable known = heap->attainable;
    mend_attainable_learn(heap);
    found.device_free_bytes = heap->shortage.device_free_bytes;
    found.group_bytes = mend_report_group_bytes(heap);
    found.pinned_bytes = mend_chunks_kept_by_pins(&heap->chunks);
    found.now_bytes = mend_largest(&q, asking);
    q.creates_nothing = false;
    heap->streams.looks_ahead = !is_captured;
    mend_request waiting = *asking;
    waiting.behind_wait = MEND_ANY_FENCE;
    found.after_waiting_bytes = mend_max_u64(mend_largest(&q, &waiting), found.now_bytes);
    heap->streams.looks_ahead = false;
    heap->shortage = shortage;
    mend_attainable_restore(heap, known);
    if (q.lacks_host_memory) {
        return mend_no_host_memory("a plan");
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

static mend_result ask(mend_heap *heap, mend_request *asking, mend_room *room)
{
    bool is_captured = false;
    MEND_TRY(mend_ladder_refresh(heap, asking));
    MEND_TRY(refresh_own(heap, asking));
    bool may_wait = false;
    MEND_TRY(mend_ladder_may_wait_behind(heap, asking, &may_wait));
    asking->behind_wait = may_wait ? MEND_ANY_FENCE : 0;
    MEND_TRY(mend_streams_find_capture(&heap->streams, asking->stream, &is_captured));
    return fill(heap, asking, is_captured, room);
}

static mend_result look(mend_heap *heap, mend_request *asking, mend_room *room)
{
    mend_capture_groups_collect(heap);
    heap->streams.asks_any = asking->stream == MEND_STREAM_UNKNOWN;
    heap->streams.may_be_several |= heap->streams.asks_any;
    if (asking->group != 0) {
        mend_group_show_chunks(heap, asking->group);
        heap->chunks.parks_none = true;
    }
    mend_result result = ask(heap, asking, room);
    heap->streams.asks_any = false;
    heap->chunks.parks_none = false;
    return result;
}

/* The driver gives memory of its own in steps. */
#define PASSED_STEP_BYTES (2 * MEND_MIB)

/* A pool that passes its requests through has no memory beside blocks. */
static mend_result room_of_passed(mend_heap *heap, mend_room *room)
{
    const uint64_t limit_bytes = mend_budget_limit_of_chunks(heap);
    mend_driver_scope scope;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    const mend_result result = mend_driver_result(
        heap, MEND_ANSWER(memory_info,
                          heap->driver->memory_info(heap->driver, &free_bytes, &total_bytes)));
    mend_driver_scope_close(heap, &scope);
    if (result == MEND_OK) {
        room->device_free_bytes = free_bytes;
        room->now_bytes = mend_min_u64(mend_align_down(free_bytes, PASSED_STEP_BYTES),
                                       mend_align_down(limit_bytes, MEND_GRANULE_BYTES));
        room->after_waiting_bytes = room->now_bytes;
    }
    return result;
}

mend_result mend_ladder_get_room(mend_heap *heap, mend_order order, mend_room *room)
{
    mend_request asking = {
        .alignment_bytes = MEND_GRANULE_BYTES, .handle = order.stream, .capture = order.capture};
    if (order.stream == MEND_EVERY_STREAM) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "MEND_EVERY_STREAM is for mend_group_begin");
    }
    if (heap->config.passes != MEND_PASSES_NONE) {
        return room_of_passed(heap, room);
    }
    if (order.stream != MEND_NO_STREAM) { /* it would count as a request */
        MEND_TRY(mend_requester_find(heap, &asking));
    }
    mend_driver_scope scope;
    MEND_TRY(mend_enter(heap, &scope));
    mend_result result = look(heap, &asking, room);
    mend_driver_scope_close(heap, &scope);
    return result;
}
