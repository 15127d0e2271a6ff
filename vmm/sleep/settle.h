/* Sleeping chunks that still have memory: because a wake failed, or the driver refused to take it
 * back. */
#ifndef MEND_SLEEP_SETTLE_H
#define MEND_SLEEP_SETTLE_H

#include "layout/state.h"

/* Unmaps it and gives it back; what the driver refuses stays, accounted for, and a later call tries
 * again. The caller holds both locks; a driver scope is open. */
void mend_sleep_settle(mend_heap *heap);

#endif
