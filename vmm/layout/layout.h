/*
 * The layout of a zone: spans and runs, and the changes that keep them consistent. Nothing here
 * fails or calls the driver; callers reserve the nodes.
 */
#ifndef MEND_LAYOUT_LAYOUT_H
#define MEND_LAYOUT_LAYOUT_H

#include <assert.h>

#include "layout/locate.h"
#include "layout/nodes.h"

void mend_layout_init_zone(mend_zone *zone);

/* Makes [address, address + size) of a run live; the caller fills in the fields of a block. The
 * span keeps the waits of its memory: if another stream frees it, that free adds to them. */
mend_span *mend_layout_take(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes);

/* Makes a live span free; its waits say when it is idle. It may be joined with its neighbours. The
 * part in a frozen chunk becomes claimed and keeps the node, because the compaction may refer to
 * it; the parts in sleeping chunks become claimed, too; those outside join the runs there. Besides
 * the nodes for one change, the caller reserved those for a chunk for each one below a block that
 * sleeps. */
void mend_layout_free(mend_heap *heap, mend_span *span);

/* Takes [address, address + size) of a run out of all indices, so that no other thread finds it. It
 * stays free memory, idle after the span's waits. mend_layout_end_claim puts it back. */
mend_span *mend_layout_claim_part(mend_heap *heap, mend_run *run, uint64_t address,
                                  uint64_t size_bytes);
void mend_layout_end_claim(mend_heap *heap, mend_span *span);

/* Splits the part from `at` on off a free span that is in no run, into a new node. */
mend_span *mend_layout_split_right(mend_heap *heap, mend_span *span, uint64_t at);

/* Removes a claimed span from the layout: its segment ends before it, and what lies behind it is
 * another segment. */
void mend_layout_cut(mend_heap *heap, mend_span *span);

/* Adds a chunk mapped at `address` to the layout, as free memory, idle after `waits` (the layout
 * takes over the nodes of `waits`). */
void mend_layout_attach(mend_heap *heap, mend_chunk *chunk, int zone, uint64_t address,
                        mend_waits *waits);

/* Removes an empty, mapped chunk from the layout. Adds what its memory still waits for to
 * *waits. */
void mend_layout_detach(mend_heap *heap, mend_chunk *chunk, mend_waits *waits);

/* Joins neighbouring spans of a run whose waits are equal or have passed; looks at so many, from
 * its start on, or back from its end. */
void mend_layout_tidy(mend_heap *heap, mend_run *run, bool from_end, uint64_t most_spans);

/* The chunk at an address of a span: one of the first few of the span, or by search. */
static inline mend_chunk *mend_span_chunk_at(const mend_heap *heap, const mend_span *span,
                                             uint64_t address)
{
    enum { NEAR_CHUNKS = 4 };
    mend_chunk *chunk = span->chunk;
    for (int i = 0; i < NEAR_CHUNKS && chunk != NULL; i++, chunk = mend_chunk_next(chunk)) {
        if (address - chunk->address < chunk->size_bytes) {
            return chunk;
        }
    }
    return mend_chunk_at(&heap->chunks, address);
}

/* The same for a run: usually the chunk in which the run's last span begins, or the run itself. */
static inline mend_chunk *mend_run_chunk_at(const mend_heap *heap, const mend_run *run,
                                            uint64_t address)
{
    const mend_chunk *last = run->last->chunk;
    return mend_span_chunk_at(heap, address >= last->address ? run->last : run->first, address);
}

/* Whether the span crosses no edge of its chunk, as almost all spans. */
static inline bool mend_span_is_in_one_chunk(const mend_span *span)
{
    assert(span->address >= span->chunk->address);
    return mend_span_end(span) - span->chunk->address <= span->chunk->size_bytes;
}

/* Adds the bytes of a span to the live bytes of each chunk below it, or removes them. */
void mend_layout_add_live_parts(mend_heap *heap, const mend_span *span);
void mend_layout_subtract_live_parts(mend_heap *heap, const mend_span *span);

/* Makes a free span that is in no run live; and the reverse. */
static inline void mend_layout_take_again(mend_heap *heap, mend_span *span)
{
    assert(!span->live);
    assert(!span->cached);
    assert(span->run == NULL);
    assert(heap->zones[span->zone].free_bytes >= span->size_bytes);
    span->live = true;
    span->contents_dropped = false;
    heap->zones[span->zone].free_bytes -= span->size_bytes;
    if (mend_span_is_in_one_chunk(span)) {
        mend_chunk_add_live(&heap->chunks, span->chunk, span->size_bytes);
    } else {
        mend_layout_add_live_parts(heap, span);
    }
}

static inline void mend_layout_let_go(mend_heap *heap, mend_span *span)
{
    assert(span->live);
    assert(!span->cached);
    assert(span->run == NULL);
    span->live = false;
    heap->zones[span->zone].free_bytes += span->size_bytes;
    if (mend_span_is_in_one_chunk(span)) {
        mend_chunk_subtract_live(&heap->chunks, span->chunk, span->size_bytes);
    } else {
        mend_layout_subtract_live_parts(heap, span);
    }
}

#endif
