/* The driver scope around driver calls, and what happens when one fails. */
#ifndef MEND_MOVE_DRIVER_SCOPE_H
#define MEND_MOVE_DRIVER_SCOPE_H

#include "layout/state.h"

/* While it is open, the pool's context is current, and captures of other libraries in this thread
 * do not forbid the calls. */
typedef struct mend_driver_scope {
    mend_driver_call call; /* the last call made to open it */
    mend_status status;
    mend_capture_mode mode;
} mend_driver_scope;

/* MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: it is not open. */
mend_result mend_driver_scope_open(mend_heap *heap, mend_driver_scope *scope);
void mend_driver_scope_close(mend_heap *heap, mend_driver_scope *scope);

/* Notes a failed driver call, and returns its result. */
mend_result mend_driver_refused(mend_heap *heap, mend_driver_call call, mend_status status);

/* The same of any call: MEND_OK if it did not fail. */
mend_result mend_driver_result(mend_heap *heap, mend_driver_call call, mend_status status);

/* Counts a failure that was worked around, if it is the driver's (malloc may have failed
 * instead). */
void mend_driver_work_around(mend_heap *heap, mend_result result);

#endif
