/*
 * The records of a chunk whose memory was exchanged: other chunks have its addresses. Nothing here
 * fails or calls the driver; the caller promised the nodes.
 */
#include "layout/layout.h"

#include <assert.h>

#include "layout/ranges.h"
#include "physical/chunk.h"

/* Adds the bytes of a block to the live bytes of the new chunks below it. */
static void add_live(mend_heap *heap, const mend_span *span, uint64_t from, uint64_t end)
{
    from = mend_max_u64(from, span->address);
    end = mend_min_u64(end, mend_span_end(span));
    for (mend_chunk *chunk = mend_chunk_at(&heap->chunks, from); from < end;
         chunk = mend_chunk_next(chunk)) {
        const uint64_t part_end = mend_min_u64(end, chunk->address + chunk->size_bytes);
        mend_chunk_add_live(&heap->chunks, chunk, part_end - from);
        if (chunk->on_host) {
            mend_chunk_note_taken_on_host(&heap->chunks, chunk, part_end - from);
        }
        from = part_end;
    }
}

/* A claimed span at these addresses is cut at the edges of parts; what lies between parts goes.
 * Returns the span behind it. */
static mend_span *settle_claimed(mend_heap *heap, mend_chunk *old, mend_span *span,
                                 const mend_cluster **from, const mend_cluster *behind)
{
    while (*from < behind && (*from)->address + (*from)->size_bytes <= span->address) {
        ++*from;
    }
    const mend_cluster *part = *from;
    const bool is_between = part == behind || span->address < part->address;
    const uint64_t end = part == behind ? UINT64_MAX
                         : is_between   ? part->address
                                        : part->address + part->size_bytes;
    if (mend_span_end(span) > end) {
        mend_layout_split_right(heap, span, end);
    }
    mend_span *next = span->next;
    span->chunk = is_between ? old : part->chunk;
    if (is_between) {
        mend_layout_cut(heap, span);
    }
    return next;
}

/* The addresses between parts go back. */
static void give_holes(mend_heap *heap, uint64_t from, uint64_t end, const mend_cluster parts[],
                       size_t count)
{
    mend_space *space = mend_heap_space_at(heap, from);
    for (size_t i = 0; i <= count; i++) {
        const uint64_t to = i < count ? parts[i].address : end;
        if (to > from) {
            mend_space_give(space, from, to - from);
        }
        from = i < count ? to + parts[i].size_bytes : end;
    }
}

void mend_layout_replace(mend_heap *heap, mend_chunk *chunk, const mend_cluster parts[],
                         size_t count)
{
    mend_chunks *chunks = &heap->chunks;
    const uint64_t from = chunk->address;
    const uint64_t end = chunk->address + chunk->size_bytes;
    const int zone = chunk->zone;
    const uint64_t live_bytes = chunk->live_bytes;
    mend_span *span = mend_heap_span_at(heap, from);
    assert(mend_mutex_is_held(&heap->state));
    assert(chunk->is_frozen && chunk->missing == MEND_MISSING_NOTHING);
    if (live_bytes > 0) {
        mend_chunk_subtract_live(chunks, chunk, live_bytes);
    }
    if (live_bytes > 0 && chunk->on_host) {
        mend_chunk_note_freed_aside(chunks, chunk, live_bytes);
    }
    mend_chunk_set_address(chunks, chunk, zone, 0);
    mend_chunk_thaw(chunks, chunk);
    for (size_t i = 0; i < count; i++) {
        mend_chunk_set_address(chunks, parts[i].chunk, zone, parts[i].address);
        mend_chunk_freeze(chunks, parts[i].chunk);
        mend_history_note(&heap->history, MEND_EVENT_EXCHANGE, parts[i].address,
                          parts[i].size_bytes, parts[i].chunk->memory.number);
    }
    const mend_cluster *part = parts;
    while (span != NULL && span->address < end) {
        if (!span->live) {
            span = settle_claimed(heap, chunk, span, &part, parts + count);
            continue;
        }
        if (span->address >= from) {
            span->chunk = mend_chunk_at(chunks, span->address);
        }
        add_live(heap, span, from, end);
        span = span->next;
    }
    give_holes(heap, from, end, parts, count);
}
