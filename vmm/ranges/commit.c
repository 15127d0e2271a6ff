/*
 * One try to commit pages of ranges, with the memory there is: where it is still mapped, from empty
 * chunks that are moved, by creation. The ladder makes more memory free (alloc/ladder.h).
 */
#include "alloc/ladder.h"

#include "map/map.h"
#include "ranges/ranges.h"

/* The most plans for one gap: one may lack room under the limit or the device, the driver may
 * refuse the next one, because others took memory meanwhile, and the last one knows that. */
enum { PLANS = 3 };

/* ---- where all pages are mapped ------------------------------------------------------------- */

/* The run around a page that is not committed; NULL: part of the page is not mapped, or pinned free
 * memory that a compaction claimed. */
static mend_run *run_of(const mend_heap *heap, const mend_range *range, uint64_t address)
{
    mend_run *run = mend_layout_run_at(&heap->zones[MEND_ZONE_RANGE], address);
    return run != NULL && mend_run_end(run) - address >= range->page_bytes ? run : NULL;
}

/* Whether each missing page is mapped, and its memory ready for the stream. */
static bool are_ready(mend_heap *heap, const mend_request *request, const mend_part *part)
{
    const mend_range *range = part->range;
    const uint64_t page_bytes = range->page_bytes;
    MEND_MISSING_EACH(at, range, part->from, part->end) {
        mend_run *run = run_of(heap, range, at);
        if (run == NULL || !mend_layout_is_ready(heap, run, at, page_bytes, request->stream,
                                                 request->behind_wait)) {
            return false;
        }
    }
    return true;
}

/* Makes the stream wait for the last use of the pages' memory. Releases `state` if it queues a
 * wait, and says AGAIN then. */
static mend_outcome order_stream(mend_heap *heap, const mend_request *request,
                                 const mend_part *part)
{
    const mend_range *range = part->range;
    MEND_MISSING_EACH(at, range, part->from, part->end) {
        mend_result result = mend_layout_make_ready(heap, run_of(heap, range, at), at,
                                                    range->page_bytes, request->stream);
        if (result != MEND_OK) {
            return mend_outcome_of(result);
        }
    }
    return MEND_PLACED;
}

static void take_pages(mend_heap *heap, const mend_request *request, const mend_part *part)
{
    mend_range *range = part->range;
    mend_page_stretch stretch = {.kind = MEND_EVENT_COMMIT, .stream = request->handle};
    MEND_MISSING_EACH(at, range, part->from, part->end) {
        const size_t page = mend_range_page_of(range, at);
        mend_range_take_page(heap, range, page, request->handle);
        mend_range_note_page(heap, &stretch, range->pages[page]);
    }
    mend_range_note_last(heap, &stretch);
}

static mend_outcome commit_mapped(mend_heap *heap, const mend_request *request)
{
    const mend_part *parts = mend_parts_of(request->pages)->items;
    const size_t count = mend_parts_of(request->pages)->count;
    assert(mend_mutex_is_held(&heap->state));
    for (size_t i = 0; i < count; i++) {
        if (!are_ready(heap, request, &parts[i])) {
            return MEND_NOTHING;
        }
    }
    for (size_t i = 0; request->behind_wait != 0 && i < count; i++) {
        mend_outcome outcome = order_stream(heap, request, &parts[i]);
        if (outcome != MEND_PLACED) {
            return outcome;
        }
    }
    if (!mend_range_reserve_commit(heap, mend_parts_of(request->pages))) {
        return mend_outcome_without_host_memory();
    }
    for (size_t i = 0; i < count; i++) {
        take_pages(heap, request, &parts[i]);
    }
    return MEND_PLACED;
}

/* ---- mapping what is missing ---------------------------------------------------------------- */

static bool has_addresses_for(const mend_heap *heap, mend_range_gap gap)
{
    return mend_space_free_from(&heap->range_space, gap.address) >= gap.size_bytes;
}

/* Whether no old mapping is left in any gap. */
static bool has_addresses(const mend_heap *heap, const mend_part *part)
{
    mend_range_gap gap = mend_range_next_gap(heap, part->range, part->from, part->end);
    while (gap.size_bytes > 0 && has_addresses_for(heap, gap)) {
        gap = mend_range_next_gap(heap, part->range, gap.address + gap.size_bytes, part->end);
    }
    return gap.size_bytes == 0;
}

/* Carries a plan out, if there is one. If the limit forbids what it creates, chunks that fit no
 * page are given back, so that others can be created; *goes_on: there may be a plan now. */
static mend_outcome carry_out(mend_heap *heap, const mend_request *request, bool is_found,
                              mend_plan *plan, mend_offer *offer, bool *goes_on)
{
    mend_span *none = NULL;
    *goes_on = false;
    if (is_found) {
        *goes_on = plan->create_bytes > 0; /* the pool may know now that the device has less */
        mend_outcome outcome = mend_grow(heap, request, plan, &none);
        if (outcome != MEND_PLACED) {
            mend_offer_clear(offer);
        }
        return outcome;
    }
    mend_offer_again(offer);
    if (plan->lacks_host_memory) {
        return mend_outcome_without_host_memory();
    }
    mend_result result =
        mend_trim_for(heap, request->stream, plan, mend_request_missing_bytes(request), goes_on);
    return result == MEND_OK ? MEND_NOTHING : MEND_FAILED;
}

/* Maps the gap, or the beginning of it. An attempt that the driver did not let undo leaves a
 * mapping there: then there is no other one. */
static mend_outcome fill_gap(mend_heap *heap, const mend_request *request, const mend_range *range,
                             mend_range_gap gap, mend_offer *offer)
{
    mend_outcome outcome = MEND_NOTHING;
    bool goes_on = true;
    for (int tries = 0;
         tries < PLANS && goes_on && outcome == MEND_NOTHING && has_addresses_for(heap, gap);
         tries++) {
        mend_plan plan;
        bool is_found = mend_plan_find_fixed(heap, request, range, gap, offer, &plan);
        outcome = carry_out(heap, request, is_found, &plan, offer, &goes_on);
        mend_plan_clear(&plan);
    }
    return outcome;
}

static mend_outcome fill_gaps(mend_heap *heap, const mend_request *request, const mend_part *part,
                              mend_offer *offer)
{
    mend_range_gap gap = mend_range_next_gap(heap, part->range, part->from, part->end);
    mend_outcome outcome = MEND_PLACED;
    while (outcome == MEND_PLACED && gap.size_bytes > 0) {
        outcome = fill_gap(heap, request, part->range, gap, offer);
        gap = mend_range_next_gap(heap, part->range, gap.address, part->end);
    }
    return outcome;
}

/* Whether the gaps can be mapped. If the driver refused to unmap, or to tell of captures, it is
 * asked once more. */
static mend_outcome clear_gaps(mend_heap *heap, const mend_request *request, const mend_part *part)
{
    bool is_captured = false;
    if (has_addresses(heap, part)) {
        return MEND_PLACED;
    }
    if (mend_streams_find_capture(&heap->streams, request->stream, &is_captured) != MEND_OK) {
        return MEND_FAILED;
    }
    mend_retire_flush(heap, request->stream);
    if (has_addresses(heap, part)) {
        return MEND_PLACED;
    }
    return heap->retire.lacked_nodes ? mend_outcome_without_host_memory() : MEND_NOTHING;
}

/* All gaps are cleared before the first is filled: what cannot be had costs no memory. */
mend_outcome mend_parts_commit(mend_heap *heap, const mend_request *request, bool maps)
{
    if (!maps) {
        return commit_mapped(heap, request);
    }
    const mend_part *parts = mend_parts_of(request->pages)->items;
    const size_t count = mend_parts_of(request->pages)->count;
    assert(mend_mutex_is_held(&heap->grow));
    mend_outcome outcome = MEND_PLACED;
    if (!mend_range_reserve_commit(heap, mend_parts_of(request->pages))) {
        return mend_outcome_without_host_memory(); /* before anything is mapped */
    }
    mend_budget_note_use(heap);
    heap->shortage.held_range = 0;
    for (size_t i = 0; i < count && outcome == MEND_PLACED; i++) {
        outcome = clear_gaps(heap, request, &parts[i]);
        heap->shortage.held_range = outcome == MEND_NOTHING ? parts[i].range->address : 0;
    }
    mend_offer offer = {0};
    for (size_t i = 0; i < count && outcome == MEND_PLACED; i++) {
        outcome = fill_gaps(heap, request, &parts[i], &offer);
    }
    mend_offer_clear(&offer);
    if (outcome == MEND_PLACED) {
        outcome = commit_mapped(heap, request);
    }
    return outcome;
}
