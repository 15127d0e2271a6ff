/* Faults: calls that fail because a test wants them to. */
#ifndef MEND_SIM_FAULTS_H
#define MEND_SIM_FAULTS_H

#include "sim/state.h"

/* The answer of the first fault that matches; OK: no fault matches. */
mend_status mend_sim_fault_answer(mend_sim *sim, mend_driver_call call, uint64_t size_bytes);

/* The same of the faults of "create_on_host", for a call of create that no other fault matched. */
mend_status mend_sim_fault_answer_on_host(mend_sim *sim, uint64_t size_bytes);
bool mend_sim_call_can_fail(mend_driver_call call);

/* Why calls of this kind fail: the device is stopped or broken. OK: they work. */
mend_status mend_sim_out_of_order(const mend_sim *sim, mend_driver_call call);

/* A device got memory back: ends the faults that last until then. */
void mend_sim_faults_released(mend_sim *sim);
void mend_sim_faults_drop_all(mend_sim *sim);

/* The name of a call's table member ("set_access"). */
const char *mend_sim_call_member(mend_driver_call call);

#endif
