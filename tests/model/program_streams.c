/* The streams of the program: created, default and per-thread ones, and their ends. */
#include "tests/model/program_state.h"

#define STRANGE_BYTES (64 * MEND_KIB)

static void enter(program *p, int thread)
{
    program_call call = {.kind = CALL_ENTER};
    program_drive(p, thread, &call);
}

/* A stream of device 1. */
static bool create_strange(program *p)
{
    const mend_driver *driver = p->driver;
    mend_device_info info;
    bool is_open = driver->device_open(driver, 1, &info) == MEND_DRIVER_OK &&
                   driver->context_push(driver, info.context) == MEND_DRIVER_OK;
    bool is_made = is_open && driver->stream_create(driver, &p->strange) == MEND_DRIVER_OK;
    return program_claim(p, is_made && driver->context_pop(driver) == MEND_DRIVER_OK,
                         "there is no stream of device 1");
}

static void destroy_strange(program *p)
{
    p->driver->stream_destroy(p->driver, p->strange);
    p->driver->device_close(p->driver, 1);
}

static void add_stream(program *p, mend_stream handle, int thread, bool created)
{
    static const uint64_t speeds_ns[] = {4, 40, 400};
    uint64_t scale = p->config->prices_advance_clock ? 2000 : 1;
    p->streams[p->stream_count++] =
        (program_stream){.handle = handle,
                         .thread = thread,
                         .created = created,
                         .longest_ns = speeds_ns[program_below(p, 3)] * scale};
}

bool program_open_streams(program *p)
{
    mend_device_info info;
    if (p->driver->device_open(p->driver, 0, &info) != MEND_DRIVER_OK) {
        return program_claim(p, false, "device 0 cannot be opened");
    }
    p->context = info.context;
    for (int i = 0; i < p->turns.count; i++) {
        enter(p, i);
    }
    for (int i = 0; i < p->config->created_streams; i++) {
        mend_stream stream = NULL;
        mend_result result = mend_sim_stream_create(p->world.sim, &stream);
        program_claim(p, result == MEND_OK, "a stream: %s", mend_result_name(result));
        add_stream(p, stream, ANY_THREAD, true);
    }
    if (p->config->legacy_stream) {
        add_stream(p, NULL, ANY_THREAD, false);
    }
    for (int i = 0; i < p->config->threads; i++) {
        add_stream(p, MEND_STREAM_PER_THREAD, i, false);
    }
    return create_strange(p);
}

void program_close_streams(program *p)
{
    program_call leave = {.kind = CALL_LEAVE};
    for (int i = 0; i < p->turns.count; i++) {
        program_drive(p, i, &leave);
    }
    destroy_strange(p);
    p->driver->device_close(p->driver, 0);
}

int program_draw_stream(program *p)
{
    return (int)program_below(p, (uint64_t)p->stream_count);
}

static int draw_other(program *p, int stream)
{
    int step = 1 + (int)program_below(p, (uint64_t)p->stream_count - 1);
    return (stream + step) % p->stream_count;
}

/* The program's blocks need the stream no more: each has another home, and the streams that read it
 * there was waited for or is known to the pool. */
static void leave_stream(program *p, int leaving)
{
    uint32_t bit = UINT32_C(1) << leaving;
    program_graphs_leave(p, leaving, draw_other(p, leaving));
    for (int i = 0; i < p->block_count; i++) {
        program_block *block = &p->blocks[i];
        if (block->home == leaving) {
            program_move_to(p, block, draw_other(p, leaving));
        }
        if ((block->readers & bit) != 0 && (block->declared & bit) != 0 &&
            block->graph == NO_GRAPH && program_one_in(p, 2)) {
            block->frozen = true;
        } else if ((block->readers & bit) != 0) {
            program_order(p, leaving, block->home);
        }
        block->readers &= ~bit;
        block->declared &= ~bit;
    }
}

/* The pool waits for this stream too when some block is freed: it has to be there then. */
static bool is_told_of(const program *p, int stream)
{
    bool is_known = false;
    for (int i = 0; i < p->block_count; i++) {
        is_known |= (p->blocks[i].known_to & UINT32_C(1) << stream) != 0;
    }
    return is_known;
}

static void forget(program *p, int stream)
{
    for (int i = 0; i < p->block_count; i++) {
        p->blocks[i].known_to &= ~(UINT32_C(1) << stream);
    }
    if (p->config->sin == SIN_NO_FORGET) {
        return;
    }
    program_call call = {.kind = CALL_FORGET_STREAM, .stream = program_handle(p, stream)};
    program_must(p, program_thread_of(p, stream), &call);
}

/* Handles are given out again, the one given back last first: so the new stream has the old
 * handle, or another; or the old handle now means a stream of the other device. */
static void replace_created(program *p, program_stream *stream)
{
    mend_stream old = stream->handle;
    mend_sim *sim = p->world.sim;
    uint64_t draw = program_below(p, 3);
    if (draw == 0) {
        mend_sim_stream_create(sim, &stream->handle);
    } else if (draw == 1) {
        destroy_strange(p);
    }
    mend_result result = mend_sim_stream_destroy(sim, old);
    program_claim(p, result == MEND_OK, "the end of a stream: %s", mend_result_name(result));
    if (draw == 1) {
        create_strange(p);
    }
    if (draw != 0) {
        mend_sim_stream_create(sim, &stream->handle);
    }
}

void program_end_stream(program *p)
{
    int at = program_draw_stream(p);
    program_stream *stream = &p->streams[at];
    bool can_end = stream->created || stream->thread > 0;
    if (!p->config->streams_die || !can_end || program_is_capturing(p) || p->stream_count == 1) {
        return;
    }
    if (p->config->streams_vanish && is_told_of(p, at)) {
        return;
    }
    leave_stream(p, at);
    if (!p->config->streams_vanish) {
        forget(p, at);
    }
    if (stream->created) {
        replace_created(p, stream);
    } else {
        program_claim(p, turns_replace(&p->turns, stream->thread), "a thread cannot be started");
        enter(p, stream->thread);
    }
}

void program_forget_and_go_on(program *p)
{
    int at = program_draw_stream(p);
    if (p->config->streams_die && !p->streams[at].captured) {
        forget(p, at);
    }
}

static void launch_strange(program *p, void *pointer, mend_sim_work_kind kind)
{
    uint64_t scale = p->config->prices_advance_clock ? 2000 : 1;
    program_call call = {.kind = CALL_LAUNCH,
                         .stream = p->strange,
                         .work = {.kind = kind,
                                  .address = (uint64_t)(uintptr_t)pointer,
                                  .size_bytes = STRANGE_BYTES,
                                  .tag = p->last_tag,
                                  .finish_ns = mend_sim_now_ns(p->world.sim) + 40 * scale}};
    program_drive(p, 0, &call);
}

void program_use_strange_stream(program *p)
{
    program_call call = {.kind = CALL_ALLOC,
                         .stream = p->strange,
                         .size_bytes = STRANGE_BYTES,
                         .alignment_bytes = 512};
    if (p->stream_count == 1) {
        return; /* a program of one stream */
    }
    if (program_try(p, 0, &call) != MEND_OK) {
        program_claim(p, call.faulty || call.result == MEND_ERROR_OUT_OF_MEMORY,
                      "an allocation on a stream of another device: %s",
                      mend_result_name(call.result));
        return;
    }
    p->last_tag++;
    launch_strange(p, call.pointer, MEND_SIM_WORK_WRITE);
    launch_strange(p, call.pointer, MEND_SIM_WORK_VERIFY);
    call.kind = CALL_FREE;
    program_must(p, 0, &call);
    if (!p->config->streams_vanish && p->config->sin != SIN_NO_FORGET) {
        program_call forgetting = {.kind = CALL_FORGET_STREAM, .stream = p->strange};
        program_must(p, 0, &forgetting);
    }
}
