/*
 * Steps that the transactions of the heap share (grow.c, compact.c): making chunks usable at an
 * address, taking a creation back, and the peaks.
 *
 * Both locks are held, the driver scope is open; `state` is let go of around slow calls of the
 * driver.
 */
#ifndef MEND_MOVE_STEPS_H
#define MEND_MOVE_STEPS_H

#include "layout/state.h"

/* Maps a whole chunk at an address, and gives access to mapped addresses: to the pool's device and
 * its peers, or to the devices named. NOT_READY is a passing lack of memory: asked again a few
 * times, with pauses, then it is one. */
mend_status mend_step_map(mend_heap *heap, uint64_t address, const mend_chunk *chunk);
mend_status mend_step_allow(mend_heap *heap, uint64_t address, uint64_t size_bytes);
mend_status mend_step_allow_to(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                               const int *devices, int device_count);

/* Releases a chunk mapped nowhere as if it had never been created. What the driver will not take
 * back stays, as free memory. */
void mend_step_undo_create(mend_heap *heap, mend_chunk *chunk);

void mend_step_note_peaks(mend_heap *heap);

#endif
