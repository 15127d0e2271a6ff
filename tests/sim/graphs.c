/* Graph pools, captures and graphs. All use of a graph pool's memory is in one chain: launches of
 * its graphs, and work outside captures, each waits for the one before. */
#include "tests/sim/asleep.h"
#include "tests/sim/ranges.h"

int trial_graph_pool_taking(const trial *t, mend_stream stream)
{
    int taking = NOBODY;
    bool is_legacy = stream == NULL || stream == MEND_STREAM_LEGACY;
    for (int i = 0; i < TRIAL_GRAPH_POOLS; i++) {
        const trial_graph_pool *graph_pool = &t->graph_pools[i];
        bool takes =
            graph_pool->takes == MEND_EVERY_STREAM || graph_pool->takes == stream ||
            (is_legacy && (graph_pool->takes == NULL || graph_pool->takes == MEND_STREAM_LEGACY));
        bool is_later = taking == NOBODY || graph_pool->begun_at > t->graph_pools[taking].begun_at;
        if (graph_pool->graph_pool != NULL && graph_pool->begun && takes && is_later) {
            taking = i;
        }
    }
    return taking;
}

bool trial_follow_graph_pool(trial *t, int graph_pool, int stream)
{
    int *last = &t->graph_pools[graph_pool].last_stream;
    if (*last != NOBODY && !trial_order(t, *last, stream)) {
        return false;
    }
    *last = stream;
    return true;
}

bool trial_graph_pools_leave_stream(trial *t, int stream, int heir)
{
    for (int i = 0; i < TRIAL_ALL_GRAPH_POOLS; i++) {
        if (trial_graph_pool_is_there(&t->graph_pools[i]) &&
            t->graph_pools[i].last_stream == stream && !trial_follow_graph_pool(t, i, heir)) {
            return false;
        }
    }
    return true;
}

static void leave_graph_pool(trial *t, int number, int home);

static bool is_in_a_capture(const trial *t, int graph_pool)
{
    bool is_in = false;
    for (int i = 0; i < t->stream_count; i++) {
        is_in |= t->streams[i].captured &&
                 (t->streams[i].capture_graph_pools & trial_bit(graph_pool)) != 0;
    }
    return is_in;
}

/* Graph pools of captures end with the graph. */
static void drop_graph(trial *t, trial_graph *graph)
{
    trial_graph gone = *graph;
    *graph = (trial_graph){0};
    mend_sim_graph_destroy(t->sim, gone.graph);
    for (int i = TRIAL_GRAPH_POOLS; i < TRIAL_ALL_GRAPH_POOLS; i++) {
        bool is_its_own =
            t->graph_pools[i].capture != 0 && t->graph_pools[i].capture == gone.capture;
        if (is_its_own) {
            leave_graph_pool(t, i, t->graph_pools[i].last_stream);
        }
    }
}

int trial_capture_graph_pool(trial *t, int stream)
{
    uint64_t capture = t->streams[stream].capture;
    int unused = NOBODY;
    for (int i = TRIAL_GRAPH_POOLS; i < TRIAL_ALL_GRAPH_POOLS; i++) {
        if (t->graph_pools[i].capture == capture) {
            return i;
        }
        unused = t->graph_pools[i].capture == 0 ? i : unused;
    }
    t->graph_pools[unused] = (trial_graph_pool){.capture = capture, .last_stream = NOBODY};
    return unused;
}

/* ---- graph pools ----------------------------------------------------------------------------- */

static bool create_graph_pool(trial *t, const operation *op)
{
    trial_graph_pool *graph_pool = &t->graph_pools[op->slot % TRIAL_GRAPH_POOLS];
    if (graph_pool->graph_pool != NULL) {
        return false;
    }
    trial_call call = {.kind = CALL_GRAPH_POOL_CREATE};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        *graph_pool = (trial_graph_pool){.graph_pool = call.graph_pool, .last_stream = NOBODY};
    }
    return true;
}

static bool begin_graph_pool(trial *t, const operation *op)
{
    trial_graph_pool *graph_pool = &t->graph_pools[op->slot % TRIAL_GRAPH_POOLS];
    if (graph_pool->graph_pool == NULL || graph_pool->begun) {
        return false;
    }
    int stream = op->stream % t->stream_count;
    trial_call call = {.kind = CALL_GRAPH_POOL_BEGIN,
                       .graph_pool = graph_pool->graph_pool,
                       .stream = (op->amount & 1) ? MEND_EVERY_STREAM
                                                  : trial_handle(t, stream, op->amount & 2)};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        graph_pool->begun = true;
        graph_pool->begun_at = ++t->last_begin;
        graph_pool->takes = call.stream;
    }
    return true;
}

static bool end_graph_pool(trial *t, trial_graph_pool *graph_pool, int thread)
{
    if (graph_pool->graph_pool == NULL || !graph_pool->begun) {
        return false;
    }
    trial_call call = {.kind = CALL_GRAPH_POOL_END, .graph_pool = graph_pool->graph_pool};
    if (trial_call_pool(t, thread, &call) == MEND_OK) {
        graph_pool->begun = false;
    }
    return true;
}

/* Its graphs go, and those of captures under way will not be launched. Its live blocks are ordinary
 * ones, whose use went before on `home`. */
static void leave_graph_pool(trial *t, int number, int home)
{
    for (int i = 0; i < t->stream_count; i++) {
        trial_stream *stream = &t->streams[i];
        stream->unsure |= stream->captured &&
                          (t->streams[stream->origin].capture_graph_pools & trial_bit(number)) != 0;
        stream->spoilt |= stream->unsure;
    }
    for (int i = 0; i < TRIAL_GRAPHS; i++) {
        if (t->graphs[i].graph != NULL && (t->graphs[i].graph_pools & trial_bit(number)) != 0) {
            drop_graph(t, &t->graphs[i]);
        }
    }
    TRIAL_EACH_BLOCK(trial_block, block, t) {
        if (block->live && block->graph_pool == number) {
            block->graph_pool = NOBODY;
            block->written = false;
            block->home = home != NOBODY ? home : block->home;
        }
    }
    t->graph_pools[number] = (trial_graph_pool){0};
    if (number < TRIAL_GRAPH_POOLS) {
        t->checkpoints[number].is_taken = false;
    }
}

static bool release_graph_pool(trial *t, const operation *op)
{
    int number = op->slot % TRIAL_GRAPH_POOLS;
    trial_graph_pool *graph_pool = &t->graph_pools[number];
    if (graph_pool->graph_pool == NULL || graph_pool->begun) {
        return false;
    }
    int stream = op->stream % t->stream_count;
    bool on_none = op->amount & 1;
    int last = graph_pool->last_stream;
    if (!on_none && (!trial_is_open(t, stream) || !trial_follow_graph_pool(t, number, stream))) {
        return false;
    }
    trial_call call = {.kind = CALL_GRAPH_POOL_RELEASE,
                       .graph_pool = graph_pool->graph_pool,
                       .stream = on_none ? MEND_NO_STREAM : trial_handle(t, stream, false)};
    if (trial_call_pool(t, trial_thread_of(t, stream, op->thread), &call) == MEND_OK) {
        leave_graph_pool(t, number, on_none ? last : stream);
    }
    return true;
}

bool trial_graph_pool_operation(trial *t, const operation *op)
{
    const trial_graph_pool *graph_pool = &t->graph_pools[op->slot % TRIAL_GRAPH_POOLS];
    const mend_stream stream = trial_handle(t, 0, false);
    if (graph_pool->graph_pool != NULL && !trial_is_faulty(t)) {
        trial_expect(t, "a graph pool begun, or ended, twice", MEND_ERROR_INVALID_ARGUMENT,
                     graph_pool->begun ? mend_graph_pool_begin(graph_pool->graph_pool, stream)
                                       : mend_graph_pool_end(graph_pool->graph_pool));
    }
    switch (op->kind) {
    case OP_GRAPH_POOL_CREATE:
        return create_graph_pool(t, op);
    case OP_GRAPH_POOL_BEGIN:
        return begin_graph_pool(t, op);
    case OP_GRAPH_POOL_END:
        return end_graph_pool(t, &t->graph_pools[op->slot % TRIAL_GRAPH_POOLS],
                              op->thread % t->turns.count);
    default:
        return release_graph_pool(t, op);
    }
}

void trial_end_graph_pools(trial *t)
{
    for (int i = 0; i < TRIAL_GRAPH_POOLS; i++) {
        end_graph_pool(t, &t->graph_pools[i], 0);
        release_graph_pool(t, &(operation){.slot = (uint8_t)i, .amount = 1});
    }
}

/* ---- captures -------------------------------------------------------------------------------- */

static bool begin_capture(trial *t, const operation *op)
{
    int at = op->stream % t->stream_count;
    trial_stream *stream = &t->streams[at];
    if (stream->handle == NULL || !trial_is_open(t, at) || t->may_be_lost) {
        return false;
    }
    trial_call call = {
        .kind = CALL_BEGIN_CAPTURE, .stream = stream->handle, .mode = op->amount % 3};
    int thread = trial_thread_of(t, at, op->thread);
    if (trial_call_device(t, thread, &call)) {
        trial_enter_capture(stream, ++t->last_capture, at, thread);
        stream->id = call.info.id;
        t->captures++;
    }
    return true;
}

static bool end_capture(trial *t, int at, trial_graph *graph)
{
    trial_stream *stream = &t->streams[at];
    if (!stream->captured) {
        return false;
    }
    trial_join_origin(t, at);
    trial_call call = {.kind = CALL_END_CAPTURE, .stream = stream->handle};
    bool is_whole = trial_call_device(t, stream->capturer, &call);
    trial_claim(t, TRIAL_RESULT, is_whole != stream->spoilt || stream->unsure || t->may_be_lost,
                "a capture %s", is_whole ? "is whole though it was spoilt" : "was spoilt");
    trial_leave_capture(t, at);
    t->captures--;
    trial_graph made = {call.graph, stream->capture_graph_pools, stream->recorded, stream->capture,
                        stream->page_uses};
    if (is_whole && graph->graph == NULL && !stream->unsure) {
        *graph = made;
    } else {
        made.graph = is_whole ? made.graph : NULL;
        drop_graph(t, &made);
    }
    return true;
}

static bool spoil_capture(trial *t, int at)
{
    trial_stream *stream = &t->streams[at];
    if (!stream->captured || t->may_be_lost || t->faults_stand) {
        return false;
    }
    trial_call call = {.kind = CALL_SPOIL, .stream = stream->handle};
    trial_call_device(t, stream->capturer, &call);
    for (int i = 0; i < t->stream_count; i++) {
        t->streams[i].spoilt |= t->streams[i].captured && t->streams[i].capture == stream->capture;
    }
    return true;
}

bool trial_capture_operation(trial *t, const operation *op)
{
    int stream = op->stream % t->stream_count;
    if (t->stopped) {
        return false;
    }
    switch (op->kind) {
    case OP_CAPTURE_BEGIN:
        return begin_capture(t, op);
    case OP_CAPTURE_END:
        stream = t->streams[stream].captured ? t->streams[stream].origin : stream;
        return end_capture(t, stream, &t->graphs[op->slot % TRIAL_GRAPHS]);
    default:
        return spoil_capture(t, stream);
    }
}

void trial_end_captures(trial *t)
{
    for (int i = 0; i < t->stream_count; i++) {
        trial_graph unwanted = {0};
        if (t->streams[i].origin == i && end_capture(t, i, &unwanted)) {
            drop_graph(t, &unwanted);
        }
    }
}

void trial_end_graphs(trial *t)
{
    for (int i = 0; i < TRIAL_GRAPHS; i++) {
        drop_graph(t, &t->graphs[i]);
    }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

bool trial_launch_graph(trial *t, const operation *op)
{
    const trial_graph *graph = &t->graphs[op->slot % TRIAL_GRAPHS];
    int stream = op->stream % t->stream_count;
    if (graph->graph == NULL || !trial_is_open(t, stream) || trial_graph_sleeps(t, graph) ||
        trial_lacks_mappings(t, 0) || !trial_lead_pages(t, &graph->page_uses, stream)) {
        return false;
    }
    for (int i = 0; i < TRIAL_ALL_GRAPH_POOLS; i++) {
        if ((graph->graph_pools & trial_bit(i)) != 0) {
            if (!trial_follow_graph_pool(t, i, stream)) {
                return false;
            }
            t->graph_pools[i].launches++;
        }
    }
    trial_call call = {
        .kind = CALL_LAUNCH_GRAPH,
        .stream = trial_handle(t, stream, false),
        .graph = graph->graph,
        .work = {.finish_ns = mend_sim_now_ns(t->sim) + trial_duration(t, op->amount)}};
    if (trial_call_device(t, trial_thread_of(t, stream, op->thread), &call)) {
        trial_note_pages(t, &graph->page_uses);
    }
    return true;
}

/* Work of another graph in memory of this one's, which the pool does not know, must be done. */
static bool others_are_done(trial *t, const trial_graph *graph, int graph_pool)
{
    bool are_done = true;
    for (int i = 0; i < TRIAL_GRAPHS && are_done; i++) {
        const trial_graph *other = &t->graphs[i];
        are_done = other == graph || other->graph == NULL ||
                   (other->graph_pools & trial_bit(graph_pool)) == 0 || trial_synchronize(t);
    }
    return are_done;
}

bool trial_destroy_graph(trial *t, const operation *op)
{
    trial_graph *graph = &t->graphs[op->slot % TRIAL_GRAPHS];
    bool is_needed = false; /* its memory, by a capture under way or another graph */
    for (int i = TRIAL_GRAPH_POOLS; i < TRIAL_ALL_GRAPH_POOLS && graph->graph != NULL; i++) {
        is_needed |= t->graph_pools[i].capture == graph->capture &&
                     (is_in_a_capture(t, i) || !others_are_done(t, graph, i));
    }
    if (graph->graph == NULL || is_needed) {
        return false;
    }
    drop_graph(t, graph);
    return true;
}
