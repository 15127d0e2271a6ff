/*
 * Who wants to hear when a captured graph is no more. A graph and what is instantiated from it are
 * one object here; its keepers hear once it was destroyed and its launches are done, or once its
 * capture came to nothing.
 */
#include <stdlib.h>

#include "base/align.h"
#include "sim/captures.h"

/* In sim->keepers. */
typedef struct keeper {
    mend_list link;
    const mend_sim_graph *graph; /* NULL: destroyed, and idle at idle_ns */
    uint64_t idle_ns;
    mend_capture_ended ended;
    void *context;
} keeper;

#define KEEPER_OF(at) MEND_CONTAINER_OF(at, keeper, link)

static void hear(keeper *k)
{
    mend_list_remove(&k->link);
    k->ended(k->context);
    free(k);
}

mend_status mend_sim_stream_capture(mend_sim *sim, mend_stream handle, uint64_t *id)
{
    mend_sim_stream *stream = NULL;
    mend_status status = mend_sim_stream_find(sim, handle, &stream);
    if (status == MEND_DRIVER_OK) {
        bool is_active = mend_sim_capture_state(stream->capture) == MEND_CAPTURE_ACTIVE;
        *id = is_active ? stream->capture->id : 0;
    }
    return status;
}

mend_status mend_sim_capture_keep(mend_sim *sim, mend_stream handle, mend_capture_ended ended,
                                  void *context)
{
    mend_sim_stream *stream = NULL;
    mend_status status = mend_sim_stream_find(sim, handle, &stream);
    if (status != MEND_DRIVER_OK) {
        return status;
    }
    if (mend_sim_capture_state(stream->capture) != MEND_CAPTURE_ACTIVE) {
        return mend_sim_refuse(sim, MEND_DRIVER_INVALID_VALUE,
                               "capture_keep: the stream is not being captured");
    }
    keeper *k = malloc(sizeof(*k));
    if (k == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    *k = (keeper){.graph = stream->capture->graph, .ended = ended, .context = context};
    mend_list_append(&sim->keepers, &k->link);
    return MEND_DRIVER_OK;
}

void mend_sim_keepers_lose_graph(mend_sim *sim, const mend_sim_graph *graph)
{
    for (mend_list *at = sim->keepers.next; at != &sim->keepers; at = at->next) {
        keeper *k = KEEPER_OF(at);
        if (k->graph == graph) {
            k->graph = NULL;
            k->idle_ns = graph->idle_ns;
        }
    }
    mend_sim_keepers_run(sim);
}

void mend_sim_keepers_run(mend_sim *sim)
{
    bool is_over = sim->broken != MEND_DRIVER_OK; /* no work runs any more */
    for (mend_list *at = sim->keepers.next, *next; at != &sim->keepers; at = next) {
        next = at->next;
        if (KEEPER_OF(at)->graph == NULL && (is_over || KEEPER_OF(at)->idle_ns <= sim->now_ns)) {
            hear(KEEPER_OF(at));
        }
    }
}

void mend_sim_keepers_clear(mend_sim *sim)
{
    while (!mend_list_is_empty(&sim->keepers)) {
        hear(KEEPER_OF(sim->keepers.next));
    }
}
