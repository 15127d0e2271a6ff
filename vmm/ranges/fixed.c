/*
 * Plans at a fixed address: which empty chunks to map into a gap of a range, and what to create for
 * the rest. No chunk crosses the border of a page, so that the decommit of a page sets free just
 * the chunks below it.
 */
#include "ranges/ranges.h"

#include <stdlib.h>

struct mend_offered {
    uint64_t size_bytes;
    uint64_t from;  /* the number of the chunk at which the search goes on */
    uint64_t first; /* of the first that the last plan picked; USED_UP: none */
};

enum { FIRST_CAPACITY = 16 };
#define USED_UP UINT64_MAX

void mend_offer_clear(mend_offer *offer)
{
    free(offer->sizes);
    *offer = (mend_offer){0};
}

void mend_offer_again(mend_offer *offer)
{
    for (size_t i = 0; i < offer->count; i++) {
        struct mend_offered *size = &offer->sizes[i];
        size->from = size->first != USED_UP ? size->first : size->from;
    }
}

/* False if malloc fails. */
static bool add_size(mend_offer *offer, uint64_t size_bytes)
{
    if (offer->count == offer->capacity) {
        const size_t capacity = offer->capacity == 0 ? FIRST_CAPACITY : 2 * offer->capacity;
        struct mend_offered *sizes = realloc(offer->sizes, capacity * sizeof(*sizes));
        if (sizes == NULL) {
            return false;
        }
        offer->sizes = sizes;
        offer->capacity = capacity;
    }
    offer->sizes[offer->count++] = (struct mend_offered){size_bytes, 0, USED_UP};
    return true;
}

/* All sizes of empty chunks that a page of the request could have, the largest first. */
static bool gather(mend_heap *heap, uint64_t page_bytes, mend_offer *offer)
{
    const mend_chunk *largest = mend_chunk_empty_at_most(&heap->chunks, page_bytes, UINT64_MAX);
    for (; largest != NULL && add_size(offer, largest->size_bytes);
         largest = mend_chunk_empty_at_most(&heap->chunks, largest->size_bytes - 1, UINT64_MAX)) {
    }
    offer->is_gathered = largest == NULL;
    return offer->is_gathered;
}

/* The next chunk of one size that the plan may use; NULL: none. What is passed over is not looked
 * at again for later gaps: chunks in the pages of the request, most of which earlier gaps moved
 * there, and those that are not ready. */
static mend_chunk *next_of(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                           struct mend_offered *size)
{
    mend_chunk *at = size->from != USED_UP
                         ? mend_chunk_empty_at_least(&heap->chunks, size->size_bytes, size->from)
                         : NULL;
    while (at != NULL && at->size_bytes == size->size_bytes &&
           !mend_pick_may(heap, request, plan, at)) {
        at = mend_chunk_empty_next(at);
    }
    at = at != NULL && at->size_bytes == size->size_bytes ? at : NULL;
    size->from = at != NULL ? at->memory.number : USED_UP;
    return at;
}

/* Picks chunks for a part of one page, the largest first. Returns the bytes still missing. */
static uint64_t fill_page(mend_heap *heap, const mend_request *request, mend_plan *plan,
                          mend_offer *offer, uint64_t need_bytes)
{
    for (size_t i = 0; i < offer->count && need_bytes > 0; i++) {
        struct mend_offered *size = &offer->sizes[i];
        mend_chunk *at;
        while (size->size_bytes <= need_bytes &&
               (at = next_of(heap, request, plan, size)) != NULL) {
            mend_pick_add(plan, at);
            size->first = size->first == USED_UP ? at->memory.number : size->first;
            size->from = at->memory.number + 1;
            need_bytes -= size->size_bytes;
        }
    }
    return need_bytes;
}

/* Whether no chunk is left that a page could have. */
static bool is_used_up(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                       const mend_range *range, mend_offer *offer)
{
    for (size_t i = 0; i < offer->count; i++) {
        if (offer->sizes[i].size_bytes <= range->page_bytes &&
            next_of(heap, request, plan, &offer->sizes[i]) != NULL) {
            return false;
        }
    }
    return true;
}

/* Chooses chunks page by page. Created chunks come behind all picked ones, so that after a page
 * that needs both the plan may have to end. */
static void fill(mend_heap *heap, const mend_request *request, mend_plan *plan,
                 const mend_range *range, mend_range_gap gap, mend_offer *offer)
{
    uint64_t address = gap.address;
    const uint64_t gap_end = gap.address + gap.size_bytes;
    while (address < gap_end && plan->create_bytes == 0) {
        const size_t page = mend_range_page_of(range, address);
        const uint64_t end = mend_min_u64(mend_range_page_start(range, page + 1), gap_end);
        plan->create_bytes = fill_page(heap, request, plan, offer, end - address);
        address = end;
    }
    plan->create_head_bytes = plan->create_bytes;
    if (plan->create_bytes > 0 && is_used_up(heap, request, plan, range, offer)) {
        plan->create_bytes += gap_end - address;
    }
}

bool mend_plan_find_fixed(mend_heap *heap, const mend_request *request, const mend_range *range,
                          mend_range_gap gap, mend_offer *offer, mend_plan *plan)
{
    assert(gap.size_bytes > 0);
    assert(mend_parts_contain(request->pages, gap.address));
    assert(mend_parts_contain(request->pages, gap.address + gap.size_bytes - 1));
    *plan = (mend_plan){.fixed_address = gap.address, .pages = request->pages};
    for (size_t i = 0; i < offer->count; i++) {
        offer->sizes[i].first = USED_UP;
    }
    if (offer->is_gathered || gather(heap, request->pages->largest_page_bytes, offer)) {
        fill(heap, request, plan, range, gap, offer);
        plan->create_unit_bytes = range->page_bytes;
    } else {
        plan->lacks_host_memory = true;
    }
    const bool is_within = plan->create_bytes <= mend_budget_room_bytes(heap);
    if (!plan->lacks_host_memory && !is_within) {
        plan->lacking_bytes = mend_budget_lacking_bytes(heap, plan->create_bytes);
    }
    return !plan->lacks_host_memory && is_within;
}
