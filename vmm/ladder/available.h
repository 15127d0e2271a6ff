/* How much could be had now: the largest request that would find its place, and what else a program
 * must know to plan with it. */
#ifndef MEND_LADDER_AVAILABLE_H
#define MEND_LADDER_AVAILABLE_H

#include "layout/state.h"

/* Fills all but struct_size, as an allocation on the stream would find the heap. Both locks are
 * held; reaches the driver. MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM),
 * MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST: *room is untouched. */
mend_result mend_ladder_get_room(mend_heap *heap, mend_order order, mend_room *room);

/* Free memory that graphs of groups may still use. `state` is held. */
uint64_t mend_ladder_group_bytes(const mend_heap *heap);

#endif
