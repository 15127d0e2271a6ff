/*
 * Captures and graphs. A capture spans the stream it began on and all that came to wait for it;
 * their work is recorded as nodes. A node comes after at most two others: what a stream recorded
 * before, and, where it waits for another stream, that one's last. So the place a stream has
 * reached is always one node, its tip, and the order of recording is an order to run in.
 *
 * What may not be done while streams are captured stands in capture_rules.c.
 */
#ifndef MEND_SIM_CAPTURES_H
#define MEND_SIM_CAPTURES_H

#include "sim/state.h"

struct mend_sim_node {
    mend_list link;          /* of the graph, in the order of recording */
    mend_sim_node *after[2]; /* NULL: nothing */
    bool is_work;            /* false: only waits */
    bool reached;            /* while joins are checked: the origin's tip comes after it */
    mend_sim_item item;
    uint64_t duration_ns;
    uint64_t complete_ns; /* in the replay that is being queued */
};

struct mend_sim_graph {
    mend_list nodes;
    size_t work_count;
    uint64_t idle_ns; /* when all launches so far are done */
};

struct mend_sim_capture {
    mend_list link; /* of all under way */
    uint64_t id;
    uint64_t thread; /* number of the one that began it */
    mend_sim_capture_mode mode;
    mend_sim_stream *origin;
    mend_sim_graph *graph; /* so far */
    bool spoilt;
};

/* ---- capture.c ------------------------------------------------------------------------------ */

mend_capture_state mend_sim_capture_state(const mend_sim_capture *capture);

/* The capture of this id, if it is still under way. */
mend_sim_capture *mend_sim_capture_find(const mend_sim *sim, uint64_t id);

/* Work on a capturing stream is recorded, not run: *captured tells. */
mend_status mend_sim_capture_takes_work(mend_sim *sim, mend_sim_stream *stream, bool *captured);

/* A wait in which the stream or the event is captured; *captured: nothing is left to do. */
mend_status mend_sim_capture_takes_wait(mend_sim *sim, mend_sim_stream *stream,
                                        const mend_sim_event *event, bool *captured);

/* ---- capture_rules.c ------------------------------------------------------------------------ */

/* Whether the calling thread may make a call that is unsafe beside the captures under way. */
mend_status mend_sim_capture_admits_unsafe(mend_sim *sim);

/* Whether it may ask who a stream is: not while that is captured. */
mend_status mend_sim_capture_admits_identity(mend_sim *sim, mend_sim_stream *stream);

/* Refuses a call that capture forbids on this stream, event or device, and spoils the capture. */
mend_status mend_sim_capture_forbids_stream(mend_sim *sim, mend_sim_stream *stream);
mend_status mend_sim_capture_forbids_event(mend_sim *sim, mend_sim_event *event);
mend_status mend_sim_capture_forbids_device(mend_sim *sim, int device);

/* A driver unmaps what the work of a capture under way touches, and says nothing: the graph is of
 * no use unless something is mapped there again. Explained as a violation, nothing more. */
void mend_sim_capture_minds_unmap(mend_sim *sim, const mend_sim_mapping *mapping);

/* The captured stream whose turn the legacy stream `stream` cannot wait for; NULL: there is none,
 * or `stream` is another. */
mend_sim_stream *mend_sim_capture_shuts_legacy(const mend_sim *sim, const mend_sim_stream *stream);

/* Refuses the use of the legacy stream then, and spoils the captures. */
mend_status mend_sim_capture_admits_legacy(mend_sim *sim, const mend_sim_stream *stream);

mend_status mend_sim_exchange_capture_mode(mend_sim *sim, mend_capture_mode *mode);

/* ---- keepers.c ------------------------------------------------------------------------------ */

/* `ended` is called when the graph is no more. OUT_OF_MEMORY. */
mend_status mend_sim_keepers_add(mend_sim *sim, const mend_sim_graph *graph,
                                 mend_capture_ended ended, void *context);

/* The graph is destroyed: its keepers hear when its launches are done. */
void mend_sim_keepers_lose_graph(mend_sim *sim, const mend_sim_graph *graph);

/* Those hear whose time has come; or all, for the device goes. */
void mend_sim_keepers_run(mend_sim *sim);
void mend_sim_keepers_clear(mend_sim *sim);

/* ---- graph.c -------------------------------------------------------------------------------- */

/* NULL: malloc failed. */
mend_sim_graph *mend_sim_graph_make(mend_sim *sim);
void mend_sim_graph_drop(mend_sim *sim, mend_sim_graph *graph);

/* Records work on a captured stream. OUT_OF_MEMORY. */
mend_status mend_sim_graph_record(mend_sim *sim, mend_sim_stream *stream, const mend_sim_item *item,
                                  uint64_t duration_ns);

/* What the captured stream records from now on comes after `tip` as well. OUT_OF_MEMORY. */
mend_status mend_sim_graph_join(mend_sim *sim, mend_sim_stream *stream, mend_sim_node *tip);

bool mend_sim_graph_touches(const mend_sim_graph *graph, uint64_t address, uint64_t size_bytes);

/* Whether all work recorded so far comes before, or is, `tip`. */
bool mend_sim_graph_is_joined(mend_sim_graph *graph, const mend_sim_node *tip);

/* ---- capture_calls.c ------------------------------------------------------------------------ */

mend_status mend_sim_stream_capture(mend_sim *sim, mend_stream handle, uint64_t *id);
mend_status mend_sim_capture_keep(mend_sim *sim, mend_stream handle, mend_capture_ended ended,
                                  void *context);

#endif
