/* The history: a follower of each pool, who knows from the events alone what lives and is mapped.
 */
#include "tests/sim/trial.h"

/* A ring that loses events, or holds all of a few steps. */
static uint64_t capacity_of(const operation *op)
{
    return op->size % 4 == 0 ? 0 : (uint64_t)op->size << (op->amount % 6);
}

bool trial_set_history(trial *t, const operation *op)
{
    int number = op->slot % t->pool_count;
    trial_pool *pool = &t->pools[number];
    trial_call call = {.kind = CALL_HISTORY, .pool = number, .size_bytes = capacity_of(op)};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) != MEND_OK) {
        return true;
    }
    bool was_on = pool->history_capacity > 0;
    pool->history_capacity = call.size_bytes;
    pool->history_held = mend_min_u64(pool->history_held, call.size_bytes);
    if (pool->history_capacity > 0 && !was_on) {
        bool is_begun = mend_follower_begin(&pool->follower, pool->pool);
        trial_claim(t, TRIAL_MODEL, is_begun, "no host memory to follow a history");
    }
    return true;
}

void trial_judge_history(trial *t, int number)
{
    trial_pool *pool = &t->pools[number];
    if (pool->history_capacity == 0) {
        return;
    }
    char finding[MEND_FOLLOWER_FINDING_BYTES];
    uint64_t cursor = pool->follower.cursor;
    bool is_right = mend_follower_follow(&pool->follower, finding);
    trial_claim(t, TRIAL_MODEL, is_right, "pool %d: %s", number, finding);
    uint64_t happened = pool->follower.cursor - cursor;
    pool->history_held = mend_min_u64(pool->history_held + happened, pool->history_capacity);
}
