/* What a pool stores about its pressure callbacks (pool/callbacks.h). */
#ifndef MEND_POOL_PRESSURE_H
#define MEND_POOL_PRESSURE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/mutex.h"
#include "mend/mend.h"

/* One thread's round through the callbacks, on its stack. */
typedef struct mend_callback_round {
    mend_list link;
    uint64_t number;
} mend_callback_round;

/* One run of a callback, on the stack of the thread that runs it. */
typedef struct mend_callback_run {
    mend_list link;
    pthread_t thread;
} mend_callback_run;

typedef struct mend_callback_entry {
    mend_list link;
    mend_pressure_callback callback;
    void *context;
    uint64_t number; /* rises with each entry */
    mend_list runs;  /* runs in progress; the entry stays in the list until there are none */
    bool is_removed; /* it is not called any more */
} mend_callback_entry;

/* Guarded by the `state` lock of the pool's heap. */
typedef struct mend_callbacks {
    mend_list entries;      /* in the order of adding */
    mend_list rounds;       /* rounds in progress, in the order of beginning */
    mend_condition changed; /* a run or a round ended */
    uint64_t last_entry;
    uint64_t last_round;
    uint64_t calls;
    uint64_t peer_pool_trims;
} mend_callbacks;

#endif
