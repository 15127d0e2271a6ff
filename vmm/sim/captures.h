/*
 * Captures and graphs. A capture has the stream it began on and all streams that waited for it.
 * Their work is recorded as nodes. A node comes after at most two others: the stream's node before
 * it and, if the stream waits for another one, that stream's last node. So the position of a stream
 * is always one node, its tip, and the order of recording is a valid order of execution.
 *
 * capture_rules.c has the rules for calls while streams are captured.
 */
#ifndef MEND_SIM_CAPTURES_H
#define MEND_SIM_CAPTURES_H

#include "sim/state.h"

struct mend_sim_node {
    mend_list link;          /* of the graph, in the order of recording */
    mend_sim_node *after[2]; /* NULL: nothing */
    bool is_work;            /* false: a wait only */
    bool reached;            /* used while an order is checked: the tip comes after this node */
    mend_sim_item item;
    uint64_t duration_ns;
    uint64_t complete_ns; /* in the launch that is being queued */
};

struct mend_sim_graph {
    mend_list nodes;
    size_t work_count;
    uint64_t idle_ns; /* when all launches so far are done */
};

struct mend_sim_capture {
    mend_list link; /* of all captures in progress */
    uint64_t id;
    uint64_t thread; /* number of the thread that began it */
    mend_sim_capture_mode mode;
    mend_sim_stream *origin;
    mend_sim_graph *graph; /* recorded so far */
    bool spoilt;
};

/* ---- capture.c ------------------------------------------------------------------------------- */

mend_capture_state mend_sim_capture_state(const mend_sim_capture *capture);

/* The capture with this id, if it is still in progress. */
mend_sim_capture *mend_sim_capture_find(const mend_sim *sim, uint64_t id);

/* If the stream is captured, its work is recorded and *captured is set: the caller does not run
 * it. */
mend_status mend_sim_capture_takes_work(mend_sim *sim, mend_sim_stream *stream, bool *captured);

/* Handles a wait in which the stream or the event is captured. *captured: the caller has nothing
 * left to do. */
mend_status mend_sim_capture_takes_wait(mend_sim *sim, mend_sim_stream *stream,
                                        const mend_sim_event *event, bool *captured);

/* ---- capture_rules.c ------------------------------------------------------------------------- */

/* Whether the calling thread may make an unsafe call during the captures in progress. */
mend_status mend_sim_capture_admits_unsafe(mend_sim *sim);

/* Whether the thread may ask for the identity of a stream: not while the stream is captured. */
mend_status mend_sim_capture_admits_identity(mend_sim *sim, mend_sim_stream *stream);

/* Refuses a call that a capture forbids on this stream, event or device, and invalidates the
 * capture. */
mend_status mend_sim_capture_forbids_stream(mend_sim *sim, mend_sim_stream *stream);
mend_status mend_sim_capture_forbids_event(mend_sim *sim, mend_sim_event *event);
mend_status mend_sim_capture_forbids_device(mend_sim *sim, int device);

/* Unmapping memory that a capture's recorded work uses succeeds without an error, but the graph
 * cannot run unless something is mapped there again. So this only reports a violation. */
void mend_sim_capture_minds_unmap(mend_sim *sim, const mend_sim_mapping *mapping);

/* A captured stream that the legacy stream `stream` would have to wait for. NULL: there is none, or
 * `stream` is not a legacy stream. */
mend_sim_stream *mend_sim_capture_shuts_legacy(const mend_sim *sim, const mend_sim_stream *stream);

/* In that case refuses to use the legacy stream, and invalidates the captures. */
mend_status mend_sim_capture_admits_legacy(mend_sim *sim, const mend_sim_stream *stream);

/* ---- keepers.c ------------------------------------------------------------------------------- */

/* `ended` is called when the graph has ended. OUT_OF_MEMORY. */
mend_status mend_sim_keepers_add(mend_sim *sim, const mend_sim_graph *graph,
                                 mend_capture_ended ended, void *context);

/* The graph was destroyed: calls its keepers when its launches are done. */
void mend_sim_keepers_lose_graph(mend_sim *sim, const mend_sim_graph *graph);

/* Calls the keepers whose graphs have ended, or all, if the device is destroyed. */
void mend_sim_keepers_run(mend_sim *sim);
void mend_sim_keepers_clear(mend_sim *sim);

/* ---- graph.c --------------------------------------------------------------------------------- */

/* NULL: malloc failed. */
mend_sim_graph *mend_sim_graph_make(mend_sim *sim);
void mend_sim_graph_drop(mend_sim *sim, mend_sim_graph *graph);

/* Records work on a captured stream. OUT_OF_MEMORY. */
mend_status mend_sim_graph_record(mend_sim *sim, mend_sim_stream *stream, const mend_sim_item *item,
                                  uint64_t duration_ns);

/* Later work of the captured stream also comes after `tip`. OUT_OF_MEMORY. */
mend_status mend_sim_graph_join(mend_sim *sim, mend_sim_stream *stream, mend_sim_node *tip);

bool mend_sim_graph_touches(const mend_sim_graph *graph, uint64_t address, uint64_t size_bytes);

/* Whether `tip` comes after `node`, or is it. Nothing is a node before all. */
bool mend_sim_graph_is_behind(mend_sim_graph *graph, const mend_sim_node *tip,
                              const mend_sim_node *node);

/* Whether `tip` comes after all work recorded so far, or is the last of it. */
bool mend_sim_graph_is_joined(mend_sim_graph *graph, const mend_sim_node *tip);

#endif
