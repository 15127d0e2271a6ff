/*
 * Changes of committed pages (ranges/ranges.h). Nothing here calls the driver. After the nodes are
 * reserved nothing fails.
 */
#include "ranges/ranges.h"

#include "layout/layout.h"

/* Each page is cut off the rest of its run. The first one of neighbors is cut out of the middle,
 * which leaves a run before it. Pages that are not mapped yet have no waits. */
static void count_commit(mend_heap *heap, const mend_part *part, mend_layout_promise *nodes)
{
    const mend_range *range = part->range;
    const uint64_t page_bytes = range->page_bytes;
    mend_run *run = NULL;
    uint64_t behind = 0;
    MEND_MISSING_EACH(at, range, part->from, part->end) {
        if (run == NULL || at - run->address >= run->size_bytes) {
            run = mend_layout_run_at(&heap->zones[MEND_ZONE_RANGE], at);
        }
        if (run != NULL && mend_run_end(run) - at >= page_bytes) {
            nodes->waits += mend_layout_count_waits(heap, run, at, at + page_bytes);
        }
        nodes->spans += at == behind ? 1 : 2;
        nodes->runs += at != behind;
        behind = at + page_bytes;
    }
}

bool mend_range_reserve_commit(mend_heap *heap, const mend_parts *parts)
{
    mend_layout_promise nodes = {0};
    for (size_t i = 0; i < parts->count; i++) {
        count_commit(heap, &parts->items[i], &nodes);
    }
    return mend_layout_reserve_these(heap, &nodes);
}

/* Each page keeps its span, and neighbors are one run. Over frozen chunks it is cut at their
 * edges. It has the stamp of its memory. */
bool mend_range_reserve_decommit(mend_heap *heap, const mend_range *range, uint64_t from,
                                 uint64_t end)
{
    const bool any_frozen = heap->chunks.frozen_count > 0;
    mend_layout_promise nodes = {0};
    uint64_t behind = 0;
    for (uint64_t at = from; at < end && range->committed_bytes > 0; at += range->page_bytes) {
        const mend_span *span = range->pages[mend_range_page_of(range, at)];
        if (span == NULL) {
            continue;
        }
        const size_t parts = any_frozen ? mend_layout_count_chunks(heap, span) : 1;
        const size_t waits = mend_waits_count_others(&span->waits) + 1;
        nodes.waits += any_frozen ? (1 + 2 * parts) * waits : span->waits.first.epoch != 0;
        nodes.spans += any_frozen ? 2 * parts : 0;
        nodes.runs += any_frozen ? parts + 2 : at != behind;
        behind = at + range->page_bytes;
    }
    return mend_layout_reserve_these(heap, &nodes);
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
    stretch->from = stretch->end;
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

void mend_range_take_page(mend_heap *heap, mend_range *range, size_t page, mend_stream stream)
{
    const uint64_t address = mend_range_page_start(range, page);
    mend_run *run = mend_layout_run_at(&heap->zones[MEND_ZONE_RANGE], address);
    assert(range->pages[page] == NULL);
    mend_span *span = mend_layout_take(heap, run, address, range->page_bytes, 0);
    mend_layout_count_alloc(heap, &heap->zones[span->zone], span, range->page_bytes, stream);
    mend_usage_note(heap);
    span->tag = range->tag;
    span->sleep_tag = span->sleep_tag != 0 ? span->sleep_tag : range->sleep_tag;
    range->pages[page] = span;
    range->committed_bytes += range->page_bytes;
}

void mend_range_free_page(mend_heap *heap, mend_range *range, size_t page)
{
    mend_span *span = range->pages[page];
    assert(span->size_bytes == range->page_bytes);
    range->pages[page] = NULL;
    range->committed_bytes -= range->page_bytes;
    mend_layout_count_free(heap, &heap->zones[span->zone], span);
    mend_layout_free(heap, span);
    mend_usage_note(heap);
}
