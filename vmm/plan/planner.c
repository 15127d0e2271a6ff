/*
 * Planning: from a request and the heap to a plan. Changes nothing in the heap, except that idle
 * free spans are joined (mend_layout_is_ready). Does not call the driver.
 */
#include "plan/policy.h"

#include "plan/constants.h"

static void note_refused(mend_plan *plan, uint64_t create_bytes)
{
    bool is_least = plan->refused_bytes == 0 || create_bytes < plan->refused_bytes;
    plan->refused_bytes = create_bytes != 0 && is_least ? create_bytes : plan->refused_bytes;
}

/*
 * Decides which chunks to create for the missing bytes. False if they exceed the limit.
 *
 * While pressure is low, requests below a usual chunk share usual chunks, which saves calls.
 * Otherwise it creates exactly the missing bytes. While pressure is high, the last page is a chunk
 * of its own. The next block begins in it, so no block prevents its neighbor's large chunk from
 * being empty.
 */
static bool plan_creation(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                          uint64_t missing_bytes, mend_plan *plan)
{
    uint64_t room = mend_budget_room_bytes(heap, request);
    const bool is_small = request->zone == MEND_ZONE_SMALL;
    const uint64_t share = mend_budget_share(heap, request);
    const mend_pressure pressure =
        is_small || mend_budget_is_emptied(heap) ? MEND_PRESSURE_LOW : mend_budget_pressure(heap);
    uint64_t page = mend_min_u64(mend_budget_page(heap, pressure), share);
    assert(missing_bytes > 0);
    if (request->creates_nothing) {
        return false;
    }
    if (rules.exact || mend_align_up(missing_bytes, page) > room) {
        page = heap->device.granularity_bytes;
    }
    uint64_t exact = mend_align_up(missing_bytes, page);
    const uint64_t largest = mend_budget_usual_chunk(heap, request->zone);
    const uint64_t usual = mend_min_u64(largest, share);
    if (!rules.may_create) {
        return false;
    }
    if (exact > room) {
        if (mend_budget_lacks_device_memory(heap, exact)) {
            note_refused(plan, exact);
        }
        plan->lacking_bytes = mend_budget_lacking_bytes(heap, request, exact);
        plan->create_bytes = exact;
        return false;
    }
    bool is_pressed = pressure != MEND_PRESSURE_LOW;
    bool rounded_up = !is_pressed && !rules.exact && exact < usual && usual <= room;
    plan->create_bytes = rounded_up ? usual : exact;
    plan->create_unit_bytes = is_small ? largest : mend_budget_lone_chunk(heap, request);
    plan->create_tail_bytes = is_pressed && exact > page && missing_bytes % page != 0 ? page : 0;
    assert(plan->create_bytes >= missing_bytes);
    assert(plan->create_bytes <= room);
    assert(plan->create_bytes % heap->device.granularity_bytes == 0);
    return true;
}

bool mend_plan_may_have(const mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                        uint64_t need_bytes)
{
    uint64_t free_bytes = rules.may_move ? mend_chunks_empty_bytes(&heap->chunks) : 0;
    return need_bytes <= free_bytes ||
           (rules.may_create && !request->creates_nothing &&
            need_bytes - free_bytes <= mend_budget_room_bytes(heap, request));
}

/* Chooses chunks and creations for the missing bytes: behind a base, or for the complete request.
 * If that fails and creation is exact, the plan has the missing bytes. */
static bool fill_plan(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                      uint64_t need_bytes, mend_plan *plan)
{
    if (!rules.exact && !mend_plan_may_have(heap, request, rules, need_bytes)) {
        return false;
    }
    uint64_t missing =
        rules.may_move ? mend_pick_chunks(heap, request, plan, need_bytes) : need_bytes;
    bool is_filled = missing == 0 || plan_creation(heap, request, rules, missing, plan);
    return is_filled && !plan->lacks_host_memory;
}

/* Moves the plan `from` to `to`. The result has the refusals of both. */
static void take_over(mend_plan *to, mend_plan *from)
{
    assert(to != from);
    note_refused(from, to->refused_bytes);
    from->lacks_host_memory = from->lacks_host_memory || to->lacks_host_memory;
    mend_plan_clear(to);
    *to = *from;
    *from = (mend_plan){0};
}

/* A place in a free run where a block could begin, if the run is extended. */
typedef struct base_candidate {
    mend_run *run; /* NULL: none */
    uint64_t start;
    uint64_t need_bytes; /* bytes behind the run */
} base_candidate;

static bool can_grow(mend_heap *heap, const mend_request *request, const base_candidate *place)
{
    const mend_space *space = &heap->space;
    uint64_t end = mend_run_end(place->run);
    assert(place->start >= place->run->address);
    assert(place->start <= end); /* the block may use nothing of the run */
    assert(end - place->start + place->need_bytes == request->size_bytes);
    return mend_space_room_at(space, end) >= place->need_bytes &&
           mend_layout_suits(heap, request, place->run, place->start, end) &&
           mend_layout_is_ready(heap, place->run, place->start, end - place->start, request->stream,
                                request->behind_wait);
}

/* The largest run below the request's size that is ready and has enough unmapped addresses behind
 * it. */
static base_candidate find_base(mend_heap *heap, const mend_request *request, mend_run *run,
                                int *tries)
{
    for (; run != NULL && *tries > 0; run = mend_layout_growing_smaller(run)) {
        (*tries)--;
        base_candidate place = {run, mend_align_up(run->address, request->alignment_bytes), 0};
        uint64_t end = mend_run_end(run);
        if (place.start < end && end - place.start < request->size_bytes) {
            place.need_bytes = request->size_bytes - (end - place.start);
            if (can_grow(heap, request, &place)) {
                return place;
            }
        }
    }
    return (base_candidate){0};
}

typedef enum growth { GROWTH_FITS, GROWTH_LACKS_ADDRESSES, GROWTH_LACKS_MEMORY } growth;

static growth plan_growth(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                          const base_candidate *place, mend_plan *plan)
{
    const mend_space *space = &heap->space;
    mend_plan grown = {.base = place->run,
                       .base_address = place->run->address,
                       .base_bytes = place->run->size_bytes,
                       .start = place->start};
    bool is_filled = fill_plan(heap, request, rules, place->need_bytes, &grown);
    take_over(plan, &grown);
    assert(!is_filled || plan->picked_bytes + plan->create_bytes >= place->need_bytes);
    if (!is_filled) {
        return GROWTH_LACKS_MEMORY;
    }
    return plan->picked_bytes + plan->create_bytes <=
                   mend_space_room_at(space, mend_run_end(place->run))
               ? GROWTH_FITS
               : GROWTH_LACKS_ADDRESSES;
}

/* Whether a plan to extend this run may miss less than that: it misses least with all empty chunks
 * that do not stay there. */
static bool may_lack_less(const mend_heap *heap, const mend_request *request,
                          const base_candidate *place, uint64_t lacking_bytes)
{
    const mend_run *run = place->run;
    uint64_t free_bytes = mend_chunks_empty_bytes(&heap->chunks);
    for (const mend_chunk *at = run->first->chunk; at != NULL && at->address < mend_run_end(run);
         at = mend_chunk_next(at)) {
        free_bytes -= mend_chunk_is_empty(at) ? at->size_bytes : 0;
    }
    if (place->need_bytes <= free_bytes) {
        return true;
    }
    uint64_t create_bytes =
        mend_align_up(place->need_bytes - free_bytes, heap->device.granularity_bytes);
    return create_bytes <= mend_budget_room_bytes(heap, request) ||
           mend_budget_lacking_bytes(heap, request, create_bytes) < lacking_bytes;
}

/* Plans to extend the first run below the request's size that can grow. False if memory is missing,
 * or if no run fits the chunks. The largest run comes first and usually needs the least memory. */
static bool plan_growing_smaller(mend_heap *heap, const mend_request *request,
                                 mend_plan_rules rules, mend_plan *plan)
{
    int tries = SEARCH_TRIES;
    mend_run *run = mend_layout_growing_below(&heap->zones[request->zone], request->size_bytes);
    base_candidate place = find_base(heap, request, run, &tries);
    growth found = GROWTH_LACKS_ADDRESSES;
    while (place.run != NULL) {
        found = plan_growth(heap, request, rules, &place, plan);
        if (found != GROWTH_LACKS_ADDRESSES) {
            break; /* looks at no further run: that would join its spans */
        }
        place = find_base(heap, request, mend_layout_growing_smaller(place.run), &tries);
    }
    return found == GROWTH_FITS;
}

uint64_t mend_plan_least_need(mend_heap *heap, const mend_request *request)
{
    int tries = SEARCH_TRIES;
    mend_run *run = mend_layout_growing_below(&heap->zones[request->zone], request->size_bytes);
    const base_candidate largest = find_base(heap, request, run, &tries);
    return largest.run != NULL ? largest.need_bytes : request->size_bytes;
}

bool mend_plan_find(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                    mend_plan *plan)
{
    *plan = (mend_plan){0};
    heap->budget.plans++;
    /* Small blocks begin in chunks of their own. */
    assert(!rules.may_extend || request->zone == MEND_ZONE_LARGE);
    if (rules.may_extend && plan_growing_smaller(heap, request, rules, plan)) {
        return true;
    }
    mend_plan elsewhere = {0};
    bool found = fill_plan(heap, request, rules, request->size_bytes, &elsewhere);
    bool extension_lacks_less =
        plan->lacking_bytes != 0 && plan->lacking_bytes < elsewhere.lacking_bytes;
    if (!found && extension_lacks_less) {
        const mend_plan extension = *plan;
        *plan = elsewhere;
        elsewhere = extension;
    }
    take_over(plan, &elsewhere);
    return found;
}

bool mend_plan_find_small(mend_heap *heap, const mend_request *request, uint64_t largest_bytes,
                          mend_plan *plan)
{
    *plan = (mend_plan){0};
    return mend_pick_one(heap, request, plan, largest_bytes) && !plan->lacks_host_memory;
}

bool mend_plan_find_one(mend_heap *heap, const mend_request *request, bool exact, mend_plan *plan)
{
    const mend_plan_rules rules = {.may_create = true, .exact = exact};
    if (mend_plan_find_small(heap, request, UINT64_MAX, plan)) {
        return true;
    }
    if (plan->lacks_host_memory ||
        !plan_creation(heap, request, rules, request->size_bytes, plan)) {
        return false;
    }
    plan->create_unit_bytes = plan->create_bytes;
    plan->create_tail_bytes = 0;
    return true;
}

bool mend_plan_create_only(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                           mend_plan *plan)
{
    *plan = (mend_plan){0};
    heap->budget.plans++;
    return plan_creation(heap, request, rules, request->size_bytes, plan);
}

/* ---- beside memory that the stream may not use ----------------------------------------------- */

uint64_t mend_plan_usable_from(mend_heap *heap, const mend_request *request, mend_run *run)
{
    uint64_t from = mend_run_end(run);
    if (!mend_layout_stamps_matter(heap, request->stream)) {
        return run->address;
    }
    mend_layout_tidy(heap, run, true, UINT64_MAX);
    for (const mend_span *span = run->last;
         mend_waits_are_ready(&heap->streams, &span->waits, request->stream, request->behind_wait);
         span = span->previous) {
        from = span->address;
        if (span == run->first) {
            break;
        }
    }
    return from;
}

bool mend_plan_find_behind(mend_heap *heap, const mend_request *request, mend_plan *plan)
{
    const mend_plan_rules rules = {.may_create = true, .may_move = true, .exact = true};
    mend_run *run = mend_layout_growing_below(&heap->zones[request->zone], UINT64_MAX);
    *plan = (mend_plan){0};
    for (int tries = SEARCH_TRIES; run != NULL && tries > 0;
         run = mend_layout_growing_smaller(run)) {
        const uint64_t from = mend_plan_usable_from(heap, request, run);
        const uint64_t end = mend_run_end(run);
        base_candidate place = {run, mend_align_up(from, request->alignment_bytes), 0};
        if (place.start >= end || end - place.start >= request->size_bytes) {
            continue;
        }
        place.need_bytes = request->size_bytes - (end - place.start);
        if (mend_space_room_at(&heap->space, end) >= place.need_bytes &&
            may_lack_less(heap, request, &place, 0)) {
            tries--;
            if (plan_growth(heap, request, rules, &place, plan) == GROWTH_FITS) {
                return true;
            }
        }
    }
    const bool lacks_host_memory = plan->lacks_host_memory;
    mend_plan_clear(plan);
    plan->lacks_host_memory = lacks_host_memory;
    return false;
}
