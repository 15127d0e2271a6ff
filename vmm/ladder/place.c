/*
 * One try to place a request with the memory there is: in a mapped run, in empty chunks that are
 * moved, in chunks that are created. The ladder makes more memory free (ladder/ladder.h).
 */
#include "ladder/ladder.h"

#include <assert.h>

#include "base/error.h"
#include "layout/layout.h"
#include "move/move.h"
#include "policy/constants.h"
#include "policy/policy.h"

static const mend_plan_rules use_what_is_free = {.may_extend = true, .may_move = true};
static const mend_plan_rules create_without_moves = {.may_extend = true, .may_create = true};
static const mend_plan_rules create_elsewhere = {.may_create = true, .may_move = true};
static const mend_plan_rules create_elsewhere_exactly = {
    .may_create = true, .may_move = true, .exact = true};
static const mend_plan_rules extend_and_create_exactly = {
    .may_extend = true, .may_create = true, .may_move = true, .exact = true};

/* ---- in mapped memory ---------------------------------------------------------------------------
 */

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
    if (request->behind_wait) {
        mend_result result = mend_layout_make_ready(heap, fit.run, fit.address, request->size_bytes,
                                                    request->stream);
        if (result != MEND_OK) {
            return mend_outcome_of(result);
        }
    }
    assert(fit.address >= fit.run->address);
    assert(fit.address + request->size_bytes <= mend_run_end(fit.run));
    *span = mend_layout_take(heap, fit.run, fit.address, request->size_bytes);
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

mend_outcome mend_place_mapped(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_outcome outcome = take_fit(heap, request, request->zone, UINT64_MAX, span);
    if (outcome == MEND_NOTHING && request->zone == MEND_ZONE_SMALL) {
        outcome = take_fit(heap, request, MEND_ZONE_LARGE, LENT_RUN_BYTES, span);
    }
    return outcome;
}

mend_outcome mend_place_in_stretch(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_outcome outcome = MEND_NOTHING;
    for (int zone = request->zone; outcome == MEND_NOTHING && zone < MEND_ZONES_OF_BLOCKS; zone++) {
        outcome = take(heap, request, mend_fit_find_anywhere(heap, request, zone),
                       &heap->counters.placed_in_run, span);
    }
    return outcome;
}

/* ---- by a plan ----------------------------------------------------------------------------------
 */

/* Carries out a plan, if one was found, and clears it. */
static mend_outcome carry_out(mend_heap *heap, const mend_request *request, bool is_found,
                              mend_plan *plan, mend_span **span)
{
    mend_outcome outcome = MEND_NOTHING;
    if (plan->refused_bytes != 0) {
        mend_budget_note_lack(heap, plan->refused_bytes);
    }
    if (is_found) {
        outcome = mend_grow(heap, request, plan, span);
    } else if (plan->lacks_host_memory) {
        outcome = mend_outcome_without_host_memory();
    }
    mend_plan_clear(plan);
    return outcome;
}

/* Plans to create memory instead of moving chunks, if that is worth it. */
static bool plan_to_avoid_moves(mend_heap *heap, const mend_request *request, mend_plan *plan)
{
    *plan = (mend_plan){0};
    return mend_headroom_allows(heap, 0) &&
           mend_plan_find(heap, request, create_without_moves, plan) &&
           mend_headroom_allows(heap, plan->create_bytes);
}

/* A refusal by the driver does not count as a shortage, because the request can still be served by
 * moves. */
static mend_outcome create_to_avoid_moves(mend_heap *heap, const mend_request *request,
                                          mend_plan *plan, mend_span **span)
{
    mend_shortage before = heap->shortage;
    mend_outcome outcome = carry_out(heap, request, true, plan, span);
    if (outcome == MEND_PLACED) {
        heap->counters.moves_avoided++;
    } else if (outcome == MEND_NOTHING) {
        mend_headroom_note_refusal(heap);
        before.device_is_asked = heap->shortage.device_is_asked;
        heap->shortage = before;
    }
    return outcome;
}

/* Maps the gaps of a bridge one after the other, and takes the place. Other threads may have used
 * its runs meanwhile. */
static mend_outcome build_bridge(mend_heap *heap, const mend_request *request,
                                 const mend_bridge *bridge, mend_span **span)
{
    mend_plan plan;
    mend_span *none = NULL;
    mend_outcome outcome = MEND_PLACED;
    while (outcome == MEND_PLACED && mend_bridge_plan(heap, request, bridge, &plan)) {
        outcome = mend_grow(heap, request, &plan, &none);
        mend_plan_clear(&plan);
    }
    mend_plan_clear(&plan);
    if (outcome != MEND_PLACED) {
        return outcome;
    }
    mend_run *run = mend_layout_run_at(&heap->zones[request->zone], bridge->address);
    bool is_built = run != NULL && mend_run_end(run) - bridge->address >= request->size_bytes &&
                    mend_layout_is_ready(heap, run, bridge->address, request->size_bytes,
                                         request->stream, request->behind_wait);
    return is_built ? take(heap, request, (mend_fit){run, bridge->address},
                           &heap->counters.placed_by_extension, span)
                    : MEND_NOTHING;
}

/* Moves empty chunks, and creates the rest if the rules allow it; or creates memory to avoid the
 * moves. */
static mend_outcome use_empty_chunks(mend_heap *heap, const mend_request *request,
                                     mend_plan_rules rules, mend_span **span)
{
    mend_plan moves;
    mend_plan instead;
    bool is_found = mend_plan_find(heap, request, rules, &moves);
    bool has_moves = is_found && moves.moved_count > 0;
    mend_bridge bridge;
    if (has_moves &&
        mend_bridge_find(heap, request, moves.picked_bytes + moves.create_bytes, &bridge)) {
        mend_plan_clear(&moves);
        mend_outcome outcome = build_bridge(heap, request, &bridge, span);
        if (outcome != MEND_NOTHING) {
            return outcome;
        }
        is_found = mend_plan_find(heap, request, rules, &moves);
        has_moves = is_found && moves.moved_count > 0;
    }
    if (!has_moves || !plan_to_avoid_moves(heap, request, &instead)) {
        if (has_moves) {
            mend_plan_clear(&instead);
        }
        return carry_out(heap, request, is_found, &moves, span);
    }
    mend_plan_clear(&moves); /* other threads may use its chunks while the driver creates */
    mend_outcome outcome = create_to_avoid_moves(heap, request, &instead, span);
    if (outcome == MEND_NOTHING) {
        is_found = mend_plan_find(heap, request, rules, &moves);
        outcome = carry_out(heap, request, is_found, &moves, span);
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
        const mend_plan_rules rules = exact ? create_elsewhere_exactly : create_elsewhere;
        is_found = mend_plan_create_only(heap, request, rules, &plan);
        outcome = carry_out(heap, request, is_found, &plan, span);
    }
    return outcome == MEND_NOTHING ? take_fit(heap, request, MEND_ZONE_LARGE, UINT64_MAX, span)
                                   : outcome;
}

/* Tries mapped memory, then plans, the cheapest first; a small request uses whole empty chunks at
 * last. */
static mend_outcome place_by_rules(mend_heap *heap, const mend_request *request, mend_span **span)
{
    static const mend_plan_rules ways[] = {
        {.may_extend = true, .may_create = true, .may_move = true},
        {.may_extend = true, .may_create = true, .may_move = true, .exact = true},
        {.may_create = true, .may_move = true, .exact = true},
    };
    enum { WAYS = sizeof(ways) / sizeof(*ways) };
    const bool is_small = request->zone == MEND_ZONE_SMALL;
    int next = is_small ? WAYS - 1 : 0;
    mend_budget_note_use(heap);
    mend_outcome outcome = mend_place_mapped(heap, request, span);
    if (outcome == MEND_NOTHING && is_small) {
        outcome = use_small_chunk(heap, request, span);
    } else if (outcome == MEND_NOTHING) {
        mend_headroom_note_request(heap, request->size_bytes);
        outcome = use_empty_chunks(heap, request, use_what_is_free, span);
        if (outcome == MEND_NOTHING && mend_budget_is_ample(heap)) {
            outcome = use_empty_chunks(heap, request, ways[next++], span);
        }
    }
    bool goes_on = true;
    for (int i = next; i < WAYS && goes_on && outcome == MEND_NOTHING; i++) {
        mend_plan plan;
        bool is_found = mend_plan_find(heap, request, ways[i], &plan);
        outcome = carry_out(heap, request, is_found, &plan, span);
        goes_on = is_found || !ways[i].exact; /* no other plan lacks less than an exact one */
    }
    return outcome;
}

/* ---- while pressure is critical -----------------------------------------------------------------
 */

/* Gives back a chunk that is too large for the request, so that one of the right size can be
 * created. */
static mend_outcome remake_chunk(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_plan plan;
    bool remade = false;
    mend_result result = MEND_OK;
    bool is_found = mend_plan_find(heap, request, extend_and_create_exactly, &plan);
    if (!is_found && !plan.lacks_host_memory) {
        result = mend_trim_one(heap, request->stream, &plan, &remade);
    }
    bool lacks_host_memory = plan.lacks_host_memory;
    mend_plan_clear(&plan);
    heap->counters.chunks_remade += remade ? 1 : 0;
    if (result != MEND_OK || lacks_host_memory) {
        return result != MEND_OK ? MEND_FAILED : mend_outcome_without_host_memory();
    }
    return remade ? place_by_rules(heap, request, span) : MEND_NOTHING;
}

/* ---- in one chunk -------------------------------------------------------------------------------
 */

/* The most plans for one request: one may lack room under the limit, the driver may refuse the next
 * one, the third may lack room under what the device can give, and the last one is carried out. */
enum { PLANS = 4 };

/* Empty chunks that are all too small cannot be joined: they are given back, so that a larger one
 * can be created. */
static mend_outcome place_in_one_chunk(mend_heap *heap, const mend_request *request,
                                       mend_span **span)
{
    mend_budget_note_use(heap);
    mend_outcome outcome = mend_place_mapped(heap, request, span);
    mend_trim_walk walk = {0};
    bool goes_on = true;
    for (int tries = 0; tries < PLANS && goes_on && outcome == MEND_NOTHING; tries++) {
        mend_plan plan;
        mend_result result = MEND_OK;
        const bool is_found = mend_plan_find_one(heap, request, tries > 0, &plan);
        goes_on = is_found;
        if (!is_found && !plan.lacks_host_memory) {
            result = mend_trim_for(heap, request->stream, &plan, &walk, &goes_on);
            heap->counters.chunks_remade += goes_on;
        }
        if (result != MEND_OK) {
            mend_plan_clear(&plan);
            return MEND_FAILED;
        }
        outcome = carry_out(heap, request, is_found, &plan, span);
    }
    return outcome;
}

/* ---- by all ways --------------------------------------------------------------------------------
 */

mend_outcome mend_place(mend_heap *heap, const mend_request *request, mend_span **span)
{
    mend_outcome outcome = MEND_NOTHING;
    mend_request now = *request;
    assert(!request->may_break || request->creates_nothing);
    if (request->pages != NULL) {
        return mend_commit(heap, request);
    }
    if (request->in_one_chunk) {
        return place_in_one_chunk(heap, request, span);
    }
    for (; outcome == MEND_NOTHING && now.zone < MEND_ZONES_OF_BLOCKS; now.zone++) {
        outcome = place_by_rules(heap, &now, span);
        bool is_critical = outcome == MEND_NOTHING && now.zone == MEND_ZONE_LARGE &&
                           !now.creates_nothing &&
                           mend_budget_pressure(heap) == MEND_PRESSURE_CRITICAL;
        if (is_critical) { /* only breaking an empty chunk would help: first tries to give one
                            * back and create another */
            outcome = remake_chunk(heap, &now, span);
        }
        if (is_critical && outcome == MEND_NOTHING) {
            now.may_break = true;
            outcome = place_by_rules(heap, &now, span);
        }
    }
    return outcome;
}
