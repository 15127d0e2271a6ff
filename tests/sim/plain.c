/*
 * Blocks that are passed through to the driver: all of a world without virtual memory, or where the
 * pools are told so, or some that a thread wants so. All that holds of blocks and streams holds of
 * them. Calls that need chunks are refused with a specific error, and there are no captures.
 */
#include "pool/pool.h"
#include "tests/sim/quotas.h"

#define LLU(value) ((unsigned long long)(value))

/* The driver gives them in steps of this. */
#define STEP_BYTES (2 * MEND_MIB)

bool trial_passes_all(const trial *t)
{
    return t->config.plain != 0 && t->config.plain != PLAIN_BY_THREAD;
}

bool trial_is_plain(const trial_call *call)
{
    const trial *t = call->trial;
    return call->kind == CALL_ALLOC &&
           (trial_passes_all(t) || (t->config.plain == PLAIN_BY_THREAD && t->op->kind == OP_ALLOC &&
                                    t->op->slot % 4 == 1));
}

bool trial_refuses_plain(const trial_call *call)
{
    const trial *t = call->trial;
    return call->kind == CALL_ALLOC && t->config.plain == PLAIN_BY_THREAD && !t->config.hooks &&
           call->graph_pool == NULL && t->op->slot % 4 == 3;
}

static bool is_passed(const trial *t, const trial_call *call)
{
    mend_heap *heap = &t->pools[call->pool].pool->heap;
    const uint64_t address = (uint64_t)(uintptr_t)call->pointer;
    const uint64_t size_bytes = call->kind == CALL_PIN ? call->size_bytes : 0;
    const mend_span *span = mend_heap_block_at(heap, address);
    return span != NULL && span->chunk == NULL && address + size_bytes <= mend_span_end(span);
}

bool trial_needs_chunks(const trial_call *call)
{
    const trial *t = call->trial;
    switch (call->kind) {
    case CALL_ALLOC:
        return trial_is_plain(call) && (call->graph_pool != NULL || call->wanted != NULL ||
                                        call->alignment_bytes > MEND_GRANULE_BYTES ||
                                        (call->in_one_chunk && t->config.plain == PLAIN_BY_POOLS));
    case CALL_SLEEP:
    case CALL_RANGE_CREATE:
    case CALL_GRAPH_POOL_CREATE:
        return trial_passes_all(t);
    case CALL_EXPORT:
    case CALL_EXPORT_BY_FABRIC:
    case CALL_PIN:
        return t->config.plain != 0 && is_passed(t, call);
    default:
        return false;
    }
}

/* The limit and the device, of which each block takes whole steps. */
void trial_check_plain_refusal(trial *t, const trial_call *call)
{
    const mend_stats stats = trial_stats(t, call->pool);
    const uint64_t guard_bytes = t->pools[call->pool].pool->heap.config.guard_bytes;
    const uint64_t size_bytes = mend_align_up(call->size_bytes + guard_bytes, MEND_GRANULE_BYTES);
    const uint64_t device_bytes = trial_quota_room(t);
    const uint64_t limit_bytes = trial_limit_room(&stats);
    trial_claim(t, TRIAL_REFUSED,
                t->disturbed || size_bytes > limit_bytes ||
                    mend_align_up(size_bytes, STEP_BYTES) > device_bytes,
                "%llu bytes were refused, the limit has %llu, and the device %llu", LLU(size_bytes),
                LLU(limit_bytes), LLU(device_bytes));
}

/* The largest block of a pool that holds nothing. */
uint64_t trial_plain_largest(trial *t, int pool)
{
    const mend_stats stats = trial_stats(t, pool);
    return mend_min_u64(mend_align_down(trial_quota_room(t), STEP_BYTES),
                        mend_align_down(trial_limit_room(&stats), MEND_GRANULE_BYTES));
}
