/*
 * Plans at a fixed address: which empty chunks to map into a gap of a range, and what to create for
 * the rest. No chunk crosses the border of a page, so that the decommit of a page sets free just
 * the chunks below it.
 */
#include "policy/policy.h"

#include <assert.h>
#include <stdlib.h>

/* Usable chunks of one size. */
typedef struct size_class {
    uint64_t size_bytes;
    size_t next; /* index of the first one that is not used yet */
    size_t end;
} size_class;

/* The empty chunks that may go into pages, the largest sizes first. */
typedef struct offer {
    mend_chunk **chunks;
    size_t count;
    size_t capacity;
    size_class *classes;
    size_t class_count;
} offer;

static void clear(offer *all)
{
    free(all->chunks);
    free(all->classes);
}

/* Room for one more of each. False if malloc fails. */
static bool reserve(offer *all)
{
    if (all->count < all->capacity) {
        return true;
    }
    const size_t capacity = all->capacity == 0 ? 16 : 2 * all->capacity;
    mend_chunk **chunks = realloc(all->chunks, capacity * sizeof(mend_chunk *));
    if (chunks == NULL) {
        return false;
    }
    all->chunks = chunks;
    size_class *classes = realloc(all->classes, capacity * sizeof(*classes));
    if (classes == NULL) {
        return false;
    }
    all->classes = classes;
    all->capacity = capacity;
    return true;
}

/* Chunks of one size, at most as many as the gap holds. */
static bool gather_size(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                        uint64_t size_bytes, uint64_t gap_bytes, offer *all)
{
    const size_t first = all->count;
    mend_chunk *at = mend_chunk_empty_at_least(&heap->chunks, size_bytes, 0);
    for (; at != NULL && at->size_bytes == size_bytes &&
           (all->count - first) * size_bytes < gap_bytes;
         at = mend_chunk_empty_next(at)) {
        if (!mend_pick_may(heap, request, plan, at)) {
            continue;
        }
        if (!reserve(all)) {
            return false;
        }
        all->chunks[all->count++] = at;
    }
    if (all->count > first) {
        all->classes[all->class_count++] = (size_class){size_bytes, first, all->count};
    }
    return true;
}

static bool gather(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                   uint64_t page_bytes, uint64_t gap_bytes, offer *all)
{
    mend_chunk *largest = mend_chunk_empty_at_most(&heap->chunks, page_bytes, UINT64_MAX);
    while (largest != NULL) {
        const uint64_t size_bytes = largest->size_bytes;
        if (!gather_size(heap, request, plan, size_bytes, gap_bytes, all)) {
            return false;
        }
        largest = mend_chunk_empty_at_most(&heap->chunks, size_bytes - 1, UINT64_MAX);
    }
    return true;
}

/* Picks chunks for a part of one page, the largest first. Returns the bytes still missing. */
static uint64_t fill_page(mend_plan *plan, offer *all, uint64_t need_bytes)
{
    for (size_t i = 0; i < all->class_count && need_bytes > 0; i++) {
        size_class *class = &all->classes[i];
        while (class->next < class->end && class->size_bytes <= need_bytes) {
            mend_pick_add(plan, all->chunks[class->next++]);
            need_bytes -= class->size_bytes;
        }
    }
    return need_bytes;
}

static bool is_used_up(const offer *all)
{
    for (size_t i = 0; i < all->class_count; i++) {
        if (all->classes[i].next < all->classes[i].end) {
            return false;
        }
    }
    return true;
}

/* Chooses chunks page by page. Created chunks come behind all picked ones, so that after a page
 * that needs both the plan may have to end. */
static void fill(mend_plan *plan, const mend_range *range, mend_range_gap gap, offer *all)
{
    uint64_t address = gap.address;
    const uint64_t gap_end = gap.address + gap.size_bytes;
    while (address < gap_end && plan->create_bytes == 0) {
        const size_t page = mend_range_page_of(range, address);
        const uint64_t end = mend_min_u64(mend_range_page_start(range, page + 1), gap_end);
        plan->create_bytes = fill_page(plan, all, end - address);
        address = end;
    }
    plan->create_head_bytes = plan->create_bytes;
    if (plan->create_bytes > 0 && is_used_up(all)) {
        plan->create_bytes += gap_end - address;
    }
}

/* Whether the limit has room for what the plan creates; if not, the plan says what it lacks. */
static bool may_create(mend_heap *heap, mend_plan *plan)
{
    if (plan->create_bytes <= mend_budget_room_bytes(heap)) {
        return true;
    }
    if (mend_budget_lacks_device_memory(heap, plan->create_bytes)) {
        plan->refused_bytes = plan->create_bytes;
    }
    plan->lacking_bytes = mend_budget_lacking_bytes(heap, plan->create_bytes);
    return false;
}

bool mend_plan_find_fixed(mend_heap *heap, const mend_request *request, const mend_range *range,
                          mend_range_gap gap, mend_plan *plan)
{
    assert(gap.size_bytes > 0);
    assert(mend_parts_contain(request->pages, gap.address));
    assert(mend_parts_contain(request->pages, gap.address + gap.size_bytes - 1));
    *plan = (mend_plan){.fixed_address = gap.address, .pages = request->pages};
    offer all = {.chunks = NULL};
    if (gather(heap, request, plan, range->page_bytes, gap.size_bytes, &all)) {
        fill(plan, range, gap, &all);
        plan->create_unit_bytes = range->page_bytes;
    } else {
        plan->lacks_host_memory = true;
    }
    clear(&all);
    return !plan->lacks_host_memory && may_create(heap, plan);
}
