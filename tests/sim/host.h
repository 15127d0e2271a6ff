/* Blocks on the host in a trial: see host.c. */
#ifndef MEND_TESTS_SIM_HOST_H
#define MEND_TESTS_SIM_HOST_H

#include "tests/sim/trial.h"

/* What the pools, and the device, are told. */
void trial_open_host(const trial *t, mend_sim_config *device);
uint64_t trial_host_bytes(const trial *t);

static inline bool trial_moves(const trial_call *call)
{
    return call->kind == CALL_MOVE_TO_HOST || call->kind == CALL_MOVE_TO_DEVICE ||
           call->kind == CALL_QUIESCE;
}

/* Whether a block, or a part of it, is there. */
bool trial_is_on_host(const trial *t, const trial_block *block);

/* Whether a call could not do what it was asked for because of that. */
bool trial_may_refuse_host(const trial *t, const trial_call *call);

/* Whether a pool has memory of the host: then the driver creates more than the device holds. */
bool trial_has_host(const trial *t);

#endif
