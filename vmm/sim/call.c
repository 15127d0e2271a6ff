/* What every call of the table does first and last. */
#include "sim/faults.h"
#include "sim/shares.h"

#include <assert.h>
mend_status mend_sim_call_begin(mend_sim *sim, mend_driver_call call, uint64_t size_bytes)
{
    assert(call < MEND_DRIVER_CALL_COUNT);
    mend_mutex_lock(&sim->mutex);
    mend_sim_shares_sweep(sim);
    sim->call = call;
    sim->bill_row = (int)call;
    sim->bill_bytes = size_bytes;
    sim->bill_mappings = 0;
    sim->bill_scrub_ns = 0;
    bool can_fail = mend_sim_call_can_fail(call);
    sim->fallible_calls += can_fail;
    mend_status status = mend_sim_out_of_order(sim, call);
    if (status == MEND_DRIVER_OK && sim->checkpointed) {
        status = mend_sim_refuse(sim, MEND_DRIVER_NOT_PERMITTED,
                                 "%s: the process is checkpointed, so it cannot call",
                                 mend_driver_call_name(call));
    }
    if (status == MEND_DRIVER_OK && can_fail) {
        status = mend_sim_fault_answer(sim, call, size_bytes);
    }
    return status;
}

mend_status mend_sim_call_end(mend_sim *sim, mend_status status)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(sim->call < MEND_DRIVER_CALL_COUNT);
    bool not_ready_yet = status == MEND_DRIVER_NOT_READY && sim->call == MEND_CALL_event_query;
    mend_sim_charge(sim, status == MEND_DRIVER_OK || not_ready_yet);
    mend_mutex_unlock(&sim->mutex);
    return status;
}
