/* From an address to the span that contains it, and from a span to the chunks below it.
 * Read-only. */
#ifndef MEND_LAYOUT_LOCATE_H
#define MEND_LAYOUT_LOCATE_H

#include "layout/run.h"

/* The live block that contains the address; NULL if the address is free or not mapped. The number
 * of steps depends on the spans of one chunk, not on the blocks of the pool (layout/locate.c). */
mend_span *mend_heap_block_at(const mend_heap *heap, uint64_t address);

/* The span that contains the address, live or free; NULL if the address is not mapped. As many
 * steps as above, and more inside a run: one for each of its spans. */
mend_span *mend_heap_span_at(const mend_heap *heap, uint64_t address);

/* The first span that overlaps a mapped chunk. The chunk has free memory in a run. */
mend_span *mend_layout_first_span(const mend_heap *heap, const mend_chunk *chunk);

/* A frozen chunk below a span, or NULL: the one of a compaction, otherwise the first one. No two
 * chunks of a compaction touch or lie below one block. */
const mend_chunk *mend_layout_find_frozen(const mend_heap *heap, const mend_span *span);
static inline const mend_chunk *mend_layout_frozen_under(const mend_heap *heap,
                                                         const mend_span *span)
{
    return heap->chunks.frozen_count > 0 ? mend_layout_find_frozen(heap, span) : NULL;
}

/* Whether a chunk below the span lacks its mapping or access, since a compaction could not map it
 * again. */
bool mend_layout_misses_mapping(const mend_heap *heap, const mend_span *span);

/* Whether a chunk below the span sleeps, or is on the host; and how many chunks there are below it.
 */
bool mend_layout_sleeps(const mend_heap *heap, const mend_span *span);
bool mend_layout_is_on_host(const mend_heap *heap, const mend_span *span);
size_t mend_layout_count_chunks(const mend_heap *heap, const mend_span *span);

#endif
