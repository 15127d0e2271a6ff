/*
 * Blocks on the host in a trial. Some pools may take memory of the host: then each fourth block may
 * be there, and all blocks move to the host and back, by their sleep tags. Blocks there are used as
 * all others: their bytes are compared after each move, granules.c sees that no memory is in two
 * blocks, and the figures follow chunk by chunk what is where. The model keeps what moved, by the
 * report of the call.
 */
#include "tests/sim/host.h"

#include "mend/mend_host.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/sim/ranges.h"
#include "tests/sim/rations.h"

enum { TAGS = 3 }; /* as asleep.c has them */

bool trial_has_host(const trial *t)
{
    return t->config.host_percent != 0;
}

uint64_t trial_host_bytes(const trial *t)
{
    return mend_align_up(t->device_bytes * t->config.host_percent / 100, t->page_bytes);
}

/* The driver refuses before the pools' limits do. */
void trial_open_host(const trial *t, mend_sim_config *device)
{
    device->host_chunk_bytes = trial_has_host(t) ? trial_host_bytes(t) + t->page_bytes : 0;
}

bool trial_is_on_host(const trial *t, const trial_block *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    return trial_has_host(t) &&
           mend_get_block_info(t->pools[block->pool].pool, (const void *)(uintptr_t)block->address,
                               &info) == MEND_OK &&
           info.is_on_host != 0;
}

/* What is on the host is not shared; and what a group had there does not go back to it. */
bool trial_may_refuse_host(const trial *t, const trial_call *call)
{
    bool exports = call->kind == CALL_EXPORT || call->kind == CALL_EXPORT_BY_FABRIC;
    return (exports && call->result == MEND_ERROR_NOT_SUPPORTED && t->had_quiesce) ||
           (trial_has_host(t) &&
            ((exports && call->result == MEND_ERROR_NOT_SUPPORTED) ||
             (call->kind == CALL_GROUP_RESTORE && call->result == MEND_ERROR_INVALID_ARGUMENT)));
}

/* What moved is what the report says; after a failure, no more than there is. */
static void judge(trial *t, const trial_call *call)
{
    trial_pool *pool = &t->pools[call->pool];
    const mend_stats stats = trial_stats(t, call->pool);
    const mend_move_report *moved = &call->moved;
    const uint64_t to_host = stats.moved_to_host_bytes - pool->moved_to_host_bytes;
    const uint64_t to_device = stats.moved_to_device_bytes - pool->moved_to_device_bytes;
    const bool is_to_host = call->kind == CALL_MOVE_TO_HOST;
    trial_claim(t, TRIAL_MODEL, (is_to_host ? to_device : to_host) == 0,
                "blocks moved the other way");
    trial_claim(t, TRIAL_MODEL,
                call->result != MEND_OK ||
                    ((is_to_host ? to_host : to_device) == moved->moved_bytes &&
                     moved->copied_bytes <= moved->moved_bytes &&
                     moved->stayed_bytes ==
                         moved->shared_bytes + moved->pinned_bytes + moved->lacking_bytes),
                "the report of a move is not what happened");
    trial_claim(t, TRIAL_MODEL,
                call->result != MEND_OK || is_to_host || call->count > 0 ||
                    moved->stayed_bytes > 0 || stats.host_live_bytes == 0,
                "a move to the device leaves blocks on the host, and says that it did not");
    trial_claim(t, TRIAL_MODEL, stats.host_bytes <= trial_host_bytes(t),
                "the pool takes more memory of the host than it may");
    pool->moved_to_host_bytes = stats.moved_to_host_bytes;
    pool->moved_to_device_bytes = stats.moved_to_device_bytes;
}

/* No chunk is left on the host that there is room for, and addresses to copy to. */
static void judge_lack(trial *t, const trial_call *call)
{
    const mend_tree_node *at = mend_tree_first(&t->pools[call->pool].pool->heap.chunks.all);
    const bool knows_all = !t->disturbed || call->moved.moved_bytes == 0; /* for each chunk */
    const bool is_sure = trial_knows_memory(t) && knows_all && !trial_is_rationed(t) &&
                         !trial_any_was_exported(t, call->pool) && !trial_may_be_captured(t);
    uint64_t bytes = 0;
    for (; at != NULL; at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, memory.by_number);
        bytes = mend_max_u64(bytes, mend_chunk_is_far(chunk) ? chunk->size_bytes : 0);
    }
    trial_claim(t, TRIAL_REFUSED,
                !is_sure || call->moved.lacking_bytes == 0 ||
                    (t->config.address_devices != 0 && trial_largest_gap(t, call->pool) < bytes) ||
                    mend_min_u64(trial_room(t, call->pool), trial_room_for_chunks(t, call->pool)) <
                        bytes,
                "a move to the device lacks memory, and there is room for %llu bytes",
                (unsigned long long)bytes);
}

/* Another program checkpoints the process, and restores it. */
static void checkpoint(trial *t)
{
    const char *reason = "";
    mend_result result = mend_sim_checkpoint(t->sim, &reason);
    trial_claim(t, TRIAL_MODEL, result == MEND_OK || result == MEND_ERROR_OUT_OF_HOST_MEMORY,
                "a quiesced pool cannot be checkpointed: %s", reason);
    if (result == MEND_OK) {
        result = mend_sim_restore(t->sim);
        trial_claim(t, TRIAL_MODEL, result == MEND_OK, "a restore fails: %s",
                    mend_result_name(result));
    }
}

static bool quiesce(trial *t, const operation *op)
{
    trial_call call = {.kind = CALL_QUIESCE, .pool = op->slot % t->pool_count};
    t->had_sleep = true; /* it copies, and is no compaction */
    t->had_quiesce = true;
    trial_call_pool(t, op->thread % t->turns.count, &call);
    bool is_alone = t->pool_count == 1 && t->captures == 0 && !t->stopped && !t->may_be_lost;
    if (call.result == MEND_OK && is_alone && !call.faulty && t->neighbour == NULL) {
        checkpoint(t);
    }
    return call.result == MEND_OK;
}

/* The driver makes no memory of the host for a while, in spite of what the device says: that is a
 * lack of memory as any other, and no fault that excuses anything else. */
static void refuse(trial *t, const operation *op)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "create_on_host";
    fault.status = op->amount % 4 < 2 ? MEND_DRIVER_NOT_SUPPORTED : MEND_DRIVER_NOT_PERMITTED;
    fault.after_calls = op->amount / 8 % 4;
    fault.count = 1 + op->amount / 32;
    trial_claim(t, TRIAL_RESULT, mend_sim_fail(t->sim, &fault) == MEND_OK, "a fault");
}

bool trial_move_blocks(trial *t, const operation *op)
{
    if (op->kind == OP_QUIESCE) {
        return quiesce(t, op);
    }
    if (!trial_has_host(t)) {
        return false;
    }
    if (t->config.host_refuses != 0 && op->amount % 8 < 4) {
        refuse(t, op);
    }
    trial_call call = {.kind = op->kind == OP_TO_HOST ? CALL_MOVE_TO_HOST : CALL_MOVE_TO_DEVICE,
                       .pool = op->slot % t->pool_count,
                       .count = op->amount % 2,
                       .moved = MEND_MOVE_REPORT_INIT};
    call.rules[0].tag = 1 + op->size % TAGS;
    t->had_sleep = true; /* it copies, and is no compaction */
    trial_call_pool(t, op->thread % t->turns.count, &call);
    judge(t, &call);
    if (call.kind == CALL_MOVE_TO_DEVICE) {
        judge_lack(t, &call);
    }
    return call.result == MEND_OK;
}
