/*
 * What a compaction could not map again: when the driver refuses a mapping, or access, after the
 * old one is gone, the bytes are safe in the new chunk, which stays frozen at its address. The
 * blocks there are live, and cannot be used until a later call has better luck.
 *
 * Both locks are held, the driver scope is open.
 */
#ifndef MEND_MOVE_REMAP_H
#define MEND_MOVE_REMAP_H

#include "layout/layout.h"

/* Tries again to map what could not be mapped. MEND_OK: nothing is missing any more;
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_remap(mend_heap *heap);

/* The same on behalf of other calls, which do not fail with it. */
void mend_remap_try(mend_heap *heap);

/* Asks the driver for what a frozen chunk misses at its address, and thaws it when it has it
 * all. `first` is the span that reaches into the chunk first; runs for its spans were promised. */
mend_status mend_remap_chunk(mend_heap *heap, mend_chunk *chunk, mend_span *first,
                             mend_driver_call *refused);

/* The result of a refusal to restore. MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_remap_failed(mend_heap *heap, mend_driver_call call, mend_status status);

/* What is claimed in spans from `first` up to `end` is free memory again, as far as no chunk under
 * it is frozen. */
void mend_remap_end_claims(mend_heap *heap, mend_span *first, uint64_t end);

/* Spans from `first` up to the address. */
size_t mend_remap_count_spans(const mend_span *first, uint64_t end);

#endif
