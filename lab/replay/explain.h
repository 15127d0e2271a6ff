/*
 * The cause of each lost percent: reserved memory that is not live, at the peaks of a run and at
 * its failure, and the driver's time. A first run finds the events of the peaks. A second,
 * identical run is examined just after them.
 */
#ifndef MEND_LAB_REPLAY_EXPLAIN_H
#define MEND_LAB_REPLAY_EXPLAIN_H

#include "lab/heap/explain.h"
#include "lab/peers/peer.h"
#include "lab/replay/causes.h"
#include "lab/replay/rig.h"
#include "lab/replay/run.h"
#include "lab/trace/trace.h"

/* A block that keeps a chunk in use, in events of the trace. */
typedef struct mend_replay_owner {
    uint64_t allocated_at;
    bool is_freed; /* by the trace. Otherwise it lives to the end */
    uint64_t freed_at;
} mend_replay_owner;

typedef enum mend_replay_moment_kind {
    MEND_MOMENT_PEAK_RESERVED,
    MEND_MOMENT_PEAK_WASTE, /* most bytes reserved and not live */
    MEND_MOMENT_FAILURE,
    MEND_MOMENT_COUNT
} mend_replay_moment_kind;

/* The pool just after an event, from the view of the event's stream. */
typedef struct mend_replay_moment {
    bool applies;
    uint64_t event;
    bool is_alloc;
    uint64_t size_bytes; /* of the event */
    mend_explanation state;
    mend_replay_owner owners[MEND_EXPLAIN_EMPTIEST]; /* for the emptiest chunks, in the same
                                                      * order */
} mend_replay_moment;

typedef struct mend_replay_explanation {
    bool knows_memory; /* `moments` is valid: the policy can explain itself */
    mend_replay_moment moments[MEND_MOMENT_COUNT];
    mend_replay_costs costs;
    mend_replay_costs costs_second_half;
} mend_replay_explanation;

/* The state of an examination of a run. */
typedef struct mend_replay_view {
    const mend_trace *trace;
    const mend_replay_options *options;
    mend_peer *peer;
    const mend_stream *streams;  /* by index of the trace */
    const mend_replay_use *uses; /* by block */
    bool is_probe;
} mend_replay_view;

/* Called just after an event that succeeded: a probe looks for the peaks. Any other run explains
 * those it was given. */
void mend_replay_look(const mend_replay_view *view, uint64_t event, uint64_t live_bytes,
                      mend_replay_result *result);

/* Called when a run that is not a probe has ended: explains its failure, if it failed, and time by
 * cause. */
void mend_replay_look_at_end(const mend_replay_view *view, const mend_replay_costs *costs,
                             const mend_replay_costs *costs_at_half, mend_replay_result *result);

#endif
