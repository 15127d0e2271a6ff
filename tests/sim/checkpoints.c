/* The calls about graph pools, and checkpoints: the pool lists the blocks of the model, and a
 * restoration brings exactly these back. A block that was not live until then has unknown
 * contents. */
#include <string.h>

#include "mend/mend_frameworks.h"
#include "tests/sim/asleep.h"

#define LLU(value) ((unsigned long long)(value))

/* An allocation or a free that names its graph pool. */
mend_result trial_call_in_graph_pool(trial_call *call, mend_pool *pool)
{
    if (call->kind == CALL_FREE) {
        return mend_graph_pool_free(call->graph_pool, call->pointer, call->stream);
    }
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.graph_pool = call->graph_pool;
    options.alignment_bytes = call->wanted != NULL ? 0 : call->alignment_bytes;
    options.address = call->wanted;
    options.in_one_chunk = call->in_one_chunk;
    options.tag = call->size_bytes;
    return mend_alloc_with(pool, call->size_bytes, call->stream, &options, &call->pointer);
}

mend_result trial_call_record(const trial_call *call, mend_pool *pool)
{
    return call->graph_pool != NULL
               ? mend_graph_pool_record_stream(call->graph_pool, call->pointer, call->stream)
               : mend_record_stream(pool, call->pointer, call->stream);
}

static size_t live_in(const trial *t, int graph_pool)
{
    size_t count = 0;
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        count += t->blocks[i].live && t->blocks[i].graph_pool == graph_pool;
    }
    return count;
}

static mend_result list(trial *t, int graph_pool, int thread, mend_graph_pool_block *blocks,
                        size_t *count)
{
    trial_call call = {.kind = CALL_GRAPH_POOL_LIST,
                       .graph_pool = t->graph_pools[graph_pool].graph_pool,
                       .blocks = blocks};
    mend_result result = trial_call_pool(t, thread, &call);
    if (result == MEND_OK) {
        const void *before = NULL;
        bool is_true = call.count == live_in(t, graph_pool);
        for (size_t i = 0; i < call.count && is_true; i++) { /* the graph pool's, by address */
            const mend_graph_pool_block *listed = &call.blocks[i];
            const uint64_t address = (uint64_t)(uintptr_t)listed->pointer;
            const trial_block *block = trial_block_at(t, 0, address);
            is_true = listed->pointer > before && block != NULL && block->address == address &&
                      block->graph_pool == graph_pool &&
                      block->requested_bytes == listed->size_bytes &&
                      (listed->tag == 0 || listed->tag == listed->size_bytes) &&
                      block->allocated_on == listed->stream;
            before = listed->pointer;
        }
        trial_claim(t, TRIAL_MODEL, is_true,
                    "graph pool %d lists %llu blocks, which are not its %llu", graph_pool,
                    LLU(call.count), LLU(live_in(t, graph_pool)));
        *count = call.count;
    }
    return result;
}

bool trial_checkpoint_graph_pool(trial *t, const operation *op)
{
    int number = op->slot % TRIAL_GRAPH_POOLS;
    trial_checkpoint *checkpoint = &t->checkpoints[number];
    if (t->graph_pools[number].graph_pool == NULL) {
        return false;
    }
    checkpoint->is_taken = list(t, number, op->thread % t->turns.count, checkpoint->blocks,
                                &checkpoint->count) == MEND_OK;
    return true;
}

/* The number of the stream, if it is one that every thread may name. */
static int stream_of(const trial *t, mend_stream handle)
{
    for (int i = 0; i < t->stream_count; i++) {
        const trial_stream *stream = &t->streams[i];
        if (stream->handle == handle && stream->thread == ANY_THREAD) {
            return i;
        }
    }
    return NOBODY;
}

/* Whether the model can follow: there are streams and slots for all blocks. */
static bool can_restore(trial *t, int number)
{
    const trial_checkpoint *checkpoint = &t->checkpoints[number];
    bool can = checkpoint->is_taken && !t->may_be_lost && !t->config.hooks;
    size_t slots = live_in(t, number);
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        slots += !t->blocks[i].live;
    }
    for (size_t i = 0; i < checkpoint->count && can; i++) {
        int stream = stream_of(t, checkpoint->blocks[i].stream);
        can = stream != NOBODY && trial_is_open(t, stream);
    }
    return can && slots >= checkpoint->count;
}

static bool is_listed(const trial_checkpoint *checkpoint, const trial_block *block)
{
    for (size_t i = 0; i < checkpoint->count; i++) {
        const mend_graph_pool_block *listed = &checkpoint->blocks[i];
        if ((uint64_t)(uintptr_t)listed->pointer == block->address &&
            listed->size_bytes == block->requested_bytes && listed->stream == block->allocated_on) {
            return true;
        }
    }
    return false;
}

/* The model's side: frees come first. */
static void follow(trial *t, int number)
{
    const trial_checkpoint *checkpoint = &t->checkpoints[number];
    TRIAL_EACH_BLOCK(trial_block, block, t) {
        if (block->live && block->graph_pool == number && !is_listed(checkpoint, block)) {
            trial_end_block(t, block);
        }
    }
    for (size_t i = 0; i < checkpoint->count; i++) {
        const mend_graph_pool_block *listed = &checkpoint->blocks[i];
        if (trial_block_at(t, 0, (uint64_t)(uintptr_t)listed->pointer) == NULL) {
            trial_block *block = t->blocks;
            while (block->live) {
                block++;
            }
            uint64_t address = (uint64_t)(uintptr_t)listed->pointer;
            *block = (trial_block){.live = true,
                                   .address = address,
                                   .size_bytes = mend_align_up(listed->size_bytes, 512),
                                   .requested_bytes = listed->size_bytes,
                                   .allocated_on = listed->stream,
                                   .home = stream_of(t, listed->stream),
                                   .used = true,
                                   .graph_pool = number,
                                   .own_tag = listed->tag,
                                   .zone = trial_zone_at(t, 0, address),
                                   .scope = trial_scope_at(t, 0, address)};
            trial_expect_stack(t, block, 0);
            trial_count_alloc(t, block);
        }
    }
}

/* Lists that no graph pool can be restored from. Their targets stay as they are. */
static void refuse_lists(trial *t, mend_graph_pool *graph_pool, const trial_checkpoint *checkpoint)
{
    mend_graph_pool_block blocks[TRIAL_BLOCKS];
    for (int mistake = 0; mistake < 5 && checkpoint->count > 0; mistake++) {
        memcpy(blocks, checkpoint->blocks, sizeof(blocks));
        mend_graph_pool_block *first = &blocks[0];
        size_t count = checkpoint->count;
        if (mistake == 0) {
            first->size_bytes = 0;
        } else if (mistake == 1) {
            first->pointer = (char *)first->pointer + 1;
        } else if (mistake == 2) {
            first->stream = MEND_EVERY_STREAM;
        } else if (mistake == 3) {
            first->pointer = t; /* no memory of the pool */
        } else if (count < TRIAL_BLOCKS) {
            blocks[count++] = *first; /* twice */
        } else {
            break;
        }
        trial_expect(
            t, "a list that is wrong", MEND_ERROR_INVALID_ARGUMENT,
            mend_graph_pool_restore(graph_pool, blocks, sizeof(mend_graph_pool_block), count));
    }
}

bool trial_restore_graph_pool(trial *t, const operation *op)
{
    int number = op->slot % TRIAL_GRAPH_POOLS;
    int thread = op->thread % t->turns.count;
    trial_checkpoint *checkpoint = &t->checkpoints[number];
    mend_graph_pool_block now[TRIAL_BLOCKS];
    size_t count = 0;
    if (t->graph_pools[number].graph_pool == NULL || !can_restore(t, number)) {
        return false;
    }
    if (!trial_is_faulty(t) && !trial_sleeps(t, 0)) {
        refuse_lists(t, t->graph_pools[number].graph_pool, checkpoint);
    }
    trial_call call = {.kind = CALL_GRAPH_POOL_RESTORE,
                       .graph_pool = t->graph_pools[number].graph_pool,
                       .blocks = checkpoint->blocks,
                       .count = checkpoint->count};
    if (trial_call_pool(t, thread, &call) == MEND_OK) {
        follow(t, number);
    }
    return list(t, number, thread, now, &count) == MEND_OK || t->may_be_lost;
}
