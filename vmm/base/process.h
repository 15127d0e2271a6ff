/*
 * All state that belongs to the process or to a thread rather than to a pool: the log's sink, each
 * thread's last error and lock ranks, the CUDA driver once it is loaded. Nothing else in the
 * library has a variable of static lifetime that changes.
 */
#ifndef MEND_BASE_PROCESS_H
#define MEND_BASE_PROCESS_H

#include "mend/mend.h"

enum { MEND_MESSAGE_BYTES = 512 };

typedef struct mend_thread_error {
    mend_result result;
    int driver_status;
    const char *driver_name; /* static; NULL when none */
    const char *driver_call; /* static; NULL when none */
    char message[MEND_MESSAGE_BYTES];
} mend_thread_error;

/* The calling thread's last failure. */
mend_thread_error *mend_process_error(void);

/* Bit n: the calling thread holds a lock of rank n. Debug builds only. */
unsigned *mend_process_held_ranks(void);

void mend_process_get_log_sink(mend_log_sink *sink, void **context);
void mend_process_set_log_sink(mend_log_sink sink, void *context);

/* The CUDA driver's table: what `load` gave the first time it succeeded. Thread-safe. */
mend_result mend_process_cuda_driver(mend_result (*load)(const mend_driver **driver),
                                     const mend_driver **driver);

#endif
