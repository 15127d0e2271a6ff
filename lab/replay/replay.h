/*
 * Replays a trace through an allocation policy on a device and measures: at a given capacity, or at
 * the smallest that is enough. `libmend replay` and `libmend demo` use it.
 */
#ifndef MEND_LAB_REPLAY_REPLAY_H
#define MEND_LAB_REPLAY_REPLAY_H

#include <stdbool.h>

#include "lab/replay/run.h"
#include "lab/support/capacity.h"
#include "lab/trace/trace.h"

/* Whether there is a policy of that name for the device. */
bool mend_replay_knows_policy(const char *policy, mend_replay_device device);

/*
 * Replays `trace` through `policy` at `capacity` and fills *result; the caller clears it. Out of
 * memory is a result, not a failure. MEND_OK; MEND_ERROR_INVALID_ARGUMENT: an unknown policy;
 * MEND_ERROR_NO_DRIVER, MEND_ERROR_NO_DEVICE and other errors of opening the device;
 * MEND_ERROR_OUT_OF_HOST_MEMORY. Several threads may replay the same trace.
 */
mend_result mend_replay_run(const mend_trace *trace, const char *policy,
                            const mend_capacity *capacity, const mend_replay_options *options,
                            mend_replay_result *result);

/* A run with its names, for printing. */
typedef struct mend_replay_row {
    const mend_trace *trace;
    const char *policy;
    const mend_replay_options *options;
    const mend_replay_result *result;
} mend_replay_row;

#endif
