/* Forks: streams that wait for a captured one join its capture, and the one on which it began waits
 * for them before it ends. Of two nodes of a graph that use the same bytes, and of which neither
 * comes after the other, none may write: a launch runs them side by side. In the order of the
 * program. No other pool is asked for it. */
#include <string.h>

#include "tests/sim/trial.h"

bool trial_is_beside(const trial *t, int stream, int other)
{
    return trial_is_recorded(t, stream) && trial_is_recorded(t, other) &&
           t->streams[stream].capture == t->streams[other].capture;
}

void trial_note_order(trial *t, int from, int to)
{
    for (int i = 0; trial_is_beside(t, from, to) && i < TRIAL_STREAMS; i++) {
        const uint64_t before = t->streams[from].nodes_before[i];
        t->streams[to].nodes_before[i] = mend_max_u64(t->streams[to].nodes_before[i], before);
    }
}

/* Makes room: nodes of captures that have ended go. */
static void drop_old_nodes(trial *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->node_count; i++) {
        const trial_node *node = &t->nodes[i];
        if (t->streams[node->stream].captured &&
            t->streams[node->stream].capture == node->capture) {
            t->nodes[kept++] = *node;
        }
    }
    t->node_count = kept;
}

bool trial_note_node(trial *t, int at, const trial_block *block, bool writes)
{
    trial_stream *stream = &t->streams[at];
    if (t->node_count == TRIAL_NODES) {
        drop_old_nodes(t);
    }
    if (t->node_count == TRIAL_NODES) {
        return false;
    }
    for (size_t i = 0; i < t->node_count; i++) {
        const trial_node *other = &t->nodes[i];
        const bool meet = other->capture == stream->capture &&
                          other->address < block->address + block->size_bytes &&
                          block->address < other->address + other->size_bytes;
        trial_claim(t, TRIAL_RULE,
                    !meet || !(writes || other->writes) ||
                        other->number <= stream->nodes_before[other->stream],
                    "in a graph stream %d %s 0x%llx, which stream %d %s beside it", at,
                    writes ? "writes" : "reads", (unsigned long long)block->address, other->stream,
                    other->writes ? "writes" : "reads");
    }
    t->nodes[t->node_count++] = (trial_node){.capture = stream->capture,
                                             .address = block->address,
                                             .size_bytes = block->size_bytes,
                                             .number = ++stream->nodes_before[at],
                                             .stream = at,
                                             .writes = writes};
    trial_stream *origin = &t->streams[stream->origin];
    origin->capture_graph_pools |= trial_bit(block->graph_pool);
    origin->recorded =
        (origin->recorded * 64 + (uint64_t)(block - t->blocks) * 2u + writes + 1) * TRIAL_STREAMS +
        (uint64_t)at;
    return true;
}

void trial_enter_capture(trial_stream *stream, uint64_t capture, int origin, int capturer)
{
    stream->captured = true;
    stream->spoilt = false;
    stream->unsure = false;
    stream->seen = 0;
    stream->capturer = capturer;
    stream->capture_graph_pools = 0;
    stream->recorded = 0;
    stream->page_uses.count = 0;
    stream->capture = capture;
    stream->origin = origin;
    memset(stream->nodes_before, 0, sizeof(stream->nodes_before));
}

/* An open stream joins the capture of another one. */
static bool join(trial *t, int from, int to)
{
    const trial_stream *captured = &t->streams[from];
    trial_stream *stream = &t->streams[to];
    const bool is_possible = stream->handle != NULL && trial_is_open(t, to) && !t->may_be_lost &&
                             trial_is_recorded(t, from);
    if (!is_possible || !trial_wait(t, from, to)) {
        return false;
    }
    trial_enter_capture(stream, captured->capture, captured->origin, captured->capturer);
    trial_note_order(t, from, to);
    return true;
}

bool trial_capture_wait(trial *t, const operation *op)
{
    const int to = op->stream % t->stream_count;
    const int from = op->slot % t->stream_count;
    if (from == to || t->stopped) {
        return false;
    }
    return trial_is_beside(t, from, to) ? trial_wait(t, from, to) : join(t, from, to);
}

/* Where the driver refuses a wait, and a stream did work since the last one, nothing is captured.
 */
void trial_join_origin(trial *t, int origin)
{
    for (int i = 0; i < t->stream_count; i++) {
        if (i != origin && trial_is_beside(t, i, origin) && !trial_wait(t, i, origin)) {
            t->streams[origin].unsure = true;
        }
    }
}

void trial_leave_capture(trial *t, int origin)
{
    const uint64_t capture = t->streams[origin].capture;
    uint32_t members = 0;
    for (int i = 0; i < t->stream_count; i++) {
        trial_stream *stream = &t->streams[i];
        if (stream->captured && stream->capture == capture) {
            stream->captured = false;
            stream->unnamed = t->config.vanish ? (1u << TRIAL_POOLS) - 1 : 0;
            members |= trial_bit(i);
        }
    }
    for (int i = 0; i < TRIAL_BLOCKS; i++) { /* launches are in the graph pool's chain */
        t->blocks[i].readers &= t->blocks[i].graph_pool != NOBODY ? ~members : UINT32_MAX;
    }
}
