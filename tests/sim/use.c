/* How a program uses its blocks: every use is ordered behind the former ones, or declared. Unmapped
 * and sleeping memory of the pool is not used. */
#include "tests/sim/ranges.h"

static trial_block *live_block(trial *t, const operation *op)
{
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    return block->live ? block : NULL;
}

static trial_block *usable_block(trial *t, const operation *op)
{
    trial_block *block = live_block(t, op);
    return block != NULL && !block->unmapped && !block->asleep ? block : NULL;
}

/* The home stream, or a reader, takes part in a capture or is out of use: it is left alone. */
bool trial_is_in_capture(const trial *t, const trial_block *block)
{
    bool captured = !trial_is_open(t, block->home);
    for (int i = 0; i < t->stream_count; i++) {
        captured |= (block->readers & trial_bit(i)) != 0 && !trial_is_open(t, i);
    }
    return captured;
}

/* Work does not touch memory behind the granules of a request, where a guard may lie. */
static bool launch(trial *t, trial_block *block, mend_sim_work_kind kind, int stream,
                   const operation *op)
{
    if (trial_is_recorded(t, stream) &&
        (t->has_spoilt || !trial_note_node(t, stream, block, kind == MEND_SIM_WORK_WRITE))) {
        return false;
    }
    trial_call call = {
        .kind = CALL_LAUNCH,
        .stream = trial_handle(t, stream, op->amount & 16),
        .work = {.kind = kind,
                 .address = block->address,
                 .size_bytes = mend_align_up(block->requested_bytes, MEND_GRANULE_BYTES),
                 .tag = block->tag,
                 .finish_ns = mend_sim_now_ns(t->sim) + trial_duration(t, op->amount)}};
    block->used = true;
    return trial_call_device(t, trial_thread_of(t, stream, op->thread), &call);
}

/* Where the pool knows every stream, it learns of a new one before that uses the block. */
static bool tell(trial *t, trial_block *block, int stream, uint8_t thread)
{
    const bool names_graph_pool = block->graph_pool >= 0 && block->graph_pool < TRIAL_GRAPH_POOLS &&
                                  block->pool == 0 && !t->config.hooks && thread % 2 == 0;
    trial_call call = {.kind = CALL_RECORD,
                       .pool = block->pool,
                       .graph_pool =
                           names_graph_pool ? t->graph_pools[block->graph_pool].graph_pool : NULL,
                       .stream = trial_handle(t, stream, false),
                       .pointer = (void *)(uintptr_t)block->address};
    if (block->range != 0) {
        call.kind = CALL_RECORD_PAGES;
        trial_name_page(t, block, &call);
    }
    call.expected = block->asleep ? MEND_ERROR_ASLEEP : MEND_OK;
    bool is_noted = trial_call_pool(t, trial_thread_of(t, stream, thread), &call) == MEND_OK;
    block->noted |= is_noted ? trial_bit(stream) : 0;
    return is_noted;
}

bool trial_join_readers(trial *t, trial_block *block, bool declared_too)
{
    for (int i = 0; i < t->stream_count; i++) {
        bool joins = declared_too || (block->declared & trial_bit(i)) == 0;
        if ((block->readers & trial_bit(i)) != 0 && joins) {
            if (!trial_order(t, i, block->home)) {
                return false;
            }
            block->readers &= ~trial_bit(i);
        }
    }
    return true;
}

/* Whether a graph that is being captured knows its writes there. */
static bool is_known_in_capture(const trial *t, const trial_block *block)
{
    return block->written && block->written_in == t->streams[block->home].capture;
}

/* A block of a graph pool: in a capture its work is recorded, outside it joins the graph pool's
 * chain. */
static bool use_in_graph_pool(trial *t, const operation *op, trial_block *block, bool writes)
{
    const trial_stream *home = &t->streams[block->home];
    trial_graph_pool *graph_pool = &t->graph_pools[block->graph_pool];
    if (trial_is_recorded(t, block->home)) {
        const bool is_known = is_known_in_capture(t, block);
        if (writes && !trial_join_readers(t, block, true)) {
            return false;
        }
        block->tag = writes ? ++t->last_tag : block->tag;
        block->written = writes || block->written;
        block->written_in = writes ? home->capture : block->written_in;
        mend_sim_work_kind kind = is_known ? MEND_SIM_WORK_VERIFY : MEND_SIM_WORK_TOUCH;
        return launch(t, block, writes ? MEND_SIM_WORK_WRITE : kind, block->home, op);
    }
    if (!trial_is_open(t, block->home) ||
        !trial_follow_graph_pool(t, block->graph_pool, block->home)) {
        return false;
    }
    bool is_known =
        block->written && block->written_in == 0 && block->launches == graph_pool->launches;
    mend_sim_work_kind kind = is_known ? MEND_SIM_WORK_VERIFY : MEND_SIM_WORK_TOUCH;
    if (writes) {
        kind = MEND_SIM_WORK_WRITE;
        block->tag = ++t->last_tag;
        block->written = true;
        block->written_in = 0;
        block->launches = graph_pool->launches;
    }
    return launch(t, block, kind, block->home, op);
}

bool trial_use(trial *t, const operation *op, bool writes)
{
    trial_block *block = usable_block(t, op);
    if (block == NULL || (writes && block->frozen)) {
        return false;
    }
    if (block->graph_pool != NOBODY) {
        return use_in_graph_pool(t, op, block, writes);
    }
    if (trial_is_in_capture(t, block) || (writes && !trial_join_readers(t, block, true))) {
        return false;
    }
    mend_sim_work_kind kind = block->written ? MEND_SIM_WORK_VERIFY : MEND_SIM_WORK_TOUCH;
    if (writes) {
        kind = MEND_SIM_WORK_WRITE;
        block->tag = ++t->last_tag;
        block->written = true;
    }
    return launch(t, block, kind, block->home, op);
}

/* Whether another stream may be put behind the use of a block. */
static bool may_go(const trial *t, const trial_block *block, int stream)
{
    return (block->graph_pool != NOBODY && trial_is_beside(t, block->home, stream)) ||
           (!trial_is_in_capture(t, block) && trial_is_open(t, stream));
}

bool trial_share(trial *t, const operation *op)
{
    trial_block *block = usable_block(t, op);
    int reader = op->stream % t->stream_count;
    if (block != NULL && block->range != 0 && trial_is_recorded(t, reader)) {
        return trial_record_page(t, op, block, reader);
    }
    if (block == NULL || reader == block->home || !may_go(t, block, reader) ||
        (block->graph_pool != NOBODY && !trial_is_beside(t, block->home, reader))) {
        return false;
    }
    int how = op->amount % 3;
    uint32_t declared = block->declared & ~trial_bit(reader);
    if (!trial_order(t, block->home, reader)) {
        return false;
    }
    if (how == 0) {
        if (!tell(t, block, reader, op->thread)) {
            return true;
        }
        declared |= trial_bit(reader);
    }
    block->declared = declared;
    block->readers |= trial_bit(reader);
    const bool is_known =
        block->graph_pool == NOBODY ? block->written : is_known_in_capture(t, block);
    launch(t, block, is_known ? MEND_SIM_WORK_VERIFY : MEND_SIM_WORK_TOUCH, reader, op);
    if (how == 1 && tell(t, block, reader, op->thread)) {
        block->declared |= trial_bit(reader);
    }
    return true;
}

bool trial_move_to(trial *t, trial_block *block, int stream)
{
    if (!trial_order(t, block->home, stream)) {
        return false;
    }
    block->home = stream;
    block->readers &= ~trial_bit(stream);
    return true;
}

bool trial_move(trial *t, const operation *op)
{
    trial_block *block = live_block(t, op);
    int stream = op->stream % t->stream_count;
    if (block == NULL || stream == block->home || !may_go(t, block, stream)) {
        return false;
    }
    return trial_move_to(t, block, stream);
}

/* Idempotent, and of streams that never use the block too. */
bool trial_record(trial *t, const operation *op)
{
    trial_block *block = live_block(t, op);
    int stream = op->stream % t->stream_count;
    if (block == NULL || (block->range != 0 && t->streams[stream].captured)) {
        return false;
    }
    if (tell(t, block, stream, op->thread) && (block->readers & trial_bit(stream)) != 0) {
        block->declared |= trial_bit(stream);
    }
    return true;
}
