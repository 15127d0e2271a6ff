#include "policy/plan.h"

#include <assert.h>

#include "policy/budget.h"
#include "policy/pick.h"

/* How many runs are tried as a base before a fresh place is taken. */
enum { BASE_TRIES = 16, CLOSING_TRIES = 64 };

/* Of a page that a block closes, this part may stay free between it and its neighbour. */
enum { GAPS_OF_PAGE = 4 };

/*
 * Decides what to create for the missing bytes; false when the limit has no room for them.
 *
 * While memory is ample, smaller requests share usual chunks: few calls. Otherwise exactly what a
 * request lacks is created. Where memory is scarce, in chunks of half that size (unless a size was
 * configured), and the last page is a chunk apart: the next block begins in that small chunk, and
 * no block keeps its neighbour's large one from being empty.
 */
static bool plan_creation(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                          uint64_t missing_bytes, mend_plan *plan)
{
    uint64_t room = mend_budget_room_bytes(heap);
    uint64_t page = mend_budget_page(heap, request);
    if (rules.exact || mend_align_up(missing_bytes, page) > room) {
        page = heap->device.granularity_bytes;
    }
    uint64_t exact = mend_align_up(missing_bytes, page);
    uint64_t usual = mend_budget_usual_chunk(heap, request->zone);
    if (!rules.may_create || exact > room) {
        if (rules.may_create) {
            mend_budget_note_shortage(heap, exact);
        }
        plan->lacking_bytes = rules.may_create ? mend_budget_lacking_bytes(heap, exact) : 0;
        return false;
    }
    bool is_small = request->zone == MEND_ZONE_SMALL;
    bool is_pressed = !is_small && mend_budget_pressure(heap) != MEND_PRESSURE_LOW;
    bool shares = is_small || (!is_pressed && request->size_bytes < usual / 2);
    bool rounded_up = shares && !rules.exact && exact < usual && usual <= room;
    plan->create_bytes = rounded_up ? usual : exact;
    plan->create_unit_bytes = is_small ? usual : mend_budget_lone_chunk(heap);
    plan->create_tail_bytes = is_pressed && exact > page && missing_bytes % page != 0 ? page : 0;
    return true;
}

/* Chooses chunks and creations for the bytes missing behind a base, or for all. */
static bool fill_plan(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                      uint64_t need_bytes, mend_plan *plan)
{
    uint64_t missing =
        rules.may_move ? mend_pick_chunks(heap, request, plan, need_bytes) : need_bytes;
    return missing == 0 || plan_creation(heap, request, rules, missing, plan);
}

/* Marks the empty chunks inside a run, so that they are not moved out of their own base. */
static void mark_chunks_of(mend_heap *heap, const mend_run *run)
{
    mend_chunk *chunk = mend_chunk_at(&heap->chunks, run->address);
    while (chunk != NULL && chunk->address < mend_run_end(run)) {
        chunk->picked = heap->plan_number;
        chunk = mend_chunk_next(chunk);
    }
}

/* A place in a free run from which a block would grow behind it. */
typedef struct base_place {
    mend_run *run; /* NULL: none */
    uint64_t start;
    uint64_t need_bytes; /* behind the run */
} base_place;

static bool can_grow(mend_heap *heap, const mend_request *request, const base_place *place)
{
    const mend_space *space = &heap->space;
    uint64_t end = mend_run_end(place->run);
    return mend_space_room_at(space, end) >= place->need_bytes &&
           mend_layout_is_ready(heap, place->run, place->start, end - place->start, request->stream,
                                request->behind_wait);
}

/* The largest run below the request that is ready and has unmapped addresses enough behind it. */
static base_place find_base(mend_heap *heap, const mend_request *request, mend_run *run, int *tries)
{
    for (; run != NULL && *tries > 0; run = mend_layout_growing_smaller(run)) {
        (*tries)--;
        base_place place = {run, mend_align_up(run->address, request->alignment_bytes), 0};
        uint64_t end = mend_run_end(run);
        if (place.start < end && end - place.start < request->size_bytes) {
            place.need_bytes = request->size_bytes - (end - place.start);
            if (can_grow(heap, request, &place)) {
                return place;
            }
        }
    }
    return (base_place){0};
}

/* The run that begins nearest before the place from which the block would end where a page ends:
 * then it shares one page with a neighbour, not two, and no page stays open behind it. What lies
 * before it of the run stays free, for small blocks. */
static base_place find_closing_base(mend_heap *heap, const mend_request *request)
{
    uint64_t page = mend_budget_page(heap, request);
    uint64_t least_gap = page / GAPS_OF_PAGE;
    base_place best = {0};
    mend_run *run = mend_layout_growing_below(&heap->zones[request->zone], request->size_bytes - 1);
    for (int tries = 0; run != NULL && tries < CLOSING_TRIES; tries++) {
        uint64_t gap = (run->size_bytes - request->size_bytes % page) % page;
        base_place place = {run, run->address + gap, request->size_bytes - (run->size_bytes - gap)};
        bool is_closer = run->size_bytes > request->size_bytes % page && gap < least_gap &&
                         mend_align_up(place.start, request->alignment_bytes) == place.start;
        if (is_closer && can_grow(heap, request, &place)) {
            best = place;
            least_gap = gap;
        }
        run = mend_layout_growing_smaller(run);
    }
    return best;
}

typedef enum growth { GROWTH_FITS, GROWTH_LACKS_ADDRESSES, GROWTH_LACKS_MEMORY } growth;

static growth plan_growth(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                          const base_place *place, mend_plan *plan)
{
    const mend_space *space = &heap->space;
    *plan = (mend_plan){.base = place->run, .start = place->start};
    heap->plan_number++;
    mark_chunks_of(heap, place->run);
    if (!fill_plan(heap, request, rules, place->need_bytes, plan)) {
        return GROWTH_LACKS_MEMORY;
    }
    return plan->picked_bytes + plan->create_bytes <=
                   mend_space_room_at(space, mend_run_end(place->run))
               ? GROWTH_FITS
               : GROWTH_LACKS_ADDRESSES;
}

/* Of runs below the request the first from which a block can grow; false when memory is missing, or
 * no run has room for the chunks at hand.
 *
 * The largest comes first, and it mostly needs the least memory. Not always: empty chunks
 * serve as well from elsewhere, while what is free of a partly used one only serves where it is. So
 * where creation is exact, for there is nothing to spare, the others are tried too; the plan that
 * lacks least is left in *plan, with its choice marked. */
static bool plan_growing_smaller(mend_heap *heap, const mend_request *request,
                                 mend_plan_rules rules, mend_plan *plan)
{
    base_place least = {0};
    uint64_t least_bytes = UINT64_MAX;
    int tries = BASE_TRIES;
    mend_run *run = mend_layout_growing_below(&heap->zones[request->zone], request->size_bytes);
    base_place place = find_base(heap, request, run, &tries);
    for (; place.run != NULL; place = find_base(heap, request, run, &tries)) {
        growth found = plan_growth(heap, request, rules, &place, plan);
        if (found == GROWTH_FITS) {
            return true;
        }
        if (found == GROWTH_LACKS_MEMORY && !rules.exact) {
            return false;
        }
        if (found == GROWTH_LACKS_MEMORY && plan->lacking_bytes < least_bytes) {
            least = place;
            least_bytes = plan->lacking_bytes;
        }
        run = mend_layout_growing_smaller(place.run);
    }
    if (least.run != NULL) {
        plan_growth(heap, request, rules, &least, plan);
    }
    return false;
}

/* Plans to grow a run. */
static bool plan_extension(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                           mend_plan *plan)
{
    *plan = (mend_plan){0};
    assert(request->zone == MEND_ZONE_LARGE); /* small ones begin in a chunk of their own */
    if (mend_budget_pressure(heap) != MEND_PRESSURE_LOW) {
        base_place closing = find_closing_base(heap, request);
        if (closing.run != NULL &&
            plan_growth(heap, request, rules, &closing, plan) == GROWTH_FITS) {
            return true;
        }
    }
    return plan_growing_smaller(heap, request, rules, plan);
}

bool mend_plan_find(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                    mend_plan *plan)
{
    uint64_t lacking_behind_run = 0;
    if (rules.may_extend) {
        if (plan_extension(heap, request, rules, plan)) {
            return true;
        }
        lacking_behind_run = plan->lacking_bytes;
    }
    *plan = (mend_plan){0};
    heap->plan_number++;
    bool found = fill_plan(heap, request, rules, request->size_bytes, plan);
    if (!found && lacking_behind_run != 0 && lacking_behind_run < plan->lacking_bytes) {
        plan_extension(heap, request, rules, plan); /* once more, so that its choice is marked */
    }
    return found;
}

bool mend_plan_find_small(mend_heap *heap, const mend_request *request, uint64_t largest_bytes,
                          mend_plan *plan)
{
    *plan = (mend_plan){0};
    heap->plan_number++;
    return mend_pick_one(heap, request, plan, largest_bytes);
}

bool mend_plan_create_only(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                           mend_plan *plan)
{
    *plan = (mend_plan){0};
    return plan_creation(heap, request, rules, request->size_bytes, plan);
}

uint64_t mend_plan_next_chunk(const mend_plan *plan, uint64_t left_bytes)
{
    return left_bytes > plan->create_tail_bytes
               ? mend_min_u64(left_bytes - plan->create_tail_bytes, plan->create_unit_bytes)
               : left_bytes;
}

size_t mend_plan_create_count(const mend_plan *plan)
{
    size_t count = 0;
    for (uint64_t left = plan->create_bytes; left > 0; count++) {
        left -= mend_plan_next_chunk(plan, left);
    }
    return count;
}
