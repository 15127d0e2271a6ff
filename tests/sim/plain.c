/*
 * Devices without virtual memory. All that holds of blocks, streams and graphs holds here; but free
 * memory of two allocations cannot be joined, and what needs virtual memory is refused by name.
 */
#include "pool/pool.h"
#include "tests/sim/rations.h"

#define LLU(value) ((unsigned long long)(value))

/* What a reservation loses of its allocation. */
#define LOST_BYTES (64 * MEND_KIB)

bool trial_needs_virtual_memory(const trial *t, const trial_call *call)
{
    return t->config.plain != 0 &&
           (call->kind == CALL_SLEEP || call->kind == CALL_WAKE || call->kind == CALL_EXPORT ||
            call->kind == CALL_RANGE_CREATE || (call->kind == CALL_ALLOC && call->in_one_chunk));
}

/* The driver gave what the pools count, and that is within their limits, unless a limit fell. */
void trial_judge_plain_ledger(trial *t)
{
    const mend_sim_ledger ledger = trial_ledger(t);
    uint64_t held_bytes = 0;
    for (int i = 0; i < t->pool_count; i++) {
        const mend_plain *plain = &t->pools[i].pool->plain;
        const uint64_t live_bytes = trial_stats(t, i).live_bytes;
        held_bytes += plain->range_bytes;
        trial_claim(t, TRIAL_LEDGER, live_bytes <= plain->range_bytes,
                    "blocks of pool %d have %llu bytes, and the driver gave %llu", i,
                    LLU(live_bytes), LLU(plain->range_bytes));
        trial_claim(t, TRIAL_LEDGER,
                    plain->range_bytes <= mend_max_u64(plain->limit_bytes, t->pools[i].plain_bytes),
                    "pool %d took more than its limit of %llu bytes", i, LLU(plain->limit_bytes));
        t->pools[i].plain_bytes = plain->range_bytes;
    }
    trial_claim(t, TRIAL_LEDGER, ledger.plain_bytes == held_bytes,
                "the driver gave %llu bytes, the pools count %llu", LLU(ledger.plain_bytes),
                LLU(held_bytes));
}

/* What one more allocation could hold. */
static uint64_t largest_allocation(trial *t, uint64_t limit_bytes, uint64_t held_bytes)
{
    const uint64_t under_limit = limit_bytes > held_bytes ? limit_bytes - held_bytes : 0;
    return mend_align_down(mend_min_u64(trial_ration_room(t), under_limit), MEND_PLAIN_STEP_BYTES);
}

/* A request may ask for a usual allocation beside its own; and an aligned one for more than it
 * needs. */
void trial_judge_plain_refusal(trial *t, const trial_call *call)
{
    const mend_plain *plain = &t->pools[call->pool].pool->plain;
    const uint64_t usual_bytes = plain->limit_bytes / 32 + MEND_PLAIN_STEP_BYTES;
    const uint64_t needed_bytes = mend_align_up(call->size_bytes, LOST_BYTES) + usual_bytes +
                                  2 * mend_max_u64(call->alignment_bytes, LOST_BYTES);
    const uint64_t largest_bytes = largest_allocation(t, plain->limit_bytes, plain->range_bytes);
    trial_claim(t, TRIAL_REFUSED, needed_bytes > largest_bytes,
                "%llu bytes were refused, and the driver would allocate %llu",
                LLU(call->size_bytes), LLU(largest_bytes));
}

/* The largest block of a pool that holds nothing it could not give back. */
uint64_t trial_plain_largest(trial *t, int pool)
{
    const uint64_t held_bytes = t->pools[pool].pool->plain.range_bytes;
    const uint64_t bytes =
        mend_align_down(trial_ration_room(t) + held_bytes, MEND_PLAIN_STEP_BYTES);
    return bytes > 0 ? bytes - LOST_BYTES : 0;
}
