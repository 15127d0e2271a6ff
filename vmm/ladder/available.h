/* How much could be allocated now: the largest request that would succeed, and what else a program
 * must know to plan with it. */
#ifndef MEND_LADDER_AVAILABLE_H
#define MEND_LADDER_AVAILABLE_H

#include "layout/state.h"

/* Fills all fields except struct_size, as an allocation on the stream would find the heap. The
 * caller holds both locks; calls the driver. MEND_ERROR_INVALID_ARGUMENT (MEND_EVERY_STREAM),
 * MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST: *room is untouched. */
mend_result mend_ladder_get_room(mend_heap *heap, mend_order order, mend_room *room);

/* Free memory that captured graphs may still use. The caller holds `state`. */
uint64_t mend_ladder_group_bytes(const mend_heap *heap);

#endif
