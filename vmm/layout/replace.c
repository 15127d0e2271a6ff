/*
 * The records of a chunk whose memory was exchanged: it has other memory, or becomes several
 * chunks. Nothing here fails or calls the driver; the caller promised the nodes.
 */
#include "layout/layout.h"

#include <assert.h>

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
        from = part_end;
    }
}

/* A span of the chunk that was at these addresses. What is split off a claimed one is the next. */
static void settle(mend_heap *heap, mend_span *span, uint64_t from, uint64_t end)
{
    if (span->address >= from) {
        span->chunk = mend_chunk_at(&heap->chunks, span->address);
    }
    if (span->live) {
        add_live(heap, span, from, end);
    } else if (!mend_span_is_in_one_chunk(span)) {
        mend_layout_split_right(heap, span, span->chunk->address + span->chunk->size_bytes);
    }
}

void mend_layout_replace(mend_heap *heap, mend_chunk *chunk, mend_chunk *const others[],
                         size_t count)
{
    mend_chunks *chunks = &heap->chunks;
    const uint64_t from = chunk->address;
    const uint64_t end = chunk->address + chunk->size_bytes;
    mend_span *first = mend_heap_span_at(heap, chunk->address);
    assert(mend_mutex_is_held(&heap->state));
    assert(chunk->is_frozen);
    if (count == 1) {
        mend_chunk_exchange(chunks, chunk, others[0]);
        return;
    }
    if (chunk->live_bytes > 0) {
        mend_chunk_subtract_live(chunks, chunk, chunk->live_bytes);
    }
    mend_chunk_exchange(chunks, chunk, others[0]);
    uint64_t address = from + chunk->size_bytes;
    for (size_t i = 1; i < count; i++) {
        mend_chunk_set_address(chunks, others[i], chunk->zone, address);
        mend_chunk_freeze(chunks, others[i]);
        mend_history_note(&heap->history, MEND_EVENT_EXCHANGE, address, others[i]->size_bytes,
                          others[i]->number);
        address += others[i]->size_bytes;
    }
    assert(address == end);
    for (mend_span *span = first; span != NULL && span->address < end; span = span->next) {
        settle(heap, span, from, end);
    }
}
