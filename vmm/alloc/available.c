/*
 * An estimate of the memory that could be allocated now, and its parts.
 */
#include "alloc/fallback.h"

#include "alloc/users.h"
#include "map/map.h"
#include "plan/policy.h"

static void fill(mend_heap *heap, const mend_request *asking, bool is_captured,
                 mend_available *available)
{
    mend_effective_limit_learn(heap);
    available->device_free_bytes = heap->shortage.device_free_bytes;
    available->graph_pool_bytes = mend_report_graph_pool_bytes(heap);
    available->pinned_bytes = mend_chunks_kept_by_pins(&heap->chunks);
    mend_request now = *asking;
    now.creates_nothing =
        mend_fallback_awaits_much(heap, asking) && mend_fallback_waits_on_host(heap, asking);
    available->now_bytes = mend_report_room_bytes(heap, &now, false);
    available->after_waiting_bytes = mend_report_room_bytes(heap, asking, !is_captured);
}

/* Also with one stream: a request without a stream needs idle memory. */
static mend_result look(mend_heap *heap, mend_request *asking, mend_available *available)
{
    bool is_captured = false;
    mend_capture_graph_pools_collect(heap);
    mend_retire_flush(heap, asking->stream);
    MEND_TRY(mend_fallback_ask_others(heap, asking));
    MEND_TRY(mend_streams_find_capture(&heap->streams, asking->stream, &is_captured));
    fill(heap, asking, is_captured, available);
    return MEND_OK;
}

/* The driver gives memory of its own in steps. */
#define PASSED_STEP_BYTES (2 * MEND_MIB)

/* A pool that passes its requests through has no memory beside blocks. */
static mend_result room_of_passed(mend_heap *heap, mend_available *available)
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
        available->device_free_bytes = free_bytes;
        available->now_bytes = mend_min_u64(mend_align_down(free_bytes, PASSED_STEP_BYTES),
                                            mend_align_down(limit_bytes, MEND_GRANULE_BYTES));
        available->after_waiting_bytes = available->now_bytes;
    }
    return result;
}

mend_result mend_fallback_get_available(mend_heap *heap, mend_order order,
                                        mend_available *available)
{
    mend_request asking = {
        .alignment_bytes = MEND_GRANULE_BYTES, .handle = order.stream, .capture = order.capture};
    if (order.stream == MEND_EVERY_STREAM) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "MEND_EVERY_STREAM is for mend_graph_pool_begin");
    }
    if (heap->config.passes != MEND_PASSES_NONE) {
        return room_of_passed(heap, available);
    }
    if (order.stream != MEND_NO_STREAM) { /* it would count as a request */
        MEND_TRY(mend_requester_find(heap, &asking));
    }
    mend_driver_scope scope;
    MEND_TRY(mend_enter(heap, &scope));
    mend_result result = look(heap, &asking, available);
    mend_driver_scope_close(heap, &scope);
    return result;
}
