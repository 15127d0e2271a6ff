/* Graphs: work recorded in a capture. */
#include <assert.h>

#include "base/align.h"
#include "sim/captures.h"

#define NODE_OF(at) MEND_CONTAINER_OF(at, mend_sim_node, link)

mend_sim_graph *mend_sim_graph_make(mend_sim *sim)
{
    if (!mend_slab_reserve(&sim->graph_slab, 1)) {
        return NULL;
    }
    mend_sim_graph *graph = mend_slab_take(&sim->graph_slab);
    mend_list_init(&graph->nodes);
    return graph;
}

void mend_sim_graph_drop(mend_sim *sim, mend_sim_graph *graph)
{
    mend_sim_keepers_lose_graph(sim, graph);
    while (!mend_list_is_empty(&graph->nodes)) {
        mend_sim_node *node = NODE_OF(graph->nodes.next);
        mend_list_remove(&node->link);
        mend_slab_give(&sim->node_slab, node);
    }
    mend_slab_give(&sim->graph_slab, graph);
}

/* The next node of a captured stream. NULL: malloc failed. */
static mend_sim_node *add_node(mend_sim *sim, mend_sim_stream *stream)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(stream->capture != NULL);
    assert(!stream->capture->spoilt);
    if (!mend_slab_reserve(&sim->node_slab, 1)) {
        return NULL;
    }
    mend_sim_node *node = mend_slab_take(&sim->node_slab);
    node->after[0] = stream->tip;
    mend_list_append(&stream->capture->graph->nodes, &node->link);
    stream->tip = node;
    return node;
}

mend_status mend_sim_graph_record(mend_sim *sim, mend_sim_stream *stream, const mend_sim_item *item,
                                  uint64_t duration_ns)
{
    mend_sim_node *node = add_node(sim, stream);
    NEED(node != NULL);
    node->is_work = true;
    node->item = *item;
    node->item.device = stream->device;
    node->duration_ns = duration_ns;
    stream->capture->graph->work_count++;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_graph_join(mend_sim *sim, mend_sim_stream *stream, mend_sim_node *tip)
{
    assert(stream->capture != NULL);
    if (tip == NULL || tip == stream->tip) {
        return MEND_DRIVER_OK;
    }
    mend_sim_node *node = add_node(sim, stream);
    NEED(node != NULL);
    node->after[1] = tip;
    return MEND_DRIVER_OK;
}

bool mend_sim_graph_touches(const mend_sim_graph *graph, uint64_t address, uint64_t size_bytes)
{
    MEND_LIST_EACH(const mend_sim_node, node, link, &graph->nodes) {
        if (node->is_work && mend_sim_item_touches(&node->item, address, size_bytes)) {
            return true;
        }
    }
    return false;
}

/* Notes in each node whether `tip` comes after it, or is it. */
static void reach(mend_sim_graph *graph, const mend_sim_node *tip)
{
    for (mend_list *at = graph->nodes.next; at != &graph->nodes; at = at->next) {
        NODE_OF(at)->reached = NODE_OF(at) == tip;
    }
    /* Backwards: a node is visited after all nodes that come after it. */
    for (mend_list *at = graph->nodes.previous; at != &graph->nodes; at = at->previous) {
        mend_sim_node *node = NODE_OF(at);
        for (int i = 0; node->reached && i < 2; i++) {
            if (node->after[i] != NULL) {
                node->after[i]->reached = true;
            }
        }
    }
}

bool mend_sim_graph_is_behind(mend_sim_graph *graph, const mend_sim_node *tip,
                              const mend_sim_node *node)
{
    if (node != NULL) {
        reach(graph, tip);
    }
    return node == NULL || node->reached;
}

bool mend_sim_graph_is_joined(mend_sim_graph *graph, const mend_sim_node *tip)
{
    bool joined = true;
    reach(graph, tip);
    for (mend_list *at = graph->nodes.next; at != &graph->nodes; at = at->next) {
        joined &= NODE_OF(at)->reached || !NODE_OF(at)->is_work;
    }
    return joined;
}
