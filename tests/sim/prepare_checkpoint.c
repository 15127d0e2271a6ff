/* A trial prepares a pool for a checkpoint of the process, which is then made where it can be. */
#include "mend/mend_sleep.h"
#include "tests/sim/trial.h"

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

bool trial_prepare_checkpoint(trial *t, const operation *op)
{
    trial_call call = {.kind = CALL_PREPARE_CHECKPOINT, .pool = op->slot % t->pool_count};
    t->had_sleep = true; /* it copies, and is no compaction */
    t->had_prepare_checkpoint = true;
    trial_call_pool(t, op->thread % t->turns.count, &call);
    bool is_alone = t->pool_count == 1 && t->captures == 0 && !t->stopped && !t->may_be_lost;
    if (call.result == MEND_OK && is_alone && !call.faulty && t->neighbour == NULL) {
        checkpoint(t);
    }
    return call.result == MEND_OK;
}
