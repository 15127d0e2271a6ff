/*
 * Captures and their graphs. Work recorded in a capture writes and reads blocks at every launch of
 * its graph, on whatever stream. Blocks that were there before stay live as long as the graph does.
 * Blocks allocated in the capture, in a group or without one, may be freed there: their memory
 * stays the graph's.
 */
#include "tests/model/program_state.h"

bool program_is_capturing(const program *p)
{
    return p->taken != NO_GRAPH;
}

static void record(program *p, const program_block *block, mend_sim_work_kind kind, int stream)
{
    uint64_t finish_ns =
        mend_sim_now_ns(p->world.sim) + program_below(p, p->streams[stream].longest_ns);
    program_call call = {.kind = CALL_LAUNCH,
                         .stream = p->streams[stream].handle,
                         .work = {.kind = kind,
                                  .address = block->address,
                                  .size_bytes = block->size_bytes,
                                  .tag = block->graph_tag,
                                  .finish_ns = finish_ns}};
    program_drive(p, program_thread_of(p, stream), &call);
}

static void record_use(program *p, program_block *block, int stream)
{
    block->graph = p->taken;
    block->graph_tag = ++p->last_tag;
    record(p, block, MEND_SIM_WORK_WRITE, stream);
    record(p, block, MEND_SIM_WORK_VERIFY, stream);
}

static void ask_group(program *p, program_graph *graph, program_call_kind kind, mend_stream stream)
{
    program_call call = {.kind = kind, .stream = stream, .group = graph->group};
    program_must(p, 0, &call);
    graph->group = call.group;
}

/* Allocates something on a created stream; -1 where that fails. */
static int draw_stream(program *p, program_call *call)
{
    int at = (int)program_below(p, (uint64_t)p->config->created_streams);
    *call = (program_call){.kind = CALL_ALLOC,
                           .stream = p->streams[at].handle,
                           .size_bytes = 512,
                           .alignment_bytes = 512};
    return program_try(p, 0, call) == MEND_OK ? at : -1;
}

/* A free tells the pool of the capture: it heeds those of streams it has to wait for. */
static void free_captured_now(program *p, program_call *call)
{
    call->kind = CALL_FREE;
    program_must(p, 0, call);
}

static void begin_group(program *p, program_graph *graph)
{
    graph->takes_all = program_one_in(p, 2);
    ask_group(p, graph, CALL_GROUP_CREATE, NULL);
    ask_group(p, graph, CALL_GROUP_BEGIN,
              graph->takes_all ? MEND_EVERY_STREAM : p->streams[graph->origin].handle);
}

static void begin(program *p, int slot)
{
    program_graph *graph = &p->graphs[slot];
    program_call first;
    program_call second;
    int origin = draw_stream(p, &first);
    int joined = origin >= 0 && program_one_in(p, 2) ? draw_stream(p, &second) : -1;
    if (origin < 0) {
        return;
    }
    *graph = (program_graph){.origin = origin, .joined = -1, .home = -1};
    if (p->config->groups && program_one_in(p, 2)) {
        begin_group(p, graph);
    }
    mend_stream stream = p->streams[origin].handle;
    mend_sim_capture_mode mode = (mend_sim_capture_mode)program_below(p, 3);
    mend_result result = mend_sim_begin_capture(p->world.sim, stream, mode);
    program_claim(p, result == MEND_OK, "a capture: %s", mend_result_name(result));
    p->taken = slot;
    p->streams[origin].captured = true;
    free_captured_now(p, &first);
    if (joined < 0) {
        return;
    }
    if (joined != origin) {
        mend_sim_stream_wait(p->world.sim, p->streams[joined].handle, stream);
        p->streams[joined].captured = true;
        graph->joined = joined;
    }
    free_captured_now(p, &second);
}

/* Blocks the graph's launches write are the program's as any from now on. */
static void let_blocks_go(program *p, int slot)
{
    for (int i = 0; i < p->block_count; i++) {
        if (p->blocks[i].graph == slot) {
            p->blocks[i].graph = NO_GRAPH;
        }
    }
}

static void drop(program *p, int slot)
{
    program_graph *graph = &p->graphs[slot];
    bool with_stream = graph->home >= 0 && !p->streams[graph->home].captured;
    mend_sim_graph_destroy(p->world.sim, graph->graph);
    if (graph->group != NULL) {
        mend_stream after =
            with_stream && !program_one_in(p, 4) ? program_handle(p, graph->home) : MEND_NO_STREAM;
        program_call call = {.kind = CALL_GROUP_RELEASE, .stream = after, .group = graph->group};
        program_must(p, with_stream ? program_thread_of(p, graph->home) : 0, &call);
    }
    let_blocks_go(p, slot);
    *graph = (program_graph){0};
}

/* Ends the capture; now and then it fails, since some of its work was not waited for. */
static void end(program *p)
{
    program_graph *graph = &p->graphs[p->taken];
    mend_sim *sim = p->world.sim;
    mend_stream origin = p->streams[graph->origin].handle;
    bool may_fail = graph->joined >= 0 && program_one_in(p, 4);
    if (graph->joined >= 0 && !may_fail) {
        mend_sim_stream_wait(sim, origin, p->streams[graph->joined].handle);
    }
    mend_result result = mend_sim_end_capture(sim, origin, &graph->graph);
    p->streams[graph->origin].captured = false;
    if (graph->joined >= 0) {
        p->streams[graph->joined].captured = false;
    }
    if (graph->group != NULL) {
        ask_group(p, graph, CALL_GROUP_END, NULL);
    }
    int slot = p->taken;
    p->taken = NO_GRAPH;
    if (result != MEND_OK) {
        program_claim(p, may_fail, "a capture was spoilt: %s", mend_result_name(result));
        drop(p, slot);
    }
}

void program_alloc_captured(program *p, int stream)
{
    program_block *block = program_alloc_on(p, stream);
    if (block != NULL) {
        block->of_group = true; /* its own, or that of the capture */
        record_use(p, block, stream);
    }
}

static void alloc_captured(program *p)
{
    const program_graph *graph = &p->graphs[p->taken];
    bool elsewhere = graph->joined >= 0 && program_one_in(p, 2);
    program_alloc_captured(p, elsewhere ? graph->joined : graph->origin);
}

static void free_captured(program *p)
{
    for (int i = p->block_count - 1; i >= 0; i--) {
        program_block *block = &p->blocks[i];
        if (block->graph == p->taken && block->of_group && p->streams[block->home].captured &&
            program_one_in(p, 2)) {
            record(p, block, MEND_SIM_WORK_VERIFY, block->home);
            program_free(p, i);
            return;
        }
    }
}

/* A block that was there before is written by the graph. */
static void adopt(program *p)
{
    if (p->block_count == 0) {
        return;
    }
    program_block *block = &p->blocks[program_below(p, (uint64_t)p->block_count)];
    if (block->graph == NO_GRAPH && !block->frozen && !p->streams[block->home].captured) {
        record_use(p, block, p->graphs[p->taken].origin);
    }
}

/* All the graph's blocks are ordered before the launch, and those of a group not used before need
 * no order: a group's memory is idle when the capture takes it. */
static bool order_blocks(program *p, int slot, int stream)
{
    for (int i = 0; i < p->block_count; i++) {
        if (p->blocks[i].graph == slot && program_is_captured(p, &p->blocks[i])) {
            return false;
        }
    }
    for (int i = 0; i < p->block_count; i++) {
        program_block *block = &p->blocks[i];
        if (block->graph != slot) {
            continue;
        }
        if (block->used || !block->of_group) {
            program_move_to(p, block, stream);
            program_join_readers(p, block, true);
        }
        block->home = stream;
        block->used = true;
        block->written = true;
        block->tag = block->graph_tag;
    }
    return true;
}

static void launch(program *p, int slot)
{
    program_graph *graph = &p->graphs[slot];
    int stream = program_draw_stream(p);
    bool possible =
        !p->streams[stream].captured && (graph->home < 0 || !p->streams[graph->home].captured);
    if (!possible || !order_blocks(p, slot, stream)) {
        return;
    }
    if (graph->home >= 0) {
        program_order(p, graph->home, stream);
    }
    graph->home = stream;
    program_call call = {.kind = CALL_LAUNCH_GRAPH,
                         .stream = program_handle(p, stream),
                         .graph = graph->graph,
                         .work = {.finish_ns = mend_sim_now_ns(p->world.sim) +
                                               program_below(p, p->streams[stream].longest_ns)}};
    program_drive(p, program_thread_of(p, stream), &call);
    p->outcome->graph_launches++;
}

bool program_graph_lets_free(const program *p, const program_block *block)
{
    if (block->graph == NO_GRAPH || !block->of_group || block->graph == p->taken) {
        return block->graph == NO_GRAPH || block->of_group;
    }
    int home = p->graphs[block->graph].home;
    return !program_is_captured(p, block) && (home < 0 || !p->streams[home].captured);
}

void program_graph_follows(program *p, int slot, int stream)
{
    program_graph *graph = &p->graphs[slot];
    if (graph->home < 0) {
        graph->home = stream;
    } else {
        program_order(p, stream, graph->home);
    }
}

void program_graphs_leave(program *p, int leaving, int other)
{
    for (int i = NO_GRAPH + 1; i < PROGRAM_GRAPHS; i++) {
        if (p->graphs[i].graph != NULL && p->graphs[i].home == leaving) {
            program_order(p, leaving, other);
            p->graphs[i].home = other;
        }
    }
}

void program_capture(program *p)
{
    if (!p->config->captures) {
        return;
    }
    if (program_is_capturing(p)) {
        uint64_t draw = program_below(p, 8);
        draw == 0 ? end(p) : draw < 4 ? alloc_captured(p) : draw < 6 ? free_captured(p) : adopt(p);
        return;
    }
    int slot = 1 + (int)program_below(p, PROGRAM_GRAPHS - 1);
    if (p->graphs[slot].graph == NULL) {
        begin(p, slot);
    } else if (program_one_in(p, 8)) {
        drop(p, slot);
    }
}

void program_launch_graph(program *p)
{
    int slot = 1 + (int)program_below(p, PROGRAM_GRAPHS - 1);
    if (p->graphs[slot].graph != NULL) {
        launch(p, slot);
    }
}

void program_end_capture(program *p)
{
    if (program_is_capturing(p)) {
        const program_graph *graph = &p->graphs[p->taken];
        mend_sim_end_capture(p->world.sim, p->streams[graph->origin].handle, NULL);
    }
}

void program_drop_graphs(program *p)
{
    if (program_is_capturing(p)) {
        end(p);
    }
    for (int slot = NO_GRAPH + 1; slot < PROGRAM_GRAPHS; slot++) {
        if (p->graphs[slot].graph != NULL) {
            drop(p, slot);
        }
    }
}
