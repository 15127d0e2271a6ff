/*
 * The addresses of growable ranges: reserved when a range is created, and freed when nothing is
 * mapped there any more. A range that the program has destroyed is closed: its memory is free, and
 * leaves when it is idle. Until then requests may move its chunks away.
 *
 * The caller holds both locks.
 */
#ifndef MEND_MOVE_RANGE_H
#define MEND_MOVE_RANGE_H

#include "layout/range.h"

void mend_ranges_init(mend_heap *heap);

/* Frees host memory. */
void mend_ranges_clear(mend_heap *heap);

/* Reserves addresses. `size_bytes` is a multiple of `page_bytes`, which is one of the device's
 * page. Calls the driver. MEND_ERROR_OUT_OF_ADDRESSES, MEND_ERROR_OUT_OF_HOST_MEMORY,
 * MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: nothing changed. */
mend_result mend_ranges_create(mend_heap *heap, uint64_t size_bytes, uint64_t page_bytes,
                               mend_range **range);

/* Closes a range without committed pages. No driver call. */
void mend_ranges_close(mend_heap *heap, mend_range *range);

/* Unmaps idle memory of closed ranges, and frees the addresses of those where nothing is left.
 * Inside an open scope; what the driver refuses stays. */
void mend_ranges_settle(mend_heap *heap, uint32_t asking);

#endif
