/* Runs the demo's workloads through its allocators, with progress on standard error. */
#ifndef MEND_CLI_DEMO_RUN_H
#define MEND_CLI_DEMO_RUN_H

#include "cli/demo_report.h"

typedef enum mend_demo_device {
    MEND_DEMO_AUTO, /* the GPU if there is one that fits the workload */
    MEND_DEMO_SIM,
    MEND_DEMO_CUDA
} mend_demo_device;

/*
 * Fills *report; the caller clears it. `folder` has the recordings. MEND_OK; errors of
 * mend_demo_load and mend_replay_run, with the details in mend_get_last_error;
 * MEND_ERROR_NO_DEVICE: MEND_DEMO_CUDA, and no GPU has room for a workload.
 */
mend_result mend_demo_run_all(mend_demo_device device, const char *folder,
                              mend_demo_report *report);

/* The same for a user's program: a file of mend_trace_read, or a built-in workload. */
mend_result mend_demo_run_own(mend_demo_device device, const char *source, uint64_t capacity_bytes,
                              mend_demo_report *report);

#endif
