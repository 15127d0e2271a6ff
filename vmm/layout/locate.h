/* From an address to what contains it, and from a span to the chunks under it. Nothing is changed.
 */
#ifndef MEND_LAYOUT_LOCATE_H
#define MEND_LAYOUT_LOCATE_H

#include "layout/run.h"

/* The live block that contains the address; NULL where it is free or not mapped. The steps grow
 * with the spans of one chunk, not with the blocks of the pool (layout/locate.c). */
mend_span *mend_heap_block_at(const mend_heap *heap, uint64_t address);

/* The span that contains the address, live or free; NULL when the address is not mapped. The same,
 * and the spans of a run where it lies in one. */
mend_span *mend_heap_span_at(const mend_heap *heap, uint64_t address);

/* The first span that reaches into a mapped chunk which has free memory in a run. */
mend_span *mend_layout_first_span(const mend_heap *heap, const mend_chunk *chunk);

/* The frozen chunk under a span: one at most, for no two frozen chunks touch or lie
 * under one block. NULL when there is none. */
const mend_chunk *mend_layout_find_frozen(const mend_heap *heap, const mend_span *span);
static inline const mend_chunk *mend_layout_frozen_under(const mend_heap *heap,
                                                         const mend_span *span)
{
    return heap->chunks.frozen_count > 0 ? mend_layout_find_frozen(heap, span) : NULL;
}

/* A compaction could not map again what is under the span. */
bool mend_layout_misses_mapping(const mend_heap *heap, const mend_span *span);

#endif
