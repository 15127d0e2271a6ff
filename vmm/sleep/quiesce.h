/*
 * A pool that holds no memory which other processes can know: for a checkpoint of the process.
 *
 * The caller holds both locks, and no driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_SLEEP_QUIESCE_H
#define MEND_SLEEP_QUIESCE_H

#include "layout/state.h"
#include "mend/mend_sleep.h"

/* As mend_quiesce; `report` is of full size. */
mend_result mend_heap_quiesce(mend_heap *heap, mend_quiesce_report *report);

#endif
