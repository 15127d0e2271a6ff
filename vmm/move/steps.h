/*
 * Steps that the transactions share (grow.c, compact.c): making a chunk usable at an address,
 * undoing a creation, and the peaks.
 *
 * The caller holds both locks, and a driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_MOVE_STEPS_H
#define MEND_MOVE_STEPS_H

#include "layout/state.h"

/* Maps a chunk at an address; and gives access to mapped addresses, for the pool's device and its
 * peers, or for the named devices. NOT_READY is a lack of memory that may pass: it tries a few more
 * times with pauses, then reports a lack of memory. */
mend_status mend_step_map(mend_heap *heap, uint64_t address, const mend_chunk *chunk);
mend_status mend_step_allow(mend_heap *heap, uint64_t address, uint64_t size_bytes);
mend_status mend_step_allow_to(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                               const int *devices, int device_count, mend_access access);

/* Releases an unmapped chunk as if it had not been created. If the driver refuses, the chunk stays
 * as free memory. */
void mend_step_undo_create(mend_heap *heap, mend_chunk *chunk);

/* Waits for copies and fills on a stream that a failed transaction may have left running. If the
 * driver refuses, they may run until a wait for the context, and until then no mapping retires for
 * good, and no memory is freed that they may use. False: they may run. */
bool mend_step_end_copies(mend_heap *heap, mend_stream stream);
bool mend_step_copies_have_ended(const mend_heap *heap);

void mend_step_note_peaks(mend_heap *heap);

#endif
