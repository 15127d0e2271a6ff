/* The effect of an allocator on a program: how long single requests take, and how much longer it
 * runs. Host and GPU are a pipeline, and each request costs its driver time. */
#ifndef MEND_LAB_REPLAY_FELT_H
#define MEND_LAB_REPLAY_FELT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mend_replay_felt {
    double longest_us; /* of the requests after the first tenth of the rows. This and the next two
                        */
    double p999_us;
    uint64_t above_5_ms;
    double gpu_bound_percent;  /* added to the second half of the rows, by kernels of 13 us */
    double host_bound_percent; /* the same by kernels of 5 us */
} mend_replay_felt;

typedef struct mend_felt mend_felt;

/* For so many rows. NULL: no host memory. The caller frees it. */
mend_felt *mend_felt_create(uint64_t rows);

/* The next row: driver time by the list h200, and whether the host waited for the GPU in it. */
void mend_felt_row(mend_felt *felt, bool is_alloc, uint64_t driver_ns, bool waited);

mend_replay_felt mend_felt_result(const mend_felt *felt);

#endif
