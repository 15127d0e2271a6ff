/* Around a stretch of driver calls, and what becomes of those that fail. */
#ifndef MEND_HEAP_DOOR_H
#define MEND_HEAP_DOOR_H

#include "heap/state.h"

/* Open: the pool's context is current, captures of other libraries in this thread do not forbid the
 * calls. */
typedef struct mend_door {
    mend_driver_call call; /* the last one made to open it */
    mend_status status;
    mend_capture_mode mode;
} mend_door;

/* MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: it is shut. */
mend_result mend_heap_open_door(mend_heap *heap, mend_door *door);
void mend_heap_close_door(mend_heap *heap, mend_door *door);

/* The result of a failed driver call, with its detail. */
mend_result mend_heap_driver_failed(mend_heap *heap, mend_driver_call call, mend_status status);

/* Counts a failure that stops nobody, where it is the driver's: malloc may have failed as well. */
void mend_heap_work_around(mend_heap *heap, mend_result result);

#endif
