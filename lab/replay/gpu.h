/* For replays on a GPU: sizes scaled to fit the device, ballast, and a load. */
#ifndef MEND_LAB_REPLAY_GPU_H
#define MEND_LAB_REPLAY_GPU_H

#include <stdatomic.h>

#include "driver/driver.h"
#include "lab/trace/trace.h"

/*
 * Divides the trace's sizes by the smallest power of two for which 1.25 times its peak fits in the
 * free memory of device 0, and returns it in *factor. MEND_OK; as mend_cuda_driver if there is no
 * device; MEND_ERROR_OUT_OF_MEMORY if no power of two is enough.
 */
mend_result mend_replay_scale_to_gpu(mend_trace *trace, double *factor);

/* Unused memory, so that an allocator finds the device as full as a smaller one. */
enum { MEND_REPLAY_MOST_BALLAST = 128 };
typedef struct mend_replay_ballast {
    unsigned count;
    uint64_t size_bytes;
    mend_chunk_handle piece[MEND_REPLAY_MOST_BALLAST];
} mend_replay_ballast;

/* Takes all that can be had but `left_bytes`, to a page. OUT_OF_MEMORY where there is less than
 * that. After a failure there is nothing to close. The device's context is current. */
mend_status mend_replay_ballast_open(mend_replay_ballast *ballast, const mend_driver *driver,
                                     uint64_t page_bytes, uint64_t left_bytes);
void mend_replay_ballast_close(mend_replay_ballast *ballast, const mend_driver *driver);

/* A kernel that streams through its own memory on its own stream, again and again, so that mapping
 * happens while work runs, as in a real program. */
typedef struct mend_replay_load {
    mend_stream stream;
    uint64_t address;
    uint64_t size_bytes;
    _Atomic uint64_t rows; /* rows of the trace done */
} mend_replay_load;

/* Takes at most 256 MiB and a sixteenth of the free memory. The device's context is current. After
 * a failure there is nothing to close. */
mend_status mend_replay_load_open(mend_replay_load *load, const mend_driver *driver);

/* Called after each row. Starts the kernel from time to time, unless it still runs. */
void mend_replay_load_tick(mend_replay_load *load, const mend_driver *driver);

/* Called when all work has ended. */
void mend_replay_load_close(mend_replay_load *load, const mend_driver *driver);

#endif
