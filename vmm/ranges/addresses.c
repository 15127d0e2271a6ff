/*
 * The addresses of growable ranges: reserved when a range is created, and freed when nothing is
 * mapped there any more. A range that the program has destroyed is closed: its memory is free, and
 * leaves when it is idle. Until then requests may move its chunks away.
 */
#include "ranges/ranges.h"

#include <stdlib.h>

#include "map/map.h"

#define RANGE_OF(node) MEND_CONTAINER_OR_NULL(node, mend_range, by_address)

void mend_ranges_clear(mend_heap *heap)
{
    mend_tree_node *at;
    while ((at = mend_tree_first(&heap->ranges.by_address)) != NULL) {
        mend_range_drop(heap, RANGE_OF(at));
    }
}

/* If the driver has no addresses left, those of the pool that nothing uses go back first, or are
 * borrowed; then those of idle chunks, which any address serves. */
static mend_result place(mend_heap *heap, mend_range *range)
{
    enum { AT_ONCE, WITHOUT_EMPTY, WITHOUT_IDLE, WAYS };
    mend_space *space = &heap->range_space;
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    for (int way = AT_ONCE; way < WAYS && status == MEND_DRIVER_OUT_OF_MEMORY; way++) {
        if (way == WITHOUT_EMPTY) {
            mend_space_trim(&heap->space, 0);
        } else if (way == WITHOUT_IDLE) {
            mend_trim_addresses(heap, MEND_STREAM_UNKNOWN);
        }
        if (!mend_space_reserve_nodes(space, 1)) {
            return mend_no_host_memory("a range");
        }
        status = mend_space_own(space, range->size_bytes, &range->address);
        if (status == MEND_DRIVER_OUT_OF_MEMORY && way != AT_ONCE &&
            mend_space_borrow(space, range->size_bytes, &range->address)) {
            status = MEND_DRIVER_OK;
        }
    }
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        (void)mend_driver_did(heap, status);
        return mend_refused(heap->driver, MEND_ERROR_OUT_OF_ADDRESSES, MEND_CALL_reserve, status,
                            "no addresses are left for a range of %llu bytes; the pool's "
                            "blocks lie in %llu: create ranges before blocks, or set a "
                            "smaller reserve_bytes",
                            (unsigned long long)range->size_bytes,
                            (unsigned long long)heap->space.address_bytes);
    }
    return mend_driver_result(heap, MEND_ANSWER(reserve, status));
}

mend_result mend_ranges_create(mend_heap *heap, uint64_t size_bytes, uint64_t page_bytes,
                               mend_range **range)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(page_bytes % heap->device.granularity_bytes == 0);
    assert(size_bytes % page_bytes == 0);
    const size_t page_count = (size_t)(size_bytes / page_bytes);
    mend_range *made = calloc(1, sizeof(*made) + page_count * sizeof(mend_span *));
    if (made == NULL) {
        return mend_no_host_memory("a range");
    }
    made->size_bytes = size_bytes;
    made->page_bytes = page_bytes;
    mend_driver_scope scope;
    mend_result result = mend_enter(heap, &scope);
    if (result == MEND_OK) {
        mend_settle_ranges(heap);
        result = place(heap, made);
        mend_driver_scope_close(heap, &scope);
    }
    if (result != MEND_OK) {
        free(made);
        return result;
    }
    mend_range_enter(heap, made);
    *range = made;
    return MEND_OK;
}

void mend_ranges_close(mend_heap *heap, mend_range *range)
{
    assert(range->committed_bytes == 0);
    assert(!range->is_closed);
    range->is_closed = true;
    mend_owe(&heap->chunks.owing, &range->owed, MEND_OWED_RANGE, range->address);
}

/* Its idle memory is unmapped; when nothing is left there, its addresses go back. */
void mend_ranges_settle(mend_heap *heap, mend_owed *owed, uint32_t asking)
{
    mend_range *range = MEND_CONTAINER_OF(owed, mend_range, owed);
    mend_space *space = &heap->range_space;
    (void)mend_trim_between(heap, range->address, mend_range_end(range), asking);
    if (mend_space_free_from(space, range->address) >= range->size_bytes &&
        mend_space_disown(space, range->address)) {
        mend_range_drop(heap, range);
    }
}

/* Number of committed pages that lack their mapping after a sleep that failed. */
static uint64_t unmapped_pages(const mend_heap *heap)
{
    uint64_t count = 0;
    const mend_span *last = NULL;
    MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
        const bool is_missing = chunk->zone == MEND_ZONE_RANGE && mend_chunk_misses_mapping(chunk);
        const mend_span *page = is_missing ? mend_range_page_at(heap, chunk->address) : NULL;
        count += page != NULL && page != last;
        last = page != NULL ? page : last;
    }
    return count;
}

void mend_ranges_statistics(const mend_heap *heap, mend_stats *stats)
{
    const mend_zone_counters *pages = &heap->zones[MEND_ZONE_RANGE].counters;
    stats->ranges = mend_ranges_count(heap);
    stats->unmapped_blocks += heap->chunks.missing_count > 0 ? unmapped_pages(heap) : 0;
    stats->range_free_bytes = mend_heap_free_in(heap, MEND_ZONE_RANGE);
    stats->range_bytes = pages->live_bytes;
    stats->peak_range_bytes = pages->peak_live_bytes;
    stats->range_address_bytes = heap->range_space.address_bytes;
    stats->pages_committed = pages->allocations;
    stats->pages_decommitted = pages->allocations - pages->live_blocks;
}
