/*
 * Freezing a chunk: no thread takes memory in it any more, and what is freed in it becomes claimed.
 * The caller holds both locks. A layout change: calls no driver.
 */
#include "move/move.h"

#include "layout/layout.h"

/* A claimed span may be split at the edges of its chunk, and becomes a run when the chunk thaws. */
mend_layout_promise mend_freeze_nodes(const mend_heap *heap, size_t chunks, size_t spans)
{
    mend_layout_promise nodes = mend_layout_nodes_for(heap, chunks);
    nodes.spans += 2 * chunks;
    nodes.runs += spans + 2 * chunks;
    return nodes;
}

size_t mend_freeze_waits(mend_heap *heap, const mend_chunk *chunk)
{
    size_t count = 0;
    const uint64_t end = chunk->address + chunk->size_bytes;
    const mend_zone *zone = &heap->zones[chunk->zone];
    for (uint64_t at = chunk->address; at < end;) {
        mend_run *run = mend_layout_run_from(zone, at);
        if (run == NULL || run->address >= end) {
            break;
        }
        const uint64_t from = mend_max_u64(at, run->address);
        at = mend_min_u64(mend_run_end(run), end);
        count += mend_layout_count_waits(heap, run, from, at);
    }
    return count;
}

static const mend_span *span_in_run(const mend_run *run, uint64_t address)
{
    const mend_span *span = run->first;
    while (mend_span_end(span) <= address) {
        span = span->next;
    }
    return span;
}

void mend_freeze_chunk(mend_heap *heap, mend_chunk *chunk)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    mend_zone *zone = &heap->zones[chunk->zone];
    mend_chunk_freeze(&heap->chunks, chunk);
    for (uint64_t at = chunk->address; at < end;) {
        mend_run *run = mend_layout_run_from(zone, at);
        if (run == NULL || run->address >= end) {
            break;
        }
        uint64_t from = mend_max_u64(at, run->address);
        at = mend_min_u64(mend_span_end(span_in_run(run, from)), end);
        mend_layout_claim_part(heap, run, from, at - from);
    }
}

void mend_thaw_chunk(mend_heap *heap, mend_chunk *chunk)
{
    mend_chunk_thaw(&heap->chunks, chunk);
    mend_remap_end_claims(heap, mend_heap_span_at(heap, chunk->address),
                          chunk->address + chunk->size_bytes);
}
