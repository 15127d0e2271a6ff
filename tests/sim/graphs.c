/* Groups, captures and graphs. All use of a group's memory is in one chain: launches of its
 * graphs, and work outside captures, each waits for the one before. */
#include "tests/sim/asleep.h"
#include "tests/sim/ranges.h"

int trial_group_taking(const trial *t, mend_stream stream)
{
    int taking = NOBODY;
    bool is_legacy = stream == NULL || stream == MEND_STREAM_LEGACY;
    for (int i = 0; i < TRIAL_GROUPS; i++) {
        const trial_group *group = &t->groups[i];
        bool takes = group->takes == MEND_EVERY_STREAM || group->takes == stream ||
                     (is_legacy && (group->takes == NULL || group->takes == MEND_STREAM_LEGACY));
        bool is_later = taking == NOBODY || group->begun_at > t->groups[taking].begun_at;
        if (group->group != NULL && group->begun && takes && is_later) {
            taking = i;
        }
    }
    return taking;
}

bool trial_follow_group(trial *t, int group, int stream)
{
    int *last = &t->groups[group].last_stream;
    if (*last != NOBODY && !trial_order(t, *last, stream)) {
        return false;
    }
    *last = stream;
    return true;
}

bool trial_groups_leave_stream(trial *t, int stream, int heir)
{
    for (int i = 0; i < TRIAL_ALL_GROUPS; i++) {
        if (trial_group_is_there(&t->groups[i]) && t->groups[i].last_stream == stream &&
            !trial_follow_group(t, i, heir)) {
            return false;
        }
    }
    return true;
}

static void leave_group(trial *t, int number, int home);

static bool is_in_a_capture(const trial *t, int group)
{
    bool is_in = false;
    for (int i = 0; i < t->stream_count; i++) {
        is_in |= t->streams[i].captured && (t->streams[i].capture_groups & trial_bit(group)) != 0;
    }
    return is_in;
}

/* Groups of captures end with the graph. */
static void drop_graph(trial *t, trial_graph *graph)
{
    trial_graph gone = *graph;
    *graph = (trial_graph){0};
    mend_sim_graph_destroy(t->sim, gone.graph);
    for (int i = TRIAL_GROUPS; i < TRIAL_ALL_GROUPS; i++) {
        bool is_its_own = t->groups[i].capture != 0 && t->groups[i].capture == gone.capture;
        if (is_its_own) {
            leave_group(t, i, t->groups[i].last_stream);
        }
    }
}

int trial_capture_group(trial *t, int stream)
{
    uint64_t capture = t->streams[stream].capture;
    int unused = NOBODY;
    for (int i = TRIAL_GROUPS; i < TRIAL_ALL_GROUPS; i++) {
        if (t->groups[i].capture == capture) {
            return i;
        }
        unused = t->groups[i].capture == 0 ? i : unused;
    }
    t->groups[unused] = (trial_group){.capture = capture, .last_stream = NOBODY};
    return unused;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static bool create_group(trial *t, const operation *op)
{
    trial_group *group = &t->groups[op->slot % TRIAL_GROUPS];
    if (group->group != NULL) {
        return false;
    }
    trial_call call = {.kind = CALL_GROUP_CREATE};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        *group = (trial_group){.group = call.group, .last_stream = NOBODY};
    }
    return true;
}

static bool begin_group(trial *t, const operation *op)
{
    trial_group *group = &t->groups[op->slot % TRIAL_GROUPS];
    if (group->group == NULL || group->begun) {
        return false;
    }
    int stream = op->stream % t->stream_count;
    trial_call call = {.kind = CALL_GROUP_BEGIN,
                       .group = group->group,
                       .stream = (op->amount & 1) ? MEND_EVERY_STREAM
                                                  : trial_handle(t, stream, op->amount & 2)};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        group->begun = true;
        group->begun_at = ++t->last_begin;
        group->takes = call.stream;
    }
    return true;
}

static bool end_group(trial *t, trial_group *group, int thread)
{
    if (group->group == NULL || !group->begun) {
        return false;
    }
    trial_call call = {.kind = CALL_GROUP_END, .group = group->group};
    if (trial_call_pool(t, thread, &call) == MEND_OK) {
        group->begun = false;
    }
    return true;
}

/* Its graphs go, and its live blocks are ordinary ones, whose use went before on `home`. */
static void leave_group(trial *t, int number, int home)
{
    for (int i = 0; i < TRIAL_GRAPHS; i++) {
        if (t->graphs[i].graph != NULL && (t->graphs[i].groups & trial_bit(number)) != 0) {
            drop_graph(t, &t->graphs[i]);
        }
    }
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        trial_block *block = &t->blocks[i];
        if (block->live && block->group == number) {
            block->group = NOBODY;
            block->written = false;
            block->home = home != NOBODY ? home : block->home;
        }
    }
    t->groups[number] = (trial_group){0};
    if (number < TRIAL_GROUPS) {
        t->checkpoints[number].is_taken = false;
    }
}

static bool release_group(trial *t, const operation *op)
{
    int number = op->slot % TRIAL_GROUPS;
    trial_group *group = &t->groups[number];
    if (group->group == NULL || group->begun || is_in_a_capture(t, number)) {
        return false;
    }
    int stream = op->stream % t->stream_count;
    bool on_none = op->amount & 1;
    int last = group->last_stream;
    if (!on_none && (!trial_is_open(t, stream) || !trial_follow_group(t, number, stream))) {
        return false;
    }
    trial_call call = {.kind = CALL_GROUP_RELEASE,
                       .group = group->group,
                       .stream = on_none ? MEND_NO_STREAM : trial_handle(t, stream, false)};
    if (trial_call_pool(t, trial_thread_of(t, stream, op->thread), &call) == MEND_OK) {
        leave_group(t, number, on_none ? last : stream);
    }
    return true;
}

/* A group is begun or ended once. */
static void repeat(trial *t, const trial_group *group)
{
    const mend_stream stream = trial_handle(t, 0, false);
    if (group->group != NULL && !trial_is_faulty(t)) {
        trial_expect(t, "a group begun, or ended, twice", MEND_ERROR_INVALID_ARGUMENT,
                     group->begun ? mend_group_begin(group->group, stream)
                                  : mend_group_end(group->group));
    }
}

bool trial_group_operation(trial *t, const operation *op)
{
    repeat(t, &t->groups[op->slot % TRIAL_GROUPS]);
    switch (op->kind) {
    case OP_GROUP_CREATE:
        return create_group(t, op);
    case OP_GROUP_BEGIN:
        return begin_group(t, op);
    case OP_GROUP_END:
        return end_group(t, &t->groups[op->slot % TRIAL_GROUPS], op->thread % t->turns.count);
    default:
        return release_group(t, op);
    }
}

void trial_end_groups(trial *t)
{
    for (int i = 0; i < TRIAL_GROUPS; i++) {
        end_group(t, &t->groups[i], 0);
        release_group(t, &(operation){.slot = (uint8_t)i, .amount = 1});
    }
}

/* ---- captures -------------------------------------------------------------------------------- */

static bool begin_capture(trial *t, const operation *op)
{
    if (t->config.plain != 0) { /* blocks that are passed through are not for graphs */
        return false;
    }
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
    trial_graph made = {call.graph, stream->capture_groups, stream->recorded, stream->capture,
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
    for (int i = 0; i < TRIAL_ALL_GROUPS; i++) {
        if ((graph->groups & trial_bit(i)) != 0) {
            if (!trial_follow_group(t, i, stream)) {
                return false;
            }
            t->groups[i].launches++;
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

bool trial_destroy_graph(trial *t, const operation *op)
{
    trial_graph *graph = &t->graphs[op->slot % TRIAL_GRAPHS];
    bool is_needed = false; /* its memory, by a capture under way */
    for (int i = TRIAL_GROUPS; i < TRIAL_ALL_GROUPS; i++) {
        is_needed |= t->groups[i].capture == graph->capture && is_in_a_capture(t, i);
    }
    if (graph->graph == NULL || is_needed) {
        return false;
    }
    drop_graph(t, graph);
    return true;
}
