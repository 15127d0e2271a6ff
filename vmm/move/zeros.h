/*
 * Maps the chunk of zeros behind pages of ranges, and unmaps it (layout/zeros.h). The driver unmaps
 * nothing that work may use, and the pool does not know which work reads zeros: so the host waits
 * for the context before it unmaps them, but for those of a destroyed range, which go when that is
 * so anyway.
 *
 * The caller holds both locks, and a driver scope is open.
 */
#ifndef MEND_MOVE_ZEROS_H
#define MEND_MOVE_ZEROS_H

#include "layout/zeros.h"

/* Pages from `from` to `end` that are not committed read as zeros. May wait for the context, and
 * give free memory back for the chunk of zeros. MEND_ERROR_PINNED (free memory with a pin is mapped
 * there), MEND_ERROR_CAPTURING (it would have to wait), MEND_ERROR_OUT_OF_MEMORY,
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: no page is mapped for
 * reading that was not. */
mend_result mend_zeros_map(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end);

/* Unmaps the zeros of pages that are to be committed. Waits for the context if there are any.
 * `asking`: the stream of the request. What it unmapped before a failure is lost until it is
 * settled. MEND_ERROR_CAPTURING, MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST. */
mend_result mend_zeros_leave(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                             uint32_t asking);

/* Maps what is lost and unmaps what is extra, in all ranges. `may_wait`: for the context, if free
 * memory lies where zeros were. What cannot be done stays for the next call. */
void mend_zeros_settle(mend_heap *heap, bool may_wait);

/* A range was closed: nothing of it is to read as zeros. No driver call. */
void mend_zeros_close(mend_heap *heap, mend_range *range);

/* Unmaps the zeros of a destroyed range, if no work can read them any more; true: none are left. */
bool mend_zeros_end(mend_heap *heap, mend_range *range);

/* Waits for the context if destroyed ranges have zeros left, and unmaps them; `stream` is that of
 * the request. True: it has waited. What cannot be done stays for the next call. */
bool mend_zeros_end_closed(mend_heap *heap, uint32_t stream);

/* Lets another device read all zeros. As mend_step_allow_to. */
mend_status mend_zeros_allow(mend_heap *heap, int device);

#endif
