/* Launching graphs: each launch queues the recorded work again. */
#include <assert.h>

#include "base/align.h"
#include "sim/captures.h"

#define NODE_OF(at) MEND_CONTAINER_OF(at, mend_sim_node, link)

/* The caller reserved the items. */
static void queue_nodes(mend_sim *sim, mend_sim_stream *stream, mend_sim_graph *graph,
                        uint64_t finish_ns)
{
    const uint64_t start_ns = mend_max_u64(sim->now_ns, mend_sim_stream_tail(sim, stream));
    MEND_LIST_EACH(mend_sim_node, node, link, &graph->nodes) {
        uint64_t ready_ns = start_ns;
        for (int i = 0; i < 2; i++) {
            if (node->after[i] != NULL) {
                ready_ns = mend_max_u64(ready_ns, node->after[i]->complete_ns);
            }
        }
        assert(ready_ns >= start_ns);
        node->complete_ns = ready_ns;
        if (node->is_work) {
            node->complete_ns = mend_max_u64(ready_ns + node->duration_ns, finish_ns);
            mend_sim_item_add(sim, stream, &node->item, ready_ns, node->complete_ns);
        }
        mend_sim_stream_extend(sim, stream, node->complete_ns);
        graph->idle_ns = mend_max_u64(graph->idle_ns, node->complete_ns);
    }
}

mend_result mend_sim_graph_launch(mend_sim *sim, mend_sim_graph *graph, mend_stream handle,
                                  uint64_t finish_ns)
{
    if (sim == NULL || graph == NULL) {
        return mend_sim_invalid("mend_sim_graph_launch: sim or graph is NULL");
    }
    mend_sim_stream *stream = NULL;
    mend_status status = mend_sim_user_begin(sim, MEND_CALL_launch, handle, &stream);
    if (status == MEND_DRIVER_OK && stream->capture != NULL) {
        status = MEND_DRIVER_NOT_SUPPORTED;
    }
    if (status == MEND_DRIVER_OK && !mend_slab_reserve(&sim->item_slab, graph->work_count)) {
        status = MEND_DRIVER_OUT_OF_MEMORY;
    }
    if (status == MEND_DRIVER_OK) {
        queue_nodes(sim, stream, graph, finish_ns);
        mend_sim_run_until(sim, sim->now_ns);
        status = sim->broken;
    }
    return mend_sim_user_end(sim, status);
}

void mend_sim_graph_destroy(mend_sim *sim, mend_sim_graph *graph)
{
    if (sim == NULL || graph == NULL) {
        return;
    }
    mend_mutex_lock(&sim->mutex);
    mend_sim_graph_drop(sim, graph);
    mend_mutex_unlock(&sim->mutex);
}
