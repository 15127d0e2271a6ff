/*
 * Growable ranges: addresses that stay, and memory that comes and goes below them, in pages. A
 * committed page is a live span of the zone MEND_ZONE_RANGE, so that waits, streams, pins and
 * compactions treat it as a block. A decommitted page is free memory of that zone: its chunks are
 * in the set of empty ones, and any request may move them elsewhere. Until then the page is still
 * mapped, and is committed again without a driver call. Invariants, checked by the validation:
 *  - each range has one reservation of `range_space`, which may be borrowed from the addresses of
 *    blocks, and nothing else is mapped there. A range is closed, or the program has it.
 *  - a chunk of the zone lies inside one page of one range.
 *  - the live spans of the zone are exactly the committed pages, each of one page, which the page
 *    table of its range names. So a chunk there is live as a whole, or empty.
 *  - a chunk there may sleep (memory/chunk.h). A page sleeps as far as its chunks do, and stays
 *    committed. Decommitted, a sleeping chunk is claimed, and in the way of a commit, until it is
 *    collected. Then nothing is mapped at its addresses.
 *  - a closed range has no committed pages, and something is mapped in it.
 *  - the deferred work of ranges is closed ranges.
 */
#include "ranges/ranges.h"

#include <stdlib.h>

#include "map/map.h"

#define RANGE_OF(node) MEND_CONTAINER_OR_NULL(node, mend_range, by_address)

/* Ranges have sums of the chunks that are mapped in them. */
static mend_chunk_sums *sums_at(mend_chunks *chunks, uint64_t address)
{
    mend_range *range = mend_range_at(MEND_CONTAINER_OF(chunks, mend_heap, chunks), address);
    return range != NULL ? &range->sums : NULL;
}

MEND_TREE_ORDER(compare_address, mend_range, by_address, address);

static mend_span *page_at(const mend_heap *heap, uint64_t address)
{
    const mend_range *range = mend_range_at(heap, address);
    return range != NULL ? range->pages[mend_range_page_of(range, address)] : NULL;
}

static uint64_t around(const mend_heap *heap, uint64_t address)
{
    const mend_range *range = mend_range_at(heap, address);
    return range != NULL && !range->is_closed ? range->address : 0;
}

void mend_ranges_init(mend_heap *heap)
{
    mend_tree_init(&heap->ranges.by_address, compare_address);
    heap->ranges.page_at = page_at;
    heap->ranges.around = around;
    heap->chunks.sums_at = sums_at;
}

static void drop(mend_heap *heap, mend_range *range)
{
    mend_tree_remove(&heap->ranges.by_address, &range->by_address);
    mend_defer(&heap->chunks.deferred, &range->deferred, MEND_DEFERRED_NOTHING, 0);
    free(range);
}

static bool begins_behind(const mend_tree_node *node, const void *key)
{
    return MEND_CONTAINER_OF(node, mend_range, by_address)->address > *(const uint64_t *)key;
}

mend_range *mend_range_at(const mend_heap *heap, uint64_t address)
{
    mend_range *range =
        RANGE_OF(mend_tree_last_to(&heap->ranges.by_address, &address, begins_behind));
    return range != NULL && address - range->address < range->size_bytes ? range : NULL;
}

uint64_t mend_range_missing_bytes(const mend_range *range, uint64_t from, uint64_t end)
{
    uint64_t bytes = 0;
    assert((from - range->address) % range->page_bytes == 0);
    MEND_MISSING_EACH(at, range, from, end) {
        bytes += range->page_bytes;
    }
    return bytes;
}

/* ---- events ---------------------------------------------------------------------------------- */

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

/* ---- addresses ------------------------------------------------------------------------------- */

/*
 * The addresses of growable ranges: reserved when a range is created, and freed when nothing is
 * mapped there any more. A range that the program has destroyed is closed: its memory is free, and
 * leaves when it is idle. Until then requests may move its chunks away.
 */

void mend_ranges_clear(mend_heap *heap)
{
    mend_tree_node *at;
    while ((at = mend_tree_first(&heap->ranges.by_address)) != NULL) {
        drop(heap, RANGE_OF(at));
    }
}

/* Its idle memory is unmapped. When it is empty, its addresses are freed. */
void mend_ranges_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking)
{
    mend_range *range = MEND_CONTAINER_OF(deferred, mend_range, deferred);
    mend_space *space = &heap->range_space;
    mend_trim_between(heap, range->address, mend_range_end(range), asking);
    if (mend_space_free_from(space, range->address) >= range->size_bytes &&
        mend_space_disown(space, range->address)) {
        drop(heap, range);
    }
}

void mend_ranges_statistics(const mend_heap *heap, mend_stats *stats)
{
    const mend_zone_counters *pages = &heap->zones[MEND_ZONE_RANGE].counters;
    assert(heap->ranges.by_address.count >= heap->chunks.deferred.count[MEND_DEFERRED_RANGE]);
    stats->ranges =
        heap->ranges.by_address.count - heap->chunks.deferred.count[MEND_DEFERRED_RANGE];
    if (heap->chunks.missing_count > 0) { /* committed pages without a mapping, by a failed sleep */
        const mend_span *last = NULL;
        MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
            const bool is_missing =
                chunk->zone == MEND_ZONE_RANGE && mend_chunk_misses_mapping(chunk);
            const mend_span *page = is_missing ? page_at(heap, chunk->address) : NULL;
            stats->unmapped_blocks += page != NULL && page != last;
            last = page != NULL ? page : last;
        }
    }
    stats->range_free_bytes = mend_heap_free_in(heap, MEND_ZONE_RANGE);
    stats->range_bytes = pages->live_bytes;
    stats->peak_range_bytes = pages->peak_live_bytes;
    stats->range_address_bytes = heap->range_space.address_bytes;
    stats->pages_committed = pages->allocations;
    stats->pages_decommitted = pages->allocations - pages->live_blocks;
}
