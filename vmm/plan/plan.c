/*
 * A plan: which free run to extend, which empty chunks to map behind it, and which to create. It is
 * a value that owns the list of its chunks, so that several plans can exist and be compared. It is
 * valid while `state` is held. To plan changes nothing in the heap, except that idle free spans are
 * joined, and calls no driver.
 */
#include "plan/policy.h"

#include <stdlib.h>
#include <string.h>

#include "plan/constants.h"

void mend_plan_clear(mend_plan *plan)
{
    free(plan->picks.chunks);
    *plan = (mend_plan){0};
}

/* By pointers to chunks. */
static int compare_chunks(const void *first, const void *second)
{
    const mend_chunk *a = *(mend_chunk *const *)first;
    const mend_chunk *b = *(mend_chunk *const *)second;
    return a->size_bytes != b->size_bytes ? mend_compare_u64(a->size_bytes, b->size_bytes)
                                          : mend_compare_u64(a->memory.number, b->memory.number);
}

/* Sorts a copy of the picks, in the second half of the list, when it is called first. */
bool mend_plan_uses(mend_plan *plan, const mend_chunk *chunk)
{
    mend_picks *picks = &plan->picks;
    if (mend_plan_is_in_base(plan, chunk) || picks->count == 0) {
        return mend_plan_is_in_base(plan, chunk);
    }
    mend_chunk **sorted = picks->chunks + picks->capacity;
    assert(picks->count <= picks->capacity);
    if (picks->sorted_count != picks->count) {
        memcpy(sorted, picks->chunks, picks->count * sizeof(mend_chunk *));
        qsort(sorted, picks->count, sizeof(mend_chunk *), compare_chunks);
        picks->sorted_count = picks->count;
    }
    return bsearch(&chunk, sorted, picks->count, sizeof(mend_chunk *), compare_chunks) != NULL;
}

uint64_t mend_plan_next_chunk(const mend_plan *plan, uint64_t left_bytes)
{
    assert(left_bytes > 0);
    assert(left_bytes <= plan->create_bytes);
    assert(plan->create_unit_bytes > 0);
    assert(plan->create_tail_bytes < plan->create_bytes);
    assert(plan->create_head_bytes <= plan->create_bytes);
    if (plan->create_head_bytes != 0 && left_bytes == plan->create_bytes) {
        return plan->create_head_bytes;
    }
    return left_bytes > plan->create_tail_bytes
               ? mend_min_u64(left_bytes - plan->create_tail_bytes, plan->create_unit_bytes)
               : left_bytes;
}

/* ---- picks ----------------------------------------------------------------------------------- */

/* One allocation: the picks in order, and space for a sorted copy. */
void mend_pick_add(mend_plan *plan, mend_chunk *chunk)
{
    enum { FIRST_CAPACITY = 16 };
    mend_picks *picks = &plan->picks;
    assert(mend_chunk_is_empty(chunk));
    assert(!mend_plan_is_in_base(plan, chunk));
    if (picks->count == picks->capacity) {
        const size_t capacity = picks->capacity == 0 ? FIRST_CAPACITY : 2 * picks->capacity;
        mend_chunk **chunks = realloc(picks->chunks, 2 * capacity * sizeof(mend_chunk *));
        if (chunks == NULL) {
            plan->lacks_host_memory = true;
            return;
        }
        picks->chunks = chunks;
        picks->capacity = capacity;
    }
    picks->chunks[picks->count++] = chunk;
    plan->picked_bytes += chunk->size_bytes;
    plan->moved_count += chunk->address != 0 ? 1 : 0;
}

bool mend_pick_may(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                   mend_chunk *chunk)
{
    return !mend_plan_is_in_base(plan, chunk) &&
           mend_layout_chunk_is_ready(heap, chunk, request->stream, request->behind_wait);
}

static bool try_pick(mend_heap *heap, const mend_request *request, mend_plan *plan,
                     mend_chunk *chunk)
{
    const bool picks = mend_pick_may(heap, request, plan, chunk);
    if (picks) {
        mend_pick_add(plan, chunk);
    }
    return picks;
}

/* ---- in which order chunks of one size are taken --------------------------------------------- */

/* A chunk of the size, and the run that it is in. If it is not mapped, all is 0. */
typedef struct candidate {
    mend_chunk *chunk;
    const mend_run *run;
    uint64_t run_bytes;
} candidate;

/* First chunks in the smallest run, because its addresses serve no large request, and from the
 * run's end, so that the rest stays in one piece and can grow. */
static int compare_candidates(const candidate *a, const candidate *b)
{
    if (a->run_bytes != b->run_bytes) {
        return mend_compare_u64(a->run_bytes, b->run_bytes);
    }
    return a->chunk->address != b->chunk->address
               ? mend_compare_u64(b->chunk->address, a->chunk->address)
               : mend_compare_u64(b->chunk->memory.number, a->chunk->memory.number);
}

/* Puts a candidate in its place among those behind it in a heap, whose root is taken first. Few of
 * them are taken, so that to sort all would cost several times as much. */
static void sift(candidate *candidates, size_t count, size_t at)
{
    const candidate moved = candidates[at];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child +=
            child + 1 < count && compare_candidates(&candidates[child + 1], &candidates[child]) < 0;
        if (compare_candidates(&moved, &candidates[child]) <= 0) {
            break;
        }
        candidates[at] = candidates[child];
        at = child;
    }
    candidates[at] = moved;
}

/* Among many chunks of the size, the oldest ones are compared, a few more than are needed. The
 * others follow in the order of the set. */
static uint64_t pick_by_run(mend_heap *heap, const mend_request *request, mend_plan *plan,
                            uint64_t size_bytes, uint64_t need_bytes)
{
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, size_bytes, 0);
    assert(at != NULL && at->size_bytes == size_bytes); /* the caller knows that there is one */
    const size_t most =
        mend_min_u64(need_bytes / size_bytes + CHUNKS_COMPARED, heap->chunks.empty.count);
    candidate *candidates = malloc(most * sizeof(*candidates));
    if (candidates == NULL) {
        plan->lacks_host_memory = true;
        return need_bytes;
    }
    candidate last = {0};
    size_t count = 0;
    for (; at != NULL && at->size_bytes == size_bytes && count < most;
         at = mend_chunk_empty_next(at)) {
        last.chunk = at; /* it is often in the same run as the last one */
        if (last.run == NULL || at->address - last.run->address >= last.run_bytes) {
            last.run = mend_layout_run_at(&heap->zones[at->zone], at->address);
            last.run_bytes = last.run != NULL ? last.run->size_bytes : 0;
        }
        candidates[count++] = last;
    }
    for (size_t i = count / 2; i-- > 0;) {
        sift(candidates, count, i);
    }
    for (; count > 0 && size_bytes <= need_bytes; sift(candidates, count, 0)) {
        need_bytes -= try_pick(heap, request, plan, candidates[0].chunk) ? size_bytes : 0;
        candidates[0] = candidates[--count];
    }
    free(candidates);
    for (; at != NULL && at->size_bytes == size_bytes && size_bytes <= need_bytes;
         at = mend_chunk_empty_next(at)) {
        need_bytes -= try_pick(heap, request, plan, at) ? size_bytes : 0;
    }
    return need_bytes;
}

/* Adds chunks for `need_bytes` that the request's stream may use, outside of the plan's base: the
 * largest ones not above the need first, then the smallest one that covers the rest. Called once
 * for a plan. Returns the bytes still missing. */
static uint64_t pick_chunks(mend_heap *heap, const mend_request *request, mend_plan *plan,
                            uint64_t need_bytes)
{
    assert(need_bytes > 0);
    mend_chunk *largest = mend_chunk_empty_at_most(&heap->chunks, need_bytes, UINT64_MAX);
    while (need_bytes > 0 && largest != NULL) {
        const uint64_t size_bytes = largest->size_bytes;
        need_bytes = pick_by_run(heap, request, plan, size_bytes, need_bytes);
        largest = mend_chunk_empty_at_most(&heap->chunks, mend_min_u64(size_bytes - 1, need_bytes),
                                           UINT64_MAX);
    }
    mend_chunk *cover =
        need_bytes > 0 ? mend_chunk_empty_at_least(&heap->chunks, need_bytes, 0) : NULL;
    while (cover != NULL &&
           (!mend_pick_may(heap, request, plan, cover) || mend_plan_uses(plan, cover))) {
        cover = mend_chunk_empty_next(cover);
    }
    if (cover == NULL ||
        cover->size_bytes - need_bytes > mend_budget_waste_allowed(heap, request)) {
        return need_bytes;
    }
    mend_pick_add(plan, cover);
    return 0;
}

/* ---- from a request to a plan ---------------------------------------------------------------- */

static void note_refused(mend_plan *plan, uint64_t create_bytes)
{
    bool is_least = plan->refused_bytes == 0 || create_bytes < plan->refused_bytes;
    plan->refused_bytes = create_bytes != 0 && is_least ? create_bytes : plan->refused_bytes;
}

/* Decides which chunks to create for the missing bytes. False if they exceed the limit. While
 * pressure is low, requests below a usual chunk share usual chunks, which saves calls. While it is
 * high, the last page is a chunk of its own. The next block begins in it, so no block prevents its
 * neighbor's large chunk from being empty. */
static bool plan_creation(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                          uint64_t missing_bytes, mend_plan *plan)
{
    assert(missing_bytes > 0);
    if (request->creates_nothing || !rules.may_create) {
        return false;
    }
    const uint64_t room = mend_budget_room_bytes(heap, request);
    const bool is_small = request->zone == MEND_ZONE_SMALL;
    const uint64_t share = mend_budget_share(heap, request);
    const bool is_pressed =
        !is_small && !mend_budget_is_emptied(heap) && mend_budget_is_pressed(heap);
    uint64_t page = mend_min_u64(mend_budget_page(heap, is_pressed), share);
    if (rules.exact || mend_align_up(missing_bytes, page) > room) {
        page = heap->device.granularity_bytes;
    }
    const uint64_t exact = mend_align_up(missing_bytes, page);
    const uint64_t largest = mend_budget_usual_chunk(heap, request->zone);
    const uint64_t usual = mend_min_u64(largest, share);
    if (exact > room) {
        if (mend_budget_lacks_device_memory(heap, exact)) {
            note_refused(plan, exact);
        }
        plan->lacking_bytes = mend_budget_lacking_bytes(heap, request, exact);
        plan->create_bytes = exact;
        return false;
    }
    const bool rounded_up = !is_pressed && !rules.exact && exact < usual && usual <= room;
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
    uint64_t missing = rules.may_move ? pick_chunks(heap, request, plan, need_bytes) : need_bytes;
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

/* The largest run below the request's size that is ready and has enough unmapped addresses behind
 * it. */
static base_candidate find_base(mend_heap *heap, const mend_request *request, mend_run *run,
                                int *tries)
{
    for (; run != NULL && *tries > 0; run = mend_layout_growing_smaller(run)) {
        (*tries)--;
        const uint64_t start = mend_align_up(run->address, request->alignment_bytes);
        const uint64_t end = mend_run_end(run);
        if (start >= end) {
            continue;
        }
        assert(end - start < request->size_bytes);
        const uint64_t need_bytes = request->size_bytes - (end - start);
        if (mend_space_room_at(&heap->space, end) >= need_bytes &&
            mend_fit_is_ready(heap, request, run, start, end)) {
            return (base_candidate){run, start, need_bytes};
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
    /* Small blocks begin in chunks of their own. */
    assert(!rules.may_extend || request->zone == MEND_ZONE_LARGE);
    int tries = SEARCH_TRIES; /* the largest run usually needs the least memory */
    mend_run *run = rules.may_extend ? mend_layout_growing_below(&heap->zones[request->zone],
                                                                 request->size_bytes)
                                     : NULL;
    base_candidate place = find_base(heap, request, run, &tries);
    while (place.run != NULL) {
        const growth found = plan_growth(heap, request, rules, &place, plan);
        if (found == GROWTH_FITS) {
            return true;
        }
        if (found == GROWTH_LACKS_MEMORY) {
            break; /* looks at no further run: that would join its spans */
        }
        place = find_base(heap, request, mend_layout_growing_smaller(place.run), &tries);
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
    mend_chunk *chunk = mend_chunk_empty_at_least(&heap->chunks, request->size_bytes, 0);
    for (; chunk != NULL && chunk->size_bytes <= largest_bytes;
         chunk = mend_chunk_empty_next(chunk)) {
        if (try_pick(heap, request, plan, chunk)) {
            return !plan->lacks_host_memory;
        }
    }
    return false;
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

/* ---- beside memory that the stream may not use ----------------------------------------------- */

/* Where the usable end of a run begins. The end of the run: nowhere. Joins idle spans. */
static uint64_t usable_end_of(mend_heap *heap, const mend_request *request, mend_run *run)
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
        const uint64_t from = usable_end_of(heap, request, run);
        const uint64_t end = mend_run_end(run);
        base_candidate place = {run, mend_align_up(from, request->alignment_bytes), 0};
        if (place.start >= end || end - place.start >= request->size_bytes) {
            continue;
        }
        place.need_bytes = request->size_bytes - (end - place.start);
        /* Empty chunks of the run stay there. */
        uint64_t need_bytes = mend_align_up(place.need_bytes, heap->device.granularity_bytes);
        for (const mend_chunk *at = run->chunk; at != NULL && at->address < end;
             at = mend_chunk_next(at)) {
            need_bytes += mend_chunk_is_empty(at) ? at->size_bytes : 0;
        }
        if (mend_space_room_at(&heap->space, end) >= place.need_bytes &&
            mend_plan_may_have(heap, request, rules, need_bytes)) {
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

/* ---- bridges --------------------------------------------------------------------------------- */

/* Takes the place if all of it is free and ready, and less of it is unmapped than of the best. */
static void try_place(mend_heap *heap, const mend_request *request, uint64_t address,
                      mend_bridge *best)
{
    const uint64_t page = heap->device.granularity_bytes;
    mend_bridge place = {.address = address, .end = address + request->size_bytes};
    for (uint64_t at = address; at < place.end;) {
        mend_run *run = mend_layout_run_at(&heap->zones[request->zone], at);
        uint64_t next =
            run != NULL ? mend_run_end(run) : at + mend_space_free_from(&heap->space, at);
        if (run == NULL && next >= place.end) {
            place.end = mend_align_up(place.end, page);
        }
        next = mend_min_u64(next, place.end);
        place.missing_bytes += run == NULL ? next - at : 0;
        if (next == at || place.missing_bytes >= best->missing_bytes ||
            (run != NULL && !mend_fit_is_ready(heap, request, run, at, next))) {
            return;
        }
        at = next;
    }
    *best = place;
}

bool mend_bridge_find(mend_heap *heap, const mend_request *request, uint64_t moved_bytes,
                      mend_bridge *bridge)
{
    const mend_zone *zone = &heap->zones[request->zone];
    *bridge = (mend_bridge){.missing_bytes = moved_bytes};
    mend_run *run = mend_layout_growing_below(zone, request->size_bytes);
    for (int tries = 0; run != NULL && tries < SEARCH_TRIES; tries++) {
        try_place(heap, request, mend_align_up(run->address, request->alignment_bytes), bridge);
        run = mend_layout_growing_smaller(run);
    }
    return bridge->address != 0;
}

bool mend_bridge_plan(mend_heap *heap, const mend_request *request, const mend_bridge *bridge,
                      mend_plan *plan)
{
    const mend_zone *zone = &heap->zones[request->zone];
    const mend_run *run = mend_layout_run_at(zone, bridge->address);
    uint64_t at = bridge->address;
    *plan = (mend_plan){.base_address = run != NULL ? run->address : at};
    plan->base_bytes = bridge->end - plan->base_address;
    for (; at < bridge->end && run != NULL; run = mend_layout_run_at(zone, at)) {
        at = mend_run_end(run);
    }
    const uint64_t room_bytes = mend_space_free_from(&heap->space, at);
    plan->fixed_address = at;
    if (at >= bridge->end || room_bytes == 0) {
        return false;
    }
    const uint64_t need_bytes = mend_min_u64(room_bytes, bridge->end - at);
    return pick_chunks(heap, request, plan, need_bytes) == 0 && plan->picked_bytes <= room_bytes &&
           !plan->lacks_host_memory;
}
