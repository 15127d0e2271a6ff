/*
 * The rung of continued ends: what no other plan serves begins or ends in free memory of partly
 * used chunks (policy/policy.h).
 */
#include "ladder/ladder.h"

#include "move/move.h"
#include "policy/policy.h"

static mend_outcome try_once(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_ends ends;
    mend_plan plan = {0};
    mend_outcome outcome = MEND_NOTHING;
    heap->shortage.no_addresses = MEND_DRIVER_OK;
    bool has_memory = mend_ends_gather(heap, request, &ends);
    bool is_found = has_memory && mend_ends_find(heap, request, &ends, &plan);
    mend_ends_clear(&ends);
    if (is_found) {
        outcome = mend_grow(heap, request, &plan, span);
    } else if (!has_memory || plan.lacks_host_memory) {
        outcome = mend_outcome_without_host_memory();
    }
    mend_plan_clear(&plan);
    return outcome;
}

/* If the driver has less memory than was known, a plan that creates less may be found; and idle
 * chunks give addresses. A small request is a large one here. */
mend_outcome mend_continue_ends(mend_heap *heap, const mend_request *asking, mend_span **span)
{
    mend_request as_large = *asking;
    const mend_request *request = &as_large;
    as_large.zone = asking->zone == MEND_ZONE_SMALL ? MEND_ZONE_LARGE : asking->zone;
    if (!mend_ends_are_open(heap, request)) {
        return MEND_NOTHING;
    }
    const uint64_t limit_bytes = mend_budget_limit(heap);
    const mend_status had_addresses = heap->shortage.no_addresses;
    mend_outcome outcome = try_once(heap, request, span);
    bool lacks_addresses = outcome == MEND_NOTHING && heap->shortage.no_addresses != MEND_DRIVER_OK;
    bool goes_on = outcome == MEND_NOTHING && mend_budget_limit(heap) < limit_bytes;
    if (goes_on || (lacks_addresses && mend_trim_addresses(heap, request->stream))) {
        outcome = try_once(heap, request, span);
    }
    if (outcome == MEND_NOTHING && heap->shortage.no_addresses == MEND_DRIVER_OK) {
        heap->shortage.no_addresses = had_addresses;
    }
    return outcome;
}
