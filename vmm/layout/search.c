/* Searches in the layout: runs by size and by growth, and whether their memory is ready. */
#include "layout/layout.h"

#define RUN_OF(node, member) ((node) ? MEND_CONTAINER_OF(node, mend_run, member) : NULL)

mend_run *mend_layout_run_larger(const mend_run *run)
{
    return RUN_OF(mend_tree_next(&run->by_size), by_size);
}

mend_run *mend_layout_growing_below(const mend_zone *zone, uint64_t size_bytes)
{
    mend_run key = {.size_bytes = size_bytes};
    return RUN_OF(mend_tree_at_or_before(&zone->runs_by_growth, &key.by_growth), by_growth);
}

mend_run *mend_layout_growing_smaller(const mend_run *run)
{
    return RUN_OF(mend_tree_previous(&run->by_growth), by_growth);
}

mend_run *mend_layout_run_at(const mend_zone *zone, uint64_t address)
{
    mend_run key = {.address = address};
    mend_run *run =
        RUN_OF(mend_tree_at_or_before(&zone->runs_by_address, &key.by_address), by_address);
    return run != NULL && address - run->address < run->size_bytes ? run : NULL;
}

mend_run *mend_layout_run_from(const mend_zone *zone, uint64_t address)
{
    mend_run key = {.address = address};
    mend_run *run = mend_layout_run_at(zone, address);
    return run != NULL
               ? run
               : RUN_OF(mend_tree_at_or_after(&zone->runs_by_address, &key.by_address), by_address);
}

bool mend_layout_is_ready(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                          uint32_t stream, bool behind_wait)
{
    if (!mend_streams_are_several(&heap->streams) && stream != MEND_STREAM_UNKNOWN) {
        return true;
    }
    mend_wait_env room = mend_heap_wait_env(heap);
    if (run->first == run->last) { /* almost always */
        mend_waits_settle(room, &run->first->waits);
        return mend_waits_are_ready(room.streams, &run->first->waits, stream, behind_wait);
    }
    mend_layout_tidy(heap, run);
    for (mend_span *span = run->first;; span = span->next) {
        if (span->address >= address + size_bytes) {
            return true;
        }
        if (mend_span_end(span) > address &&
            !mend_waits_are_ready(room.streams, &span->waits, stream, behind_wait)) {
            return false;
        }
        if (span == run->last) {
            return true;
        }
    }
}

mend_result mend_layout_make_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                   uint64_t size_bytes, uint32_t stream)
{
    mend_wait_env room = mend_heap_wait_env(heap);
    for (mend_span *span = run->first;; span = span->next) {
        if (span->address >= address + size_bytes) {
            return MEND_OK;
        }
        if (mend_span_end(span) > address) {
            mend_result result = mend_waits_make_ready(room, &span->waits, stream);
            if (result != MEND_OK) {
                return result;
            }
        }
        if (span == run->last) {
            return MEND_OK;
        }
    }
}

mend_span *mend_layout_first_span(const mend_heap *heap, const mend_chunk *chunk)
{
    mend_run *run = mend_layout_run_from(&heap->zones[chunk->zone], chunk->address);
    mend_span *span = run->first;
    while (mend_span_end(span) <= chunk->address) {
        span = span->next;
    }
    while (span->address > chunk->address) {
        span = span->previous;
    }
    return span;
}

static bool is_frozen(const mend_chunk *chunk)
{
    return chunk->is_frozen;
}

static bool misses_anything(const mend_chunk *chunk)
{
    return chunk->missing != MEND_MISSING_NOTHING;
}

/* The first chunk under the span that is so; NULL when none is. */
static const mend_chunk *find_under(const mend_heap *heap, const mend_span *span,
                                    bool (*is_so)(const mend_chunk *))
{
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, span->address);
    while (chunk != NULL && chunk->address < mend_span_end(span) && !is_so(chunk)) {
        chunk = mend_chunk_next(chunk);
    }
    return chunk != NULL && chunk->address < mend_span_end(span) ? chunk : NULL;
}

const mend_chunk *mend_layout_find_frozen(const mend_heap *heap, const mend_span *span)
{
    return find_under(heap, span, is_frozen);
}

bool mend_layout_misses_mapping(const mend_heap *heap, const mend_span *span)
{
    return heap->chunks.missing_count > 0 && find_under(heap, span, misses_anything) != NULL;
}
