/* A thread that releases memory which no block has used for long (mend_pool_config.idle_ms), or
 * that others wait for: see MEND_TRIM_BY_POLICY. */
#ifndef MEND_COLLECT_COLLECT_H
#define MEND_COLLECT_COLLECT_H

#include <pthread.h>

#include "layout/feature.h"

/* Written before the thread starts and after it has ended. */
struct mend_collector {
    pthread_t thread;
    int bell; /* a file of the system: written when the thread is to end */
    int period_ms;
};

/* The hook of the table. MEND_ERROR_SYSTEM: the system refused the thread. */
mend_result mend_collector_hear(mend_pool *pool, mend_moment moment,
                                const mend_pool_config *config);

#endif
