/* A decorator that counts, measures and times the calls of a driver. */
#ifndef MEND_LAB_DRIVER_TRACED_H
#define MEND_LAB_DRIVER_TRACED_H

#include "driver/driver.h"

typedef struct mend_call_counter {
    uint64_t calls;
    uint64_t failures; /* calls that did not return OK. A query's NOT_READY is not counted */
    uint64_t bytes;    /* of successful calls that have a size */
    uint64_t total_ns; /* by the inner table's clock */
    uint64_t max_ns;
} mend_call_counter;

typedef struct mend_driver_counters {
    mend_call_counter call[MEND_DRIVER_CALL_COUNT];
    uint64_t host_syncs; /* calls in which the CPU waits for the GPU, plain_free included */
} mend_driver_counters;

/* `inner` is borrowed and must outlive the decorator. Thread-safe: the counters are copied under a
 * lock. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_traced_driver_create(const mend_driver *inner, mend_driver **traced);
void mend_traced_driver_get(const mend_driver *traced, mend_driver_counters *counters);
void mend_traced_driver_destroy(mend_driver *traced);

#endif
