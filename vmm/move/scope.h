/* Around a stretch of driver calls, and what becomes of those that fail. */
#ifndef MEND_MOVE_SCOPE_H
#define MEND_MOVE_SCOPE_H

#include "layout/state.h"

/* Open: the pool's context is current, captures of other libraries in this thread do not forbid the
 * calls. */
typedef struct mend_scope {
    mend_driver_call call; /* the last one made to open it */
    mend_status status;
    mend_capture_mode mode;
} mend_scope;

/* MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: it is shut. */
mend_result mend_scope_open(mend_heap *heap, mend_scope *scope);
void mend_scope_close(mend_heap *heap, mend_scope *scope);

/* The result of a failed driver call, with its detail. */
mend_result mend_driver_refused(mend_heap *heap, mend_driver_call call, mend_status status);

/* Counts a failure that stops nobody, where it is the driver's: malloc may have failed as well. */
void mend_driver_work_around(mend_heap *heap, mend_result result);

#endif
