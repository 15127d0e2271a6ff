/* Driver calls for growable ranges: their addresses. The caller holds both locks. */
#ifndef MEND_MOVE_RANGES_H
#define MEND_MOVE_RANGES_H

#include "layout/ranges.h"

/* ---- range.c --------------------------------------------------------------------------------- */

/* Frees host memory. */
void mend_ranges_clear(mend_heap *heap);

/* Reserves addresses. `size_bytes` is a multiple of `page_bytes`, which is one of the device's
 * page. Calls the driver. MEND_ERROR_OUT_OF_ADDRESSES. */
mend_result mend_ranges_create(mend_heap *heap, uint64_t size_bytes, uint64_t page_bytes,
                               mend_range **range);

/* Closes a range without committed pages. No driver call. */
void mend_ranges_close(mend_heap *heap, mend_range *range);

#endif
