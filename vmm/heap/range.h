/*
 * The calls of mend_range.h, without checks of the arguments. `from` and `end` are addresses at
 * pages of the range.
 */
#ifndef MEND_HEAP_RANGE_H
#define MEND_HEAP_RANGE_H

#include "heap/heap.h"
#include "layout/range.h"

/* Commits the pages, in one step under `state`. The caller holds it; it may be released before.
 * Errors as mend_ladder_climb; then no page is committed that was not. */
mend_result mend_heap_commit(mend_heap *heap, const mend_parts *pages, mend_stream stream,
                             const mend_helpers *helpers);

/* Lets the pages that are not committed read as zeros. Under both locks. Errors as
 * mend_zeros_map. */
mend_result mend_heap_map_zeros(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end);

/* Makes the committed ones among the pages free memory, after the work queued so far on the stream
 * and on those that were recorded. As above. Errors as mend_free, or
 * MEND_ERROR_OUT_OF_HOST_MEMORY: nothing changed. */
mend_result mend_heap_decommit(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                               mend_stream stream);

/* Declares that a stream uses the committed ones among the pages. As above; errors as
 * mend_record_stream. */
mend_result mend_heap_record_range(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                                   mend_stream stream);

/* Decommits all pages, and closes the range, which the caller must not use any more. Under both
 * locks. MEND_ERROR_INVALID_ARGUMENT (a page is pinned), or as mend_heap_decommit: nothing
 * changed. */
mend_result mend_heap_destroy_range(mend_heap *heap, mend_range *range, mend_stream stream);

#endif
