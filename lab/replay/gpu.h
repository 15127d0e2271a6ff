/* What a replay on a GPU may have beside it: sizes made to fit the device, and a load. */
#ifndef MEND_LAB_REPLAY_GPU_H
#define MEND_LAB_REPLAY_GPU_H

#include <stdatomic.h>

#include "driver/driver.h"
#include "lab/trace/trace.h"

/*
 * Divides the trace's sizes by the smallest power of two with which 1.25 times its peak, room for a
 * policy that wastes, fits in what is free on device 0, and gives it in *factor. MEND_OK; as
 * mend_cuda_driver where there is no device; MEND_ERROR_OUT_OF_MEMORY where no power does.
 */
mend_result mend_replay_scale_to_gpu(mend_trace *trace, double *factor);

/* A kernel that streams through memory of its own on a stream of its own, started again and again,
 * so that mapping goes on beside running work as in a program that computes. */
typedef struct mend_replay_load {
    mend_stream stream;
    uint64_t address;
    uint64_t size_bytes;
    _Atomic uint64_t rows; /* of the trace that have passed */
} mend_replay_load;

/* Takes at most 256 MiB and a sixteenth of what is free. The current context is the device's. Where
 * it fails there is nothing to close. */
mend_status mend_replay_load_open(mend_replay_load *load, const mend_driver *driver);

/* A row has passed. Starts the kernel at times, unless it still runs. */
void mend_replay_load_tick(mend_replay_load *load, const mend_driver *driver);

/* When all work has ended. */
void mend_replay_load_close(mend_replay_load *load, const mend_driver *driver);

#endif
