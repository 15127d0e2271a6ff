/*
 * What a pool tries if it has no room, before the host waits for the GPU: peer pools give back idle
 * memory, and callbacks of the program free what it can do without. No lock is held meanwhile.
 */
#ifndef MEND_POOL_CALLBACKS_H
#define MEND_POOL_CALLBACKS_H

#include "ladder/ladder.h"
#include "pool/pressure.h"

void mend_callbacks_init(mend_callbacks *callbacks);
void mend_callbacks_destroy(mend_callbacks *callbacks);

/* The functions by which the ladder reaches the pool's callbacks and its peer pools. */
mend_helpers mend_pool_helpers(mend_pool *pool);

#endif
