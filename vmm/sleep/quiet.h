/* A quiet point: all work of the context is done, and the program launches none until the call
 * ends. Sleeps and moves of memory begin with it. */
#ifndef MEND_SLEEP_QUIET_H
#define MEND_SLEEP_QUIET_H

#include "layout/state.h"

/* Waits for the context, and ends what only looks as if it were in use: aliases, retired mappings,
 * chunks without blocks, refusals of the driver. The caller holds both locks; a driver scope is
 * open. MEND_ERROR_CAPTURING, MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST. */
mend_result mend_quiet_begin(mend_heap *heap);

#endif
