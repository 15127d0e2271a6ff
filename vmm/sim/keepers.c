/*
 * Callers that are notified when a captured graph has ended. Here a graph and everything
 * instantiated from it are one object. Its keepers are called once it is destroyed and its launches
 * are done, or once its capture has failed.
 */
#include <assert.h>
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

mend_status mend_sim_keepers_add(mend_sim *sim, const mend_sim_graph *graph,
                                 mend_capture_ended ended, void *context)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(graph != NULL);
    assert(ended != NULL);
    keeper *k = malloc(sizeof(*k));
    NEED(k != NULL);
    *k = (keeper){.graph = graph, .ended = ended, .context = context};
    mend_list_append(&sim->keepers, &k->link);
    return MEND_DRIVER_OK;
}

void mend_sim_keepers_lose_graph(mend_sim *sim, const mend_sim_graph *graph)
{
    MEND_LIST_EACH(keeper, k, link, &sim->keepers) {
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
