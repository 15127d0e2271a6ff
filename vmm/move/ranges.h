/* Driver calls for growable ranges: their addresses, and pages that read as zeros. The caller holds
 * both locks. */
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

/* ---- zeros.c --------------------------------------------------------------------------------- */

/* A driver scope is open. */

/* Pages from `from` to `end` that are not committed read as zeros. May wait for the context, and
 * give free memory back for the chunk of zeros. After a failure no page is mapped for reading that
 * was not. MEND_ERROR_PINNED (free memory with a pin is mapped there), MEND_ERROR_CAPTURING (it
 * would have to wait), MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_zeros_map(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end);

/* Unmaps the zeros of pages that are to be committed. Waits for the context if there are any.
 * `asking`: the stream of the request. What it unmapped before a failure is lost until it is
 * settled. MEND_ERROR_CAPTURING. */
mend_result mend_zeros_leave(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                             uint32_t asking);

/* Maps what is lost and unmaps what is extra, in a range. `may_wait`: for the context, if free
 * memory lies where zeros were. What cannot be done stays owed. */
void mend_zeros_settle(mend_heap *heap, mend_range *range, bool may_wait);

/* A range was closed: nothing of it is to read as zeros. No driver call. */
void mend_zeros_close(mend_heap *heap, mend_range *range);

/* Unmaps the zeros of a destroyed range, if no work can read them any more; true: none are left. */
bool mend_zeros_end(mend_heap *heap, mend_range *range);

/* Waits for the context if destroyed ranges have zeros left, and unmaps them; `stream` is that of
 * the request. True: it has waited. What cannot be done stays for the next call. */
bool mend_zeros_end_closed(mend_heap *heap, uint32_t stream);

/* Lets another device read all zeros. As mend_step_allow_to. */
mend_status mend_zeros_allow(mend_heap *heap, int device);

/* Releases a chunk of zeros without mappings. What the driver does not take back is owed. */
void mend_zeros_release(mend_heap *heap, mend_chunk_of_zeros *chunk);

/* Bytes of chunks of zeros that there are to be again, for pages that have lost their zeros. */
uint64_t mend_zeros_owed_bytes(const mend_heap *heap);

/* Frees the host memory of a heap that ends. Needs no lock. */
void mend_zeros_clear(mend_heap *heap);

#endif
