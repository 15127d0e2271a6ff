/* The streams and threads of the program, and their ends. */
#include "tests/sim/trial.h"
#include "tests/support/options.h"

static void add_stream(trial *t, trial_stream stream)
{
    t->streams[t->stream_count++] = stream;
}

/* One of the same kind. */
static bool make_stream(trial *t, const trial_stream *kind, mend_stream *stream)
{
    const mend_sim_stream_options *options =
        KIT_OPTIONS(mend_sim_stream_options, .device = kind->foreign, .is_blocking = kind->blocking,
                    .green = kind->green);
    mend_result result = mend_sim_stream_create(t->sim, options, stream);
    return trial_claim(t, TRIAL_RESULT, result == MEND_OK, "a stream: %s",
                       mend_result_name(result));
}

static trial_stream kind_of(const trial_config *config, uint32_t number)
{
    trial_stream kind = {.thread = ANY_THREAD, .created = true};
    kind.blocking = (config->blocking >> number & 1) != 0;
    if (!kind.blocking && (config->green >> number & 1) != 0) {
        kind.green = 1 + (int)number % MEND_SIM_MOST_GREEN;
    }
    if (!kind.blocking && kind.green == 0 && (config->foreign >> number & 1) != 0) {
        kind.foreign = 1 + (int)number % trial_other_devices(config);
    }
    return kind;
}

/* Moves of live blocks, and frees without a stream, are for work that a pool can wait for: it has
 * to know the other device. */
static bool introduce(trial *t, mend_stream stream)
{
    bool all = true;
    for (int i = 0; i < t->pool_count; i++) {
        mend_available room = MEND_AVAILABLE_INIT;
        all = all && mend_get_available(t->pools[i].pool, stream, &room) == MEND_OK;
    }
    return trial_claim(t, TRIAL_RESULT, all, "a stream of another device is not known");
}

int trial_other_devices(const trial_config *config)
{
    return config->foreign == 0 ? 0 : config->third && config->neighbour != 1 ? 2 : 1;
}

static bool open_devices(trial *t)
{
    mend_device_info info;
    bool is_open = t->device->device_open(t->device, 0, &info) == MEND_DRIVER_OK;
    t->context = info.context;
    for (int i = 0; is_open && i < trial_other_devices(&t->config); i++) {
        is_open = t->device->device_open(t->device, 1 + i, &info) == MEND_DRIVER_OK;
        t->other_contexts[i] = info.context;
    }
    return trial_claim(t, TRIAL_RESULT, is_open, "the device cannot be opened");
}

bool trial_open_streams(trial *t)
{
    const trial_config *config = &t->config;
    if (!open_devices(t)) {
        return false;
    }
    for (int i = 0; i < t->turns.count; i++) {
        trial_call_device(t, i, &(trial_call){.kind = CALL_ENTER});
    }
    for (uint32_t i = 0; i < config->streams && t->stream_count < TRIAL_STREAMS; i++) {
        trial_stream stream = kind_of(config, i);
        if (!make_stream(t, &stream, &stream.handle) ||
            (stream.foreign && !introduce(t, stream.handle))) {
            return false;
        }
        add_stream(t, stream);
    }
    if (config->legacy && t->stream_count < TRIAL_STREAMS) {
        add_stream(t, (trial_stream){.thread = ANY_THREAD});
    }
    for (int i = 0; config->thread_streams && i < t->turns.count; i++) {
        if (t->stream_count < TRIAL_STREAMS) {
            add_stream(
                t, (trial_stream){.handle = MEND_STREAM_PER_THREAD, .thread = i, .blocking = true});
        }
    }
    return trial_claim(t, TRIAL_RESULT, t->stream_count > 0, "a trial needs a stream");
}

void trial_close_streams(trial *t)
{
    for (int i = 0; i < t->turns.count; i++) {
        trial_call_device(t, i, &(trial_call){.kind = CALL_LEAVE});
    }
    t->device->device_close(t->device, 0);
    for (int i = 0; i < trial_other_devices(&t->config); i++) {
        t->device->device_close(t->device, 1 + i);
    }
}

/* A stream that can take over another one's blocks. */
static int find_heir(const trial *t, int leaving)
{
    for (int i = 1; i < t->stream_count; i++) {
        int at = (leaving + i) % t->stream_count;
        if (trial_is_open(t, at)) {
            return at;
        }
    }
    return NOBODY;
}

/* One block needs the stream no more. False when that cannot be brought about now. */
static bool block_leaves(trial *t, trial_block *block, int leaving, int heir, bool freeze)
{
    uint32_t bit = trial_bit(leaving);
    if (block->home == leaving && !trial_move_to(t, block, heir)) {
        return false;
    }
    if ((block->readers & bit) == 0) {
        block->declared &= ~bit;
        return true;
    }
    if ((block->declared & bit) != 0 && freeze) {
        block->frozen = true;
    } else if (!trial_order(t, leaving, block->home)) {
        return false;
    }
    block->readers &= ~bit;
    block->declared &= ~bit;
    return true;
}

static bool leave_stream(trial *t, int leaving, bool freeze)
{
    int heir = find_heir(t, leaving);
    if (heir == NOBODY || !trial_is_open(t, leaving)) {
        return false;
    }
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        if (t->blocks[i].live && !block_leaves(t, &t->blocks[i], leaving, heir, freeze)) {
            return false;
        }
    }
    return trial_graph_pools_leave_stream(t, leaving, heir) &&
           trial_imports_leave_stream(t, leaving, heir);
}

/* Both pools learn of it. False if one could not record its events. */
static bool forget(trial *t, int stream, int thread)
{
    bool all = true;
    for (int i = 0; i < t->pool_count; i++) {
        trial_call call = {
            .kind = CALL_FORGET, .pool = i, .stream = trial_handle(t, stream, false)};
        all = trial_call_pool(t, thread, &call) == MEND_OK && all;
    }
    t->streams[stream].is_known = !all;
    t->streams[stream].is_new = true;
    for (int i = 0; i < TRIAL_BLOCKS && all; i++) {
        t->blocks[i].noted &= ~trial_bit(stream);
    }
    return all;
}

/* Streams that were declared for a live block, captured, or taken by a graph pool are forgotten
 * before they end, so are those for which that failed before. */
static bool may_vanish(const trial *t, int stream)
{
    bool is_noted = t->streams[stream].capture != 0 || t->streams[stream].is_known;
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        is_noted |= t->blocks[i].live && (t->blocks[i].noted & trial_bit(stream)) != 0;
    }
    for (int i = 0; i < TRIAL_GRAPH_POOLS; i++) {
        const trial_graph_pool *graph_pool = &t->graph_pools[i];
        is_noted |=
            graph_pool->graph_pool != NULL && graph_pool->takes == t->streams[stream].handle;
    }
    return t->config.vanish && !is_noted;
}

bool trial_forget(trial *t, const operation *op)
{
    const int stream = op->stream % t->stream_count;
    forget(t, stream, trial_thread_of(t, stream, op->thread));
    return true;
}

bool trial_replace_stream(trial *t, const operation *op)
{
    int at = op->stream % t->stream_count;
    trial_stream *stream = &t->streams[at];
    if (!stream->created || t->may_be_lost || !leave_stream(t, at, op->amount & 2)) {
        return false;
    }
    bool vanishes = may_vanish(t, at) && (op->amount & 1);
    if (!vanishes && !forget(t, at, trial_thread_of(t, at, op->thread))) {
        return true; /* it lives on */
    }
    mend_stream former = stream->handle;
    bool before = op->amount & 4;
    if (before && !make_stream(t, stream, &stream->handle)) {
        return true;
    }
    mend_result result = mend_sim_stream_destroy(t->sim, former);
    trial_claim(t, TRIAL_RESULT, result == MEND_OK, "the end of a stream: %s",
                mend_result_name(result));
    if (!before) {
        make_stream(t, stream, &stream->handle);
    }
    stream->capture = 0;
    return true;
}

static int stream_of_thread(const trial *t, int thread)
{
    for (int i = 0; i < t->stream_count; i++) {
        if (t->streams[i].thread == thread) {
            return i;
        }
    }
    return NOBODY;
}

/* Which only this thread can end. */
static bool captures(const trial *t, int thread)
{
    bool does = false;
    for (int i = 0; i < t->stream_count; i++) {
        does |= t->streams[i].captured && t->streams[i].capturer == thread;
    }
    return does;
}

bool trial_replace_thread(trial *t, const operation *op)
{
    int thread = op->thread % t->turns.count;
    if (thread == 0 || trial_is_faulty(t) || captures(t, thread)) {
        return false;
    }
    int stream = stream_of_thread(t, thread);
    if (stream != NOBODY && !leave_stream(t, stream, op->amount & 2)) {
        return false;
    }
    bool vanishes = stream != NOBODY && may_vanish(t, stream) && (op->amount & 1);
    if (stream != NOBODY && !vanishes && !forget(t, stream, thread)) {
        return true;
    }
    trial_claim(t, TRIAL_RESULT, turns_replace(&t->turns, thread), "a thread cannot be started");
    trial_call_device(t, thread, &(trial_call){.kind = CALL_ENTER});
    return true;
}

bool trial_synchronize(trial *t)
{
    return t->captures == 0 && !t->stopped &&
           trial_call_device(t, 0, &(trial_call){.kind = CALL_SYNCHRONIZE});
}
