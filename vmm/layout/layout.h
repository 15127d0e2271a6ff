/*
 * The layout of a zone: spans and runs, and the changes that keep them in order. Nothing here can
 * fail or calls the driver; callers reserve the nodes.
 */
#ifndef MEND_LAYOUT_LAYOUT_H
#define MEND_LAYOUT_LAYOUT_H

#include <assert.h>

#include "layout/locate.h"

void mend_layout_init_zone(mend_zone *zone);

/* Nodes for one take and `chunk_count` attaches and detaches. False when malloc fails. */
bool mend_layout_reserve(mend_heap *heap, size_t chunk_count);

/* The same, for a caller that lets others change the heap in between: the nodes are its own until
 * mend_layout_end_promise. */
typedef struct mend_layout_promise {
    size_t spans;
    size_t runs;
    size_t waits;
} mend_layout_promise;
bool mend_layout_promise_nodes(mend_heap *heap, size_t chunk_count, mend_layout_promise *promise);
bool mend_layout_promise_these(mend_heap *heap, const mend_layout_promise *promise);
void mend_layout_end_promise(mend_heap *heap, const mend_layout_promise *promise);

/* Makes [address, address + size) of a run live; the caller fills in what a block knows. The span
 * remembers what its memory waits for, which a free on another stream adds to. */
mend_span *mend_layout_take(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes);

/* Makes a live span free; its waits say when it is idle. The span may be joined into another. What
 * of it lies in a held chunk is claimed from now on and keeps the node, which a compaction may
 * remember; what lies outside joins the runs there. */
void mend_layout_free(mend_heap *heap, mend_span *span);

/* Takes [address, address + size) of a run out of all indices, so that nobody else finds it; it
 * stays free memory, idle after the span's waits. Ended by giving it back to where it was. */
mend_span *mend_layout_claim_part(mend_heap *heap, mend_run *run, uint64_t address,
                                  uint64_t size_bytes);
void mend_layout_end_claim(mend_heap *heap, mend_span *span);

/* Removes a claimed span: its addresses hold nothing any more, the segment ends before them. */
void mend_layout_cut(mend_heap *heap, mend_span *span);

/* Lays out a chunk that is mapped at `address`, free, idle after `waits` (whose nodes it takes). */
void mend_layout_attach(mend_heap *heap, mend_chunk *chunk, int zone, uint64_t address,
                        mend_waits *waits);

/* Removes an empty, mapped chunk from the layout: its addresses hold nothing any more. Adds
 * what its memory still waits for to *waits. */
void mend_layout_detach(mend_heap *heap, mend_chunk *chunk, mend_waits *waits);

/* Joins the spans of a run that wait for the same, or for nothing any more. */
void mend_layout_tidy(mend_heap *heap, mend_run *run);

/* The chunk under an address of a span: most often the one in which it begins. */
static inline mend_chunk *mend_span_chunk_at(const mend_heap *heap, const mend_span *span,
                                             uint64_t address)
{
    mend_chunk *chunk = span->chunk;
    return address - chunk->address < chunk->size_bytes ? chunk
                                                        : mend_chunk_at(&heap->chunks, address);
}

/* The same for a run: most often the one in which its last span begins, or it begins itself. */
static inline mend_chunk *mend_run_chunk_at(const mend_heap *heap, const mend_run *run,
                                            uint64_t address)
{
    const mend_chunk *last = run->last->chunk;
    return mend_span_chunk_at(heap, address >= last->address ? run->last : run->first, address);
}

/* It reaches over no edge of its chunk, as almost all do. */
static inline bool mend_span_is_in_one_chunk(const mend_span *span)
{
    return mend_span_end(span) - span->chunk->address <= span->chunk->size_bytes;
}

/* What of a span lies in each chunk becomes live there, or free. */
void mend_layout_add_live_parts(mend_heap *heap, const mend_span *span);
void mend_layout_subtract_live_parts(mend_heap *heap, const mend_span *span);

/* Makes a span live that is free and stands in no run; and back. */
static inline void mend_layout_take_again(mend_heap *heap, mend_span *span)
{
    assert(!span->live && span->run == NULL);
    span->live = true;
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
    span->live = false;
    heap->zones[span->zone].free_bytes += span->size_bytes;
    if (mend_span_is_in_one_chunk(span)) {
        mend_chunk_subtract_live(&heap->chunks, span->chunk, span->size_bytes);
    } else {
        mend_layout_subtract_live_parts(heap, span);
    }
}

#endif
