/*
 * Pressure: what is tried when a pool finds no room by itself, before the host waits for the GPU.
 * Other pools of the device give back what lies idle; the callbacks of the program free what it can
 * do without. No lock is held meanwhile.
 */
#ifndef MEND_POOL_CALLBACKS_H
#define MEND_POOL_CALLBACKS_H

#include "ladder/ladder.h"
#include "pool/pressure.h"

void mend_callbacks_init(mend_pressure *pressure);
void mend_callbacks_destroy(mend_pressure *pressure);

/* What the pool lends the ladder: its callbacks, and the other pools of the device. */
mend_helpers mend_pool_helpers(mend_pool *pool);

#endif
