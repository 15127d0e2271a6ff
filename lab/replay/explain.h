/*
 * Where each lost percent goes: at the peaks of a run and at its failure, memory that is reserved
 * and not live, by its cause; and the driver's time by cause. A first run finds the events of the
 * peaks, a second one, which does the same, is looked at just after them.
 */
#ifndef MEND_LAB_REPLAY_EXPLAIN_H
#define MEND_LAB_REPLAY_EXPLAIN_H

#include "lab/peers/peer.h"
#include "lab/replay/causes.h"
#include "lab/replay/rig.h"
#include "lab/replay/run.h"
#include "lab/trace/trace.h"
#include "observe/explain.h"

/* The block that holds a chunk, in events of the trace. */
typedef struct mend_replay_holder {
    uint64_t allocated_at;
    bool is_freed; /* by the trace; else it lives to its end */
    uint64_t freed_at;
} mend_replay_holder;

typedef enum mend_replay_moment_kind {
    MEND_MOMENT_PEAK_RESERVED,
    MEND_MOMENT_PEAK_WASTE, /* most reserved and not live */
    MEND_MOMENT_FAILURE,
    MEND_MOMENT_COUNT
} mend_replay_moment_kind;

/* The pool just after an event, as the event's stream finds it. */
typedef struct mend_replay_moment {
    bool applies;
    uint64_t event;
    bool is_alloc;
    uint64_t size_bytes; /* of the event */
    mend_explanation state;
    mend_replay_holder holders[MEND_EXPLAIN_EMPTIEST]; /* of the emptiest chunks, in their order */
} mend_replay_moment;

typedef struct mend_replay_explanation {
    bool knows_memory; /* moments apply: the policy can explain itself */
    mend_replay_moment moments[MEND_MOMENT_COUNT];
    mend_replay_costs costs;
    mend_replay_costs costs_second_half;
} mend_replay_explanation;

/* What a run is looked at with. */
typedef struct mend_replay_view {
    const mend_trace *trace;
    const mend_replay_options *options;
    mend_peer *peer;
    const mend_stream *streams;  /* by index of the trace */
    const mend_replay_use *uses; /* by block */
    bool is_probe;
} mend_replay_view;

/* Just after an event that went well: a probe looks for the peaks, another run explains those that
 * it was told of. */
void mend_replay_look(const mend_replay_view *view, uint64_t event, uint64_t live_bytes,
                      mend_replay_result *result);

/* When a run that is not a probe has ended, as it should or not: its failure, and time by cause. */
void mend_replay_look_at_end(const mend_replay_view *view, const mend_replay_costs *costs,
                             const mend_replay_costs *costs_at_half, mend_replay_result *result);

#endif
