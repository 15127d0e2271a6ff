/* The thread that collects a pool's memory for others: see mend_collect. */
#ifndef MEND_POOL_COLLECTOR_H
#define MEND_POOL_COLLECTOR_H

#include "mend/mend.h"

/* Starts the thread. MEND_ERROR_SYSTEM: the system refused it; nothing is left. */
mend_result mend_collector_start(mend_pool *pool);

/* Ends the thread, and waits until it has ended. Does nothing if there is none. The caller holds no
 * lock. */
void mend_collector_stop(mend_pool *pool);

#endif
