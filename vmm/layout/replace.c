/*
 * The records of a chunk whose memory was exchanged: other chunks have its addresses. Nothing here
 * fails or calls the driver. Callers promise the nodes.
 */
#include "layout/layout.h"

/* Adds the bytes of a block to the live bytes of the new chunks below it. */
static void add_live(mend_heap *heap, const mend_span *span, uint64_t from, uint64_t end)
{
    from = mend_max_u64(from, span->address);
    end = mend_min_u64(end, mend_span_end(span));
    for (mend_chunk *chunk = mend_chunk_at(&heap->chunks, from); from < end;
         chunk = mend_chunk_next(chunk)) {
        const uint64_t part_end = mend_min_u64(end, chunk->address + chunk->size_bytes);
        mend_chunk_change_live(&heap->chunks, chunk, part_end - from,
                               &heap->zones[chunk->zone].empty_bytes);
        from = part_end;
    }
}

/* A claimed span at these addresses is cut at the edges of parts. Memory between parts is removed.
 * Returns the span behind it. */
static mend_span *cut_at_parts(mend_heap *heap, mend_chunk *old, mend_span *span,
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

/* The addresses between parts are freed. */
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

/* The old chunk leaves its addresses without live bytes, the parts get them, frozen. Then each span
 * there is handed over: a live one counts in the parts below it, a claimed one is cut where they
 * end.
 */
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
        mend_chunk_change_live(chunks, chunk, 0 - live_bytes, &heap->zones[zone].empty_bytes);
    }
    mend_chunk_set_address(chunks, chunk, zone, 0);
    mend_chunk_thaw(chunks, chunk);
    for (size_t i = 0; i < count; i++) {
        mend_chunk_set_address(chunks, parts[i].chunk, zone, parts[i].address);
        mend_chunk_freeze(chunks, parts[i].chunk);
        parts[i].chunk->sleep_tag = chunk->sleep_tag;
        mend_events_note(&heap->events, MEND_EVENT_EXCHANGE, parts[i].address, parts[i].size_bytes,
                         parts[i].chunk->memory.number);
    }
    const mend_cluster *part = parts;
    while (span != NULL && span->address < end) {
        if (!span->live) {
            span = cut_at_parts(heap, chunk, span, &part, parts + count);
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

bool mend_layout_is_for_graphs(const mend_heap *heap, const mend_chunk *chunk)
{
    bool any = false;
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        any = any || mend_waits_for_graphs(&heap->streams, &span->waits);
    }
    return any;
}
