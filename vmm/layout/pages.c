#include "layout/pages.h"

#include <assert.h>

#include "base/thread.h"
#include "layout/layout.h"
#include "layout/zeros.h"

/* Each page may be cut out of the middle of a run, which leaves two parts with the waits that the
 * run had; freed, it has a stamp for each stream at most. */
bool mend_range_reserve_nodes(mend_heap *heap, size_t page_count)
{
    assert(mend_mutex_is_held(&heap->state));
    const size_t streams = heap->streams.count + 1;
    return mend_slab_reserve(&heap->nodes.spans, 2 * page_count + 2) &&
           mend_slab_reserve(&heap->nodes.runs, page_count + 2) &&
           mend_slab_reserve(&heap->nodes.waits, (2 * page_count + 2) * streams);
}

void mend_range_note_last(mend_heap *heap, const mend_range *range, mend_page_stretch *stretch)
{
    if (stretch->end > stretch->from && mend_history_is_on(&heap->history)) {
        mend_history_put(&heap->history,
                         (mend_history_event){.kind = (int)stretch->kind,
                                              .address = (void *)(uintptr_t)stretch->from,
                                              .size_bytes = stretch->end - stretch->from,
                                              .stream = stretch->stream,
                                              .tag = range->tag});
    }
    stretch->from = stretch->end;
}

void mend_range_note_page(mend_heap *heap, const mend_range *range, mend_page_stretch *stretch,
                          uint64_t address)
{
    if (address != stretch->end) {
        mend_range_note_last(heap, range, stretch);
        stretch->from = address;
    }
    stretch->end = address + range->page_bytes;
}

void mend_range_take_page(mend_heap *heap, mend_range *range, size_t page, mend_stream stream)
{
    const uint64_t address = mend_range_page_start(range, page);
    mend_zone_counters *zone = &heap->counters.zone[MEND_ZONE_RANGE];
    mend_run *run = mend_layout_run_at(&heap->zones[MEND_ZONE_RANGE], address);
    assert(run != NULL);
    assert(range->pages[page] == NULL);
    mend_span *span = mend_layout_take(heap, run, address, range->page_bytes);
    span->requested_bytes = range->page_bytes;
    span->stream = stream;
    span->tag = range->tag;
    span->sleep_tag = mend_process_sleep_tag();
    span->sleep_tag = span->sleep_tag != 0 ? span->sleep_tag : range->sleep_tag;
    mend_zeros_note_commit(heap, range, page);
    range->pages[page] = span;
    range->committed_bytes += range->page_bytes;
    zone->allocations++;
    zone->allocated_bytes += range->page_bytes;
    zone->allocated_requested_bytes += range->page_bytes;
    zone->live_bytes += range->page_bytes;
    zone->requested_bytes += range->page_bytes;
    heap->counters.live_bytes += range->page_bytes;
    mend_raise_u64(&zone->peak_live_blocks, zone->allocations - zone->frees);
    mend_raise_u64(&zone->peak_live_bytes, zone->live_bytes);
    mend_raise_u64(&zone->peak_requested_bytes, zone->requested_bytes);
    mend_raise_u64(&heap->counters.peak_live_bytes, heap->counters.live_bytes);
}

void mend_range_free_page(mend_heap *heap, mend_range *range, size_t page)
{
    mend_zone_counters *zone = &heap->counters.zone[MEND_ZONE_RANGE];
    mend_span *span = range->pages[page];
    assert(span != NULL);
    assert(span->size_bytes == range->page_bytes);
    assert(zone->live_bytes >= span->size_bytes);
    range->pages[page] = NULL;
    range->committed_bytes -= range->page_bytes;
    zone->frees++;
    zone->live_bytes -= range->page_bytes;
    zone->requested_bytes -= range->page_bytes;
    heap->counters.live_bytes -= range->page_bytes;
    mend_layout_free(heap, span);
}
