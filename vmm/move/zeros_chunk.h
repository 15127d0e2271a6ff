/*
 * The chunks of zeros of a heap: created in the limit for pages of a size, and released when
 * nothing maps them any more (layout/zeros.h).
 *
 * The caller holds both locks, and a driver scope is open.
 */
#ifndef MEND_MOVE_ZEROS_CHUNK_H
#define MEND_MOVE_ZEROS_CHUNK_H

#include "layout/zeros.h"

/* The chunk for pages of this size; NULL: there is none. */
mend_chunk_of_zeros *mend_zeros_find_chunk(const mend_heap *heap, uint64_t page_bytes);

/* The same, created if there is none, and not filled then. Gives free memory back if the limit or
 * the device has no room. Calls the driver. MEND_ERROR_OUT_OF_MEMORY,
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: there is no chunk. */
mend_result mend_zeros_find_or_create(mend_heap *heap, uint64_t page_bytes,
                                      mend_chunk_of_zeros **chunk);

/* The end of each call that may create or unmap: releases chunks without mappings. What the driver
 * does not take back now is given back by a later call. */
void mend_zeros_release_unused(mend_heap *heap);

/* Bytes of chunks of zeros that there are to be again, for pages that have lost their zeros. */
uint64_t mend_zeros_owed_bytes(const mend_heap *heap);

/* Why memory stayed mapped: what the steps noted that went on in spite of it. MEND_OK: nothing
 * failed. The caller has set mend_process_failure()->result to MEND_OK before these steps. */
mend_result mend_zeros_why_not_unmapped(mend_heap *heap);

/* Frees the host memory of a heap that ends. Needs no lock. */
void mend_zeros_clear(mend_heap *heap);

#endif
