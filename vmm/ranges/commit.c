/* One try to commit pages of ranges, with the memory there is: where it is still mapped, from empty
 * chunks that are moved, by creation. The fallback chain makes more memory free (alloc/heap.h). */
#include <stdlib.h>

#include "alloc/heap.h"
#include "layout/layout.h"
#include "map/map.h"
#include "ranges/ranges.h"

/* The most plans for one gap: one may exceed the limit or the device. The driver may refuse the
 * next one because others took memory. The last one knows that. */
enum { PLANS = 3 };

/* Visits the pages of all parts that are not committed. */
#define MISSING_EACH(part, at, parts)                                                              \
    for (const mend_part *part = (parts)->items; part < (parts)->items + (parts)->count; part++)   \
        for (uint64_t at = part->from; at < part->end; at += part->range->page_bytes)              \
            if (part->range->pages[mend_range_page_of(part->range, at)] == NULL)

/* The parts as the core knows them, with hooks of ranges. The core tries to commit them by
 * mend_pages.commit. Memory that a try maps and cannot commit stays free memory, which a later try
 * finds. No page is committed before all are. */
typedef struct parts_pages {
    mend_pages pages;
    const mend_parts *parts;
} parts_pages;

static const mend_parts *parts_of(const mend_pages *pages)
{
    return MEND_CONTAINER_OF(pages, const parts_pages, pages)->parts;
}

/* Bytes of the parts that are not committed. */
static uint64_t missing_bytes(const mend_pages *pages)
{
    uint64_t bytes = 0;
    MISSING_EACH(part, at, parts_of(pages)) {
        bytes += part->range->page_bytes;
    }
    return bytes;
}

/* Whether an address is in one of the parts. O(log parts). */
static bool contain(const mend_pages *pages, uint64_t address)
{
    const mend_parts *parts = parts_of(pages);
    size_t first = 0;
    size_t end = parts->count;
    while (end - first > 1) {
        const size_t middle = first + (end - first) / 2;
        if (parts->items[middle].from <= address) {
            first = middle;
        } else {
            end = middle;
        }
    }
    const mend_part *part = &parts->items[first];
    return address >= part->from && address < part->end;
}

void mend_range_note_last(mend_heap *heap, mend_page_stretch *stretch)
{
    if (stretch->end > stretch->from && mend_events_has(&heap->events, (int)stretch->kind)) {
        mend_events_put_step(&heap->events,
                             &(mend_history_event){.kind = (int)stretch->kind,
                                                   .address = (void *)(uintptr_t)stretch->from,
                                                   .size_bytes = stretch->end - stretch->from,
                                                   .stream = stretch->stream,
                                                   .tag = stretch->tag});
    }
}

void mend_range_note_page(mend_heap *heap, mend_page_stretch *stretch, const mend_span *page)
{
    const uint64_t tag = mend_span_shown_tag(page);
    if (page->address != stretch->end || tag != stretch->tag) {
        mend_range_note_last(heap, stretch);
        stretch->from = page->address;
        stretch->tag = tag;
    }
    stretch->end = mend_span_end(page);
}

/* ---- where all pages are mapped -------------------------------------------------------------- */

/* The run around a page that is not committed. NULL: part of the page is not mapped, or pinned free
 * memory that a compaction claimed. */
static mend_run *run_of(const mend_heap *heap, const mend_range *range, uint64_t address)
{
    mend_run *run = mend_layout_run_at(&heap->zones[MEND_ZONE_RANGE], address);
    return run != NULL && mend_run_end(run) - address >= range->page_bytes ? run : NULL;
}

/* Reserves nodes to commit mapped pages. Each page is cut off the rest of its run. The first one of
 * neighbors is cut out of the middle, which leaves a run before it. Pages that are not mapped yet
 * have no waits. O(pages and waits of their memory). False if malloc fails. */
static bool reserve_commit(mend_heap *heap, const mend_parts *parts)
{
    mend_layout_promise nodes = {0};
    mend_run *run = NULL;
    uint64_t behind = 0;
    MISSING_EACH(part, at, parts) {
        const uint64_t end = at + part->range->page_bytes;
        if (run == NULL || at - run->address >= run->size_bytes) {
            run = mend_layout_run_at(&heap->zones[MEND_ZONE_RANGE], at);
        }
        if (run != NULL && mend_run_end(run) >= end) {
            nodes.waits += mend_layout_count_waits(heap, run, at, end);
        }
        nodes.spans += at == behind ? 1 : 2;
        nodes.runs += at != behind;
        behind = end;
    }
    return mend_layout_reserve_these(heap, &nodes);
}

/* Commits the missing pages, which are free memory in runs. Their spans keep the waits of their
 * memory. */
static void take_pages(mend_heap *heap, const mend_request *request)
{
    mend_page_stretch stretch = {.kind = MEND_EVENT_COMMIT, .stream = request->handle};
    MISSING_EACH(part, at, parts_of(request->pages)) {
        mend_range *range = part->range;
        const uint64_t page_bytes = range->page_bytes;
        mend_run *run = mend_layout_run_at(&heap->zones[MEND_ZONE_RANGE], at);
        mend_span *span = mend_layout_take(heap, run, at, page_bytes, 0);
        mend_layout_count_alloc(heap, &heap->zones[span->zone], span, page_bytes, request->handle);
        mend_usage_note(heap);
        span->tag = range->tag;
        span->sleep_tag = span->sleep_tag != 0 ? span->sleep_tag : range->sleep_tag;
        range->pages[mend_range_page_of(range, at)] = span;
        range->committed_bytes += page_bytes;
        mend_range_note_page(heap, &stretch, span);
    }
    mend_range_note_last(heap, &stretch);
}

/* Makes the stream wait for the last use of the pages' memory first. NOTHING: not all is mapped, or
 * ready. AGAIN: it queued a wait, and released `state`. */
static mend_outcome commit_mapped(mend_heap *heap, const mend_request *request)
{
    const mend_parts *parts = parts_of(request->pages);
    assert(mend_mutex_is_held(&heap->state));
    MISSING_EACH(part, at, parts) {
        mend_run *run = run_of(heap, part->range, at);
        if (run == NULL || !mend_layout_is_ready(heap, run, at, part->range->page_bytes,
                                                 request->stream, request->behind_wait)) {
            return MEND_NOTHING;
        }
    }
    if (request->behind_wait != 0) {
        MISSING_EACH(part, at, parts) {
            mend_result result = mend_layout_make_ready(heap, run_of(heap, part->range, at), at,
                                                        part->range->page_bytes, request->stream);
            if (result != MEND_OK) {
                return mend_outcome_of(result);
            }
        }
    }
    if (!reserve_commit(heap, parts)) {
        return mend_outcome_without_host_memory();
    }
    take_pages(heap, request);
    return MEND_PLACED;
}

/* ---- gaps ------------------------------------------------------------------------------------ */

/* A stretch of the range that nothing is mapped at and no committed page covers. */
typedef struct range_gap {
    uint64_t address;
    uint64_t size_bytes; /* 0: there is none */
} range_gap;

/* The first one from `from` on, up to `end`. */
static range_gap next_gap(const mend_heap *heap, const mend_range *range, uint64_t from,
                          uint64_t end)
{
    assert(from >= range->address);
    assert(end <= mend_range_end(range));
    while (from < end) {
        const size_t page = mend_range_page_of(range, from);
        if (range->pages[page] != NULL) {
            from = mend_range_page_start(range, page + 1);
            continue;
        }
        const mend_chunk *chunk = mend_chunk_from(&heap->chunks, from);
        if (chunk == NULL || chunk->address > from) {
            uint64_t gap_end = chunk != NULL ? mend_min_u64(chunk->address, end) : end;
            return (range_gap){from, gap_end - from};
        }
        from = chunk->address + chunk->size_bytes;
    }
    return (range_gap){0};
}

/* ---- plans at a fixed address ---------------------------------------------------------------- */

/* Plans at a fixed address: which empty chunks to map into a gap of a range, and which to create
 * for the rest. No chunk crosses the border of a page, so that the decommit of a page sets free
 * just the chunks below it. */

struct offered {
    uint64_t size_bytes;
    uint64_t from; /* the number of the chunk at which the search goes on. USED_UP: none is left */
};

/* The sizes of empty chunks, and how far the gaps of one try have looked at the chunks of each. So
 * all gaps together look at a chunk once. A chunk that becomes empty meanwhile may be missed, but
 * the request searches again after a free. {0}: nothing is looked at yet. */
struct offer {
    struct offered *sizes;
    size_t count;
    size_t capacity;
};

#define USED_UP UINT64_MAX

/* Frees its host memory. After a plan that was not carried out, the next one looks from the start.
 */
static void clear_offer(struct offer *offer)
{
    free(offer->sizes);
    *offer = (struct offer){0};
}

/* All sizes of empty chunks that a page of the request could have, the largest first. False if
 * malloc fails. */
static bool gather(mend_heap *heap, uint64_t page_bytes, struct offer *offer)
{
    const mend_chunk *largest = mend_chunk_empty_at_most(&heap->chunks, page_bytes, UINT64_MAX);
    while (largest != NULL) {
        if (!mend_streams_grow(&offer->sizes, &offer->capacity, offer->count + 1,
                               sizeof(offer->sizes[0]))) {
            return false;
        }
        offer->sizes[offer->count++] = (struct offered){.size_bytes = largest->size_bytes};
        largest = mend_chunk_empty_at_most(&heap->chunks, largest->size_bytes - 1, UINT64_MAX);
    }
    return true;
}

/* The next chunk of one size that the plan may use. NULL: none. Skipped chunks stay skipped for
 * later gaps: chunks in the pages of the request, most of which earlier gaps moved there, and
 * chunks that are not ready. */
static mend_chunk *next_of(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                           struct offered *size)
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
                          struct offer *offer, uint64_t need_bytes)
{
    for (size_t i = 0; i < offer->count && need_bytes > 0; i++) {
        struct offered *size = &offer->sizes[i];
        mend_chunk *at;
        while (size->size_bytes <= need_bytes &&
               (at = next_of(heap, request, plan, size)) != NULL) {
            mend_pick_add(plan, at);
            size->from = at->memory.number + 1;
            need_bytes -= size->size_bytes;
        }
    }
    return need_bytes;
}

/* Whether no chunk is left that a page could have. */
static bool is_used_up(mend_heap *heap, const mend_request *request, const mend_plan *plan,
                       const mend_range *range, struct offer *offer)
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
                 const mend_range *range, range_gap gap, struct offer *offer)
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

/* Finds a plan for the gap, or for as much of its beginning as one plan can have. Uses nothing that
 * is mapped at any page of the request. False: as mend_plan_find. The caller ends the plan with
 * mend_plan_clear in every case. It never calls the driver. */
static bool find_plan(mend_heap *heap, const mend_request *request, const mend_range *range,
                      range_gap gap, struct offer *offer, mend_plan *plan)
{
    assert(gap.size_bytes > 0);
    assert(contain(request->pages, gap.address));
    assert(contain(request->pages, gap.address + gap.size_bytes - 1));
    *plan = (mend_plan){.fixed_address = gap.address, .pages = request->pages};
    if (offer->count > 0 || gather(heap, request->pages->largest_page_bytes, offer)) {
        fill(heap, request, plan, range, gap, offer);
        plan->create_unit_bytes = range->page_bytes;
    } else {
        plan->lacks_host_memory = true;
    }
    const bool is_within = plan->create_bytes <= mend_budget_room_bytes(heap, request);
    if (!plan->lacks_host_memory && !is_within) {
        plan->lacking_bytes = mend_budget_lacking_bytes(heap, request, plan->create_bytes);
    }
    return !plan->lacks_host_memory && is_within;
}

/* ---- mapping what is missing ----------------------------------------------------------------- */

static bool has_addresses_for(const mend_heap *heap, range_gap gap)
{
    return mend_space_free_from(&heap->range_space, gap.address) >= gap.size_bytes;
}

/* Whether no old mapping is left in any gap. */
static bool has_addresses(const mend_heap *heap, const mend_part *part)
{
    range_gap gap = next_gap(heap, part->range, part->from, part->end);
    while (gap.size_bytes > 0 && has_addresses_for(heap, gap)) {
        gap = next_gap(heap, part->range, gap.address + gap.size_bytes, part->end);
    }
    return gap.size_bytes == 0;
}

/* Maps the gap, or the beginning of it. If the limit forbids new chunks, chunks that fit no page
 * are released, so that others can be created. An attempt that the driver did not let undo leaves a
 * mapping there: then there is no other one. */
static mend_outcome fill_gap(mend_heap *heap, const mend_request *request, const mend_range *range,
                             range_gap gap, struct offer *offer)
{
    mend_outcome outcome = MEND_NOTHING;
    bool goes_on = true; /* there may be a plan now */
    for (int tries = 0;
         tries < PLANS && goes_on && outcome == MEND_NOTHING && has_addresses_for(heap, gap);
         tries++) {
        mend_plan plan;
        mend_span *none = NULL;
        if (find_plan(heap, request, range, gap, offer, &plan)) {
            goes_on = plan.create_bytes > 0; /* the pool may know now that the device has less */
            outcome = mend_grow(heap, request, &plan, &none);
        } else if (plan.lacks_host_memory) {
            outcome = mend_outcome_without_host_memory();
        } else if (mend_trim_for(heap, request->stream, &plan, mend_request_missing_bytes(request),
                                 &goes_on) != MEND_OK) {
            outcome = MEND_FAILED;
        }
        if (outcome != MEND_PLACED) {
            clear_offer(offer);
        }
        mend_plan_clear(&plan);
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

/* All gaps are cleared before the first is filled, so that a failed commit costs no memory. */
static mend_outcome commit(mend_heap *heap, const mend_request *request, bool maps)
{
    if (!maps) {
        return commit_mapped(heap, request);
    }
    const mend_part *parts = parts_of(request->pages)->items;
    const size_t count = parts_of(request->pages)->count;
    assert(mend_mutex_is_held(&heap->grow));
    mend_outcome outcome = MEND_PLACED;
    if (!reserve_commit(heap, parts_of(request->pages))) {
        return mend_outcome_without_host_memory(); /* before anything is mapped */
    }
    mend_budget_note_use(heap);
    for (size_t i = 0; i < count && outcome == MEND_PLACED; i++) {
        outcome = clear_gaps(heap, request, &parts[i]);
        heap->shortage.held_range = outcome == MEND_NOTHING ? parts[i].range->address : 0;
    }
    struct offer offer = {0};
    for (size_t i = 0; i < count && outcome == MEND_PLACED; i++) {
        const mend_range *range = parts[i].range;
        range_gap gap = next_gap(heap, range, parts[i].from, parts[i].end);
        while (outcome == MEND_PLACED && gap.size_bytes > 0) {
            outcome = fill_gap(heap, request, range, gap, &offer);
            gap = next_gap(heap, range, gap.address, parts[i].end);
        }
    }
    clear_offer(&offer);
    if (outcome == MEND_PLACED) {
        outcome = commit_mapped(heap, request);
    }
    return outcome;
}

/* ---- the request ----------------------------------------------------------------------------- */

/* The first frozen chunk there that belongs to no committed page. NULL: none. O(1) while nothing is
 * frozen. */
static const mend_chunk *find_frozen(const mend_heap *heap, const mend_parts *parts)
{
    for (size_t i = 0; i < parts->count && heap->chunks.frozen_count > 0; i++) {
        const mend_part *part = &parts->items[i];
        for (const mend_chunk *chunk = mend_chunk_from(&heap->chunks, part->from);
             chunk != NULL && chunk->address < part->end; chunk = mend_chunk_next(chunk)) {
            const size_t page = mend_range_page_of(part->range, chunk->address);
            if (chunk->is_frozen && part->range->pages[page] == NULL) {
                return chunk;
            }
        }
    }
    return NULL;
}

/* Waits for a sleep that has just begun. Pages that were decommitted while they slept, or while a
 * sleep began, are collected before their addresses are used again. Says why one is still there. */
static mend_result make_way(mend_heap *heap, const mend_parts *parts)
{
    if (find_frozen(heap, parts) == NULL) {
        return MEND_OK;
    }
    mend_heap_unlock(heap);
    mend_heap_lock_all(heap);
    mend_retry_all(heap);
    const mend_chunk *chunk = find_frozen(heap, parts);
    mend_heap_unlock_grow(heap);
    if (chunk == NULL) {
        return MEND_OK;
    }
    if (mend_chunk_sleeps(chunk) && chunk->missing == MEND_MISSING_MEMORY) {
        return mend_no_host_memory("pages of a range");
    }
    if (!mend_retire_copies_have_ended(heap)) {
        return mend_failure(MEND_ERROR_OUT_OF_ADDRESS_SPACE,
                            "the page at 0x%lx has memory that a wake was to fill, and its copies "
                            "may still run: mend_wake, or mend_trim with MEND_TRIM_WAIT, waits",
                            chunk->address);
    }
    const bool is_lost = heap->unlocking.lost != MEND_DRIVER_OK;
    return mend_failure(is_lost ? MEND_ERROR_DEVICE_LOST : MEND_ERROR_DRIVER,
                        "the page at 0x%lx was decommitted while it slept or lacked its mapping, "
                        "and the driver does not let its memory go",
                        chunk->address);
}

mend_result mend_parts_commit(mend_heap *heap, const mend_parts *parts, mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    MEND_TRY(make_way(heap, parts));
    const mend_range *first = parts->items[0].range;
    parts_pages all = {.pages = {.commit = commit,
                                 .contain = contain,
                                 .missing_bytes = missing_bytes,
                                 .address = first->address,
                                 .page_bytes = first->page_bytes},
                       .parts = parts};
    for (size_t i = 0; i < parts->count; i++) {
        mend_raise_u64(&all.pages.largest_page_bytes, parts->items[i].range->page_bytes);
        all.pages.other_ranges += i > 0 && parts->items[i].range != parts->items[i - 1].range;
    }
    const uint64_t bytes = missing_bytes(&all.pages);
    if (bytes == 0) {
        return MEND_OK;
    }
    mend_request request = {
        .size_bytes = bytes,
        .alignment_bytes = MEND_GRANULE_BYTES,
        .requested_bytes = bytes,
        .handle = stream,
        .zone = MEND_ZONE_RANGE,
        .pages = &all.pages,
    };
    mend_span *none = NULL;
    const mend_result result = mend_fallback_run(heap, &request, &none);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        mend_events_refuse(heap, bytes, stream);
    }
    return result;
}
