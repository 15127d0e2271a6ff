/*
 * What a compaction could not map again. If the driver refuses a mapping or access after the old
 * mapping is gone, the new chunk has the bytes and stays frozen at its address. Its blocks are live
 * but cannot be used until a later call succeeds.
 *
 * The caller holds both locks, and a driver scope is open.
 */
#ifndef MEND_MOVE_REMAP_H
#define MEND_MOVE_REMAP_H

#include "layout/layout.h"

/* Tries again to map everything missing. MEND_OK: nothing is missing any more;
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_remap(mend_heap *heap);

/* The same, without a scope open; opens one if anything is missing. */
mend_result mend_remap_in_scope(mend_heap *heap);

/* The same, called by other calls, which do not fail if it fails. */
void mend_remap_try(mend_heap *heap);

/* Asks the driver for what a frozen chunk lacks, and unfreezes the chunk if it lacks nothing any
 * more and is not on the host. `first` is the first span that overlaps the chunk; runs for its
 * spans were promised. */
mend_status mend_remap_chunk(mend_heap *heap, mend_chunk *chunk, mend_span *first,
                             mend_driver_call *refused);

/* The result if a restore was refused. MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_remap_failed(mend_heap *heap, mend_driver_call call, mend_status status);

/* Ends the claims of spans from `first` up to `end`, unless a chunk below is still frozen. */
void mend_remap_end_claims(mend_heap *heap, mend_span *first, uint64_t end);

/* The number of spans from `first` up to the address. */
size_t mend_remap_count_spans(const mend_span *first, uint64_t end);

#endif
