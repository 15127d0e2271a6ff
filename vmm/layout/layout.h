/*
 * The layout of a zone: spans and runs, the changes that keep them in order, and searches. Nothing
 * here can fail or calls the driver, but for make_ready; callers reserve the nodes.
 */
#ifndef MEND_LAYOUT_LAYOUT_H
#define MEND_LAYOUT_LAYOUT_H

#include <assert.h>

#include "layout/state.h"

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
 * remembers what its memory waits for, which binds whoever frees it on another stream. */
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

/* The first span that reaches into a mapped chunk which has free memory in a run. */
mend_span *mend_layout_first_span(const mend_heap *heap, const mend_chunk *chunk);

/* The held chunk (move/compact.h) under a span: one at most, for no two held chunks touch or lie
 * under one block. NULL when there is none. */
const mend_chunk *mend_layout_find_frozen(const mend_heap *heap, const mend_span *span);
static inline const mend_chunk *mend_layout_frozen_under(const mend_heap *heap,
                                                         const mend_span *span)
{
    return heap->chunks.frozen_count > 0 ? mend_layout_find_frozen(heap, span) : NULL;
}

/* A swap could not restore what is mapped under the span. */
bool mend_layout_misses_mapping(const mend_heap *heap, const mend_span *span);

/* Lays out a chunk that is mapped at `address`, free, idle after `waits` (whose nodes it takes). */
void mend_layout_attach(mend_heap *heap, mend_chunk *chunk, int zone, uint64_t address,
                        mend_waits *waits);

/* Removes an empty, mapped chunk from the layout: its addresses hold nothing any more. Adds
 * what its memory still waits for to *waits. */
void mend_layout_detach(mend_heap *heap, mend_chunk *chunk, mend_waits *waits);

/* Runs of a zone in order of (size, address): the first not smaller, and the next larger. */
mend_run *mend_layout_run_at_least(const mend_zone *zone, uint64_t size_bytes);
mend_run *mend_layout_run_larger(const mend_run *run);

/* Runs behind which addresses are unmapped: the largest below a size, and the next smaller. */
mend_run *mend_layout_growing_below(const mend_zone *zone, uint64_t size_bytes);
mend_run *mend_layout_growing_smaller(const mend_run *run);

/* The run that contains the address; NULL when none does. And that, or the next behind it. */
mend_run *mend_layout_run_at(const mend_zone *zone, uint64_t address);
mend_run *mend_layout_run_from(const mend_zone *zone, uint64_t address);

/* The live block that contains the address; NULL where it is free or not mapped. The steps grow
 * with the spans of one chunk, not with the blocks of the pool (layout/locate.c). */
mend_span *mend_heap_block_at(const mend_heap *heap, uint64_t address);

/* The span that contains the address, live or free; NULL when the address is not mapped. The same,
 * and the spans of a run where it lies in one. */
mend_span *mend_heap_span_at(const mend_heap *heap, uint64_t address);

/* Joins the spans of a run that wait for the same, or for nothing any more. */
void mend_layout_tidy(mend_heap *heap, mend_run *run);

/* Everything in [address, address + size) of a run is ready for the stream; for
 * MEND_STREAM_UNKNOWN: is idle. Joins what has become idle on the way. */
bool mend_layout_is_ready(mend_heap *heap, mend_run *run, uint64_t address, uint64_t size_bytes,
                          uint32_t stream, bool behind_wait);

/* Makes the stream wait, on the device, for whatever of the range is not ready. Reaches the driver.
 */
mend_result mend_layout_make_ready(mend_heap *heap, mend_run *run, uint64_t address,
                                   uint64_t size_bytes, uint32_t stream);

static inline uint64_t mend_span_end(const mend_span *span)
{
    return span->address + span->size_bytes;
}

static inline uint64_t mend_run_end(const mend_run *run)
{
    return run->address + run->size_bytes;
}

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
