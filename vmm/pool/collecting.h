/* What a pool stores about the thread that collects its memory (pool/collector.h). */
#ifndef MEND_POOL_COLLECTING_H
#define MEND_POOL_COLLECTING_H

#include <pthread.h>
#include <stdbool.h>

/* Written before the thread starts and after it has ended. */
typedef struct mend_collecting {
    pthread_t thread;
    int bell; /* a file of the system: written when the thread is to end */
    int period_ms;
    bool runs;
} mend_collecting;

#endif
