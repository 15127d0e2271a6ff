/* One run of a trace through a policy at one capacity. */
#ifndef MEND_LAB_REPLAY_SESSION_H
#define MEND_LAB_REPLAY_SESSION_H

#include "lab/peers/peer.h"
#include "lab/replay/run.h"
#include "lab/trace/trace.h"

/*
 * Fills *result except fit_.... `capacity_bytes` 0: unlimited. A probe only finds out whether the
 * run completes and what it reserves: it measures no calls and takes no samples. `phase` is for the
 * progress. If an explanation is asked for, a probe finds the peaks, and any other run explains
 * `options->peaks`. Errors as mend_replay_run.
 */
mend_result mend_replay_session(const mend_trace *trace, const mend_peer_policy *policy,
                                uint64_t capacity_bytes, const mend_replay_options *options,
                                bool is_probe, const char *phase, mend_replay_result *result);

#endif
