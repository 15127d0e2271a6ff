/*
 * A part of a chunk is lent to an alias of it (physical/chunk.h): a span at the chunk's own address
 * that counts as live, but is no block, and the same bytes as free memory at the alias. Nothing
 * here fails or calls the driver; callers reserve the nodes.
 */
#include "layout/layout.h"

#include <assert.h>

#include "physical/chunk.h"

mend_span *mend_layout_claim_end(mend_heap *heap, mend_chunk *chunk, uint64_t address,
                                 uint64_t size_bytes)
{
    mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], address);
    assert(run != NULL);
    assert(address == chunk->address || address + size_bytes == chunk->address + chunk->size_bytes);
    mend_chunk_hold_for_alias(&heap->chunks, chunk);
    return mend_layout_claim_part(heap, run, address, size_bytes);
}

void mend_layout_end_claim_of_end(mend_heap *heap, mend_chunk *chunk, mend_span *span)
{
    mend_layout_end_claim(heap, span);
    mend_chunk_end_hold_for_alias(&heap->chunks, chunk);
}

void mend_layout_lend(mend_heap *heap, mend_chunk *chunk, mend_span *span, uint64_t mapping_address)
{
    mend_waits waits = span->waits;
    const uint64_t offset_bytes = span->address - chunk->address;
    span->waits = (mend_waits){0};
    mend_layout_take_again(heap, span);
    span->lent = true;
    mend_history_note(&heap->history, MEND_EVENT_UNMAP, span->address, span->size_bytes,
                      chunk->memory.number);
    mend_chunk *alias =
        mend_chunk_make_alias(&heap->chunks, chunk, mapping_address, span->size_bytes);
    alias->alias.lent = span;
    mend_layout_attach(heap, alias, chunk->zone, mapping_address + offset_bytes, &waits);
}

static bool waits_for_graphs(const mend_heap *heap, const mend_chunk *alias)
{
    const uint64_t end = alias->address + alias->size_bytes;
    unsigned holds = 0;
    const mend_span *span = mend_heap_span_at(heap, alias->address);
    for (; span != NULL && span->address < end; span = span->next) {
        holds |= mend_waits_blocked_by(&heap->streams, &span->waits, MEND_STREAM_UNKNOWN);
    }
    return (holds & MEND_BLOCKED_BY_GROUPS) != 0;
}

bool mend_layout_is_alias_unused(const mend_heap *heap, const mend_chunk *alias)
{
    assert(mend_chunk_is_alias(alias));
    return alias->live_bytes == 0 && alias->pins == 0 && !waits_for_graphs(heap, alias);
}

void mend_layout_take_back(mend_heap *heap, mend_chunk *alias, mend_waits *waits)
{
    mend_chunk *chunk = alias->alias.of;
    mend_span *span = alias->alias.lent;
    assert(span->lent);
    assert(span->size_bytes == alias->size_bytes);
    mend_layout_detach(heap, alias, waits);
    mend_chunk_drop_alias(&heap->chunks, alias);
    span->lent = false;
    mend_history_note(&heap->history, MEND_EVENT_MAP, span->address, span->size_bytes,
                      chunk->memory.number);
    mend_waits_add_all(mend_heap_wait_env(heap), &span->waits, waits);
    mend_layout_let_go(heap, span);
    mend_layout_end_claim(heap, span);
    mend_chunk_end_hold_for_alias(&heap->chunks, chunk);
}
