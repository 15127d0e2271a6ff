/*
 * One try to place a request: in a mapped run, in moved empty chunks, in new chunks, and behind
 * memory that the stream may not use. The fallback chain makes more memory free (alloc/heap.h).
 */
#include "alloc/heap.h"

#include "plan/constants.h"

/* ---- in mapped memory ------------------------------------------------------------------------ */

/* Takes the place, if there is one, and counts it. During a driver call other threads may have used
 * the reserved nodes, so it reserves again. */
static mend_outcome take(mend_heap *heap, const mend_request *request, mend_fit fit,
                         uint64_t *counter, mend_span **span)
{
    if (fit.run == NULL) {
        return MEND_NOTHING;
    }
    if (!mend_layout_reserve(heap, 0)) {
        return mend_outcome_without_host_memory();
    }
    if (request->behind_wait != 0) {
        mend_result result = mend_layout_make_ready(heap, fit.run, fit.address, request->size_bytes,
                                                    request->stream);
        if (result != MEND_OK) {
            return mend_outcome_of(result);
        }
    }
    assert(fit.address >= fit.run->address);
    assert(fit.address + request->size_bytes <= mend_run_end(fit.run));
    *span = mend_layout_take(heap, fit.run, fit.address, request->size_bytes, request->home);
    (*counter)++;
    return MEND_PLACED;
}

/* The best place in one zone among runs not above `largest_bytes`. */
static mend_outcome take_fit(mend_heap *heap, const mend_request *request, int zone,
                             uint64_t largest_bytes, mend_span **span)
{
    mend_cache_flush_from(heap, zone, request->size_bytes);
    return take(heap, request, mend_fit_find(heap, request, zone, largest_bytes),
                &heap->counters.placed_in_run, span);
}

/* Between the ends of runs, which both wait for other streams: so streams share a chunk. */
static mend_outcome place_between(mend_heap *heap, const mend_request *request, mend_span **span)
{
    return take(heap, request, mend_fit_find_between(heap, request, request->zone, UINT64_MAX),
                &heap->counters.placed_in_run, span);
}

mend_outcome mend_place_mapped(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_outcome outcome = take_fit(heap, request, request->zone, UINT64_MAX, span);
    if (outcome == MEND_NOTHING && request->zone == MEND_ZONE_SMALL) {
        outcome =
            take_fit(heap, request, MEND_ZONE_LARGE, SMALL_CHUNK_BYTES / PAGES_OF_CHUNK, span);
    }
    return outcome == MEND_NOTHING && heap->streams.known_count > MANY_STREAMS &&
                   !request->in_one_chunk
               ? place_between(heap, request, span)
               : outcome;
}

mend_outcome mend_place_in_stretch(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_outcome outcome = MEND_NOTHING;
    mend_request anywhere = *request;
    anywhere.leaves_home = true;
    for (int zone = request->zone; outcome == MEND_NOTHING && zone < MEND_ZONES_OF_BLOCKS; zone++) {
        outcome = take(heap, &anywhere, mend_fit_find_anywhere(heap, &anywhere, zone),
                       &heap->counters.placed_in_run, span);
    }
    return outcome;
}

/* ---- by a plan ------------------------------------------------------------------------------- */

/* Carries out a plan, if one was found. */
static mend_outcome carry_out(mend_heap *heap, const mend_request *request, bool is_found,
                              mend_plan *plan, mend_span **span)
{
    if (plan->refused_bytes != 0) {
        mend_budget_note_lack(heap, plan->refused_bytes);
    }
    if (is_found) {
        return mend_grow(heap, request, plan, span);
    }
    return plan->lacks_host_memory ? mend_outcome_without_host_memory() : MEND_NOTHING;
}

/* The plans for a large request, from the cheapest to the smallest creation. A small request has
 * the last alone. */
static const mend_plan_rules ways[] = {
    {.may_extend = true, .may_move = true},
    {.may_extend = true, .may_create = true, .may_move = true},
    {.may_extend = true, .may_create = true, .may_move = true, .exact = true},
    {.may_create = true, .may_move = true, .exact = true},
};
enum { FREE_ONLY, CREATES, EXACTLY, EXACTLY_ELSEWHERE, WAYS };
static_assert(WAYS == sizeof(ways) / sizeof(ways[0]), "each has a name");

/* Maps the gaps of a bridge one after the other, and takes the place. Other threads may have used
 * its runs meanwhile. */
static mend_outcome build_bridge(mend_heap *heap, const mend_request *request,
                                 const mend_bridge *bridge, mend_span **span)
{
    mend_plan plan;
    mend_span *none = NULL;
    mend_outcome outcome = MEND_PLACED;
    uint64_t *counter = &heap->counters.placed_in_run; /* one run has it all */
    while (outcome == MEND_PLACED && mend_bridge_plan(heap, request, bridge, &plan)) {
        outcome = carry_out(heap, request, true, &plan, &none);
        counter = &heap->counters.placed_by_extension;
        mend_plan_clear(&plan);
    }
    mend_plan_clear(&plan);
    if (outcome != MEND_PLACED) {
        return outcome;
    }
    mend_run *run = mend_layout_run_at(&heap->zones[request->zone], bridge->address);
    const uint64_t end = bridge->address + request->size_bytes;
    return mend_fit_is_ready(heap, request, run, bridge->address, end)
               ? take(heap, request, (mend_fit){run, bridge->address}, counter, span)
               : MEND_NOTHING;
}

/* If chunks that would move lie beside other idle chunks, the block lies there, as long as it
 * breaks no more empty chunks than they are. */
static mend_fit find_where_they_lie(mend_heap *heap, const mend_request *request,
                                    const mend_plan *moves)
{
    for (size_t i = 0; i < moves->picks.count; i++) {
        const mend_chunk *chunk = moves->picks.chunks[i];
        const uint64_t address = mend_align_up(chunk->address, request->alignment_bytes);
        const uint64_t end = address + request->size_bytes;
        /* A chunk that is not mapped is at 0, where no run is. */
        mend_run *run = mend_layout_run_at(&heap->zones[request->zone], address);
        uint64_t broken_bytes = run != NULL && end <= mend_run_end(run) ? 0 : UINT64_MAX;
        for (; broken_bytes <= moves->picked_bytes && chunk != NULL && chunk->address < end;
             chunk = mend_chunk_next(chunk)) {
            broken_bytes += mend_chunk_is_empty(chunk) ? chunk->size_bytes : 0;
        }
        if (broken_bytes <= moves->picked_bytes &&
            mend_fit_is_ready(heap, request, run, address, end)) {
            return (mend_fit){run, address};
        }
    }
    return (mend_fit){0};
}

/* Alternatives to a plan that moves chunks: a place beside them, or else new memory that is worth
 * it, or mapped gaps. The plan ends before: other threads may use its chunks meanwhile. */
static mend_outcome avoid_moves(mend_heap *heap, const mend_request *request, mend_plan *moves,
                                mend_span **span)
{
    const mend_fit fit = find_where_they_lie(heap, request, moves);
    if (fit.run != NULL) {
        mend_plan_clear(moves);
        return take(heap, request, fit, &heap->counters.placed_in_run, span);
    }
    mend_bridge bridge;
    const uint64_t moved_bytes = moves->picked_bytes + moves->create_bytes;
    const mend_plan_rules without_moves = {.may_extend = true, .may_create = true};
    mend_plan plan = {0};
    mend_outcome outcome = MEND_NOTHING;
    /* What a graph pool gets moves to no other request later. */
    const uint64_t kept_bytes =
        request->graph_pool != 0 ? mend_percent_of(mend_budget_hard_limit(heap), NEAR_PERCENT) : 0;
    if (mend_headroom_allows(heap, 0) && mend_plan_find(heap, request, without_moves, &plan) &&
        mend_headroom_allows(heap, plan.create_bytes) &&
        mend_budget_room_bytes(heap, request) >= plan.create_bytes + kept_bytes) {
        mend_plan_clear(moves);
        outcome = carry_out(heap, request, true, &plan, span);
        if (outcome == MEND_PLACED) {
            heap->counters.moves_avoided++;
        } else if (outcome == MEND_NOTHING) { /* refused: moves can still serve the request */
            mend_headroom_note_refusal(heap);
        }
    }
    mend_plan_clear(&plan);
    if (outcome == MEND_NOTHING && mend_bridge_find(heap, request, moved_bytes, &bridge)) {
        mend_plan_clear(moves);
        outcome = build_bridge(heap, request, &bridge, span);
    }
    return outcome;
}

/* An empty small chunk, a new one, any run of the large zone. */
static mend_outcome use_small_chunk(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_plan plan;
    uint64_t usual = mend_budget_usual_chunk(heap, MEND_ZONE_SMALL);
    uint64_t largest =
        mend_max_u64(usual, mend_align_up(request->size_bytes, heap->device.granularity_bytes));
    bool is_found = mend_plan_find_small(heap, request, largest, &plan);
    mend_outcome outcome = carry_out(heap, request, is_found, &plan, span);
    for (int exact = 0; outcome == MEND_NOTHING && exact <= 1; exact++) {
        mend_plan_clear(&plan);
        const mend_plan_rules rules = {.may_create = true, .exact = exact == 1};
        is_found = mend_plan_find(heap, request, rules, &plan);
        outcome = carry_out(heap, request, is_found, &plan, span);
    }
    mend_plan_clear(&plan);
    if (outcome == MEND_NOTHING) {
        outcome = place_between(heap, request, span);
    }
    return outcome == MEND_NOTHING ? take_fit(heap, request, MEND_ZONE_LARGE, UINT64_MAX, span)
                                   : outcome;
}

/* Tries mapped memory, then plans, the cheapest first. A small request uses whole empty chunks at
 * last. NOTHING: *plan is the last one, with the fewest missing bytes. */
static mend_outcome place_in_zone(mend_heap *heap, const mend_request *request, mend_plan *plan,
                                  mend_span **span)
{
    const bool is_small = request->zone == MEND_ZONE_SMALL;
    uint64_t need_bytes = 0;
    mend_budget_note_use(heap);
    mend_outcome outcome = mend_place_mapped(heap, request, span);
    if (outcome == MEND_NOTHING && is_small) {
        outcome = use_small_chunk(heap, request, span);
    } else if (outcome == MEND_NOTHING) {
        mend_headroom_note_request(heap, request->size_bytes);
        need_bytes = mend_plan_least_need(heap, request);
    }
    for (int i = is_small ? EXACTLY_ELSEWHERE : FREE_ONLY; i < WAYS && outcome == MEND_NOTHING;
         i++) {
        const mend_plan_rules rules = ways[i];
        if (i <= CREATES && !mend_plan_may_have(heap, request, rules, need_bytes)) {
            continue;
        }
        mend_plan_clear(plan);
        bool is_found = mend_plan_find(heap, request, rules, plan);
        if (i <= CREATES && is_found && plan->moved_count > 0) {
            outcome = avoid_moves(heap, request, plan, span);
            is_found = plan->moved_count > 0 ||
                       (outcome == MEND_NOTHING && mend_plan_find(heap, request, rules, plan));
        }
        if (outcome == MEND_NOTHING) {
            outcome = carry_out(heap, request, is_found, plan, span);
        }
        if (!is_found && i == EXACTLY) {
            break; /* no other plan misses less */
        }
    }
    return outcome;
}

/* ---- in one chunk ---------------------------------------------------------------------------- */

/* The most plans for one request: one may exceed the limit or the device. The driver may refuse the
 * next one because others took memory. The last one knows that. One more if the driver refuses
 * without a size: after one of the usual size. */
enum { PLANS = 4 };

/* Empty chunks that are all too small cannot be joined: they are released, to create a larger
 * one. */
static mend_outcome place_in_one_chunk(mend_heap *heap, const mend_request *request,
                                       mend_span **span)
{
    mend_budget_note_use(heap);
    mend_outcome outcome = mend_place_mapped(heap, request, span);
    bool goes_on = true;
    for (int tries = 0; tries < PLANS && goes_on && outcome == MEND_NOTHING; tries++) {
        mend_plan plan;
        mend_result result = MEND_OK;
        const bool is_found = mend_plan_find_one(heap, request, tries > 0, &plan);
        goes_on = is_found;
        if (!is_found && !plan.lacks_host_memory) {
            result = mend_trim_for(heap, request->stream, &plan, request->size_bytes, &goes_on);
        }
        outcome = result == MEND_OK ? carry_out(heap, request, is_found, &plan, span) : MEND_FAILED;
        mend_plan_clear(&plan);
    }
    return outcome;
}

/* ---- by all ways ----------------------------------------------------------------------------- */

mend_outcome mend_place(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_outcome outcome = MEND_NOTHING;
    mend_request now = *request;
    mend_plan plan = {0};
    assert(!request->may_break || request->creates_nothing);
    if (request->pages != NULL) {
        return request->pages->commit(heap, request, true);
    }
    if (request->in_one_chunk) {
        return place_in_one_chunk(heap, request, span);
    }
    for (; outcome == MEND_NOTHING && now.zone < MEND_ZONES_OF_BLOCKS; now.zone++) {
        outcome = place_in_zone(heap, &now, &plan, span);
        bool spares = outcome == MEND_NOTHING && now.zone == MEND_ZONE_LARGE &&
                      !now.creates_nothing && mend_budget_waste_allowed(heap, &now) < UINT64_MAX;
        if (spares && plan.lacking_bytes != 0) { /* only breaking an empty chunk would help: first
                                                  * tries to give one back and create another */
            bool goes_on = false;
            const mend_result result = mend_trim_for(heap, now.stream, &plan, 0, &goes_on);
            outcome = result != MEND_OK ? MEND_FAILED
                      : goes_on         ? place_in_zone(heap, &now, &plan, span)
                                        : MEND_NOTHING;
        }
        if (spares && outcome == MEND_NOTHING) {
            now.may_break = true;
            outcome = place_in_zone(heap, &now, &plan, span);
        }
    }
    mend_plan_clear(&plan);
    return outcome;
}

/* ---- behind what the stream may not use ------------------------------------------------------ */

/* A small request is a large one here. */
mend_outcome mend_place_behind(mend_heap *heap, const mend_request *asking, mend_span **span)
{
    mend_plan plan;
    mend_request request = *asking;
    request.may_break = true; /* else an empty chunk would be left alone */
    request.leaves_home = true;
    request.zone = asking->zone == MEND_ZONE_SMALL ? MEND_ZONE_LARGE : asking->zone;
    if (request.zone != MEND_ZONE_LARGE || request.in_one_chunk) {
        return MEND_NOTHING;
    }
    const bool is_found = mend_plan_find_behind(heap, &request, &plan);
    const mend_outcome outcome = carry_out(heap, &request, is_found, &plan, span);
    mend_plan_clear(&plan);
    return outcome;
}
