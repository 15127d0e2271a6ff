/* The observer of calls is notified when calls of the table begin and end. */
#ifndef MEND_SIM_WATCH_H
#define MEND_SIM_WATCH_H

#include "sim/state.h"

/* Notifies the observer that a call begins; returns who is to be notified of its end. The caller
 * does not hold the lock. */
mend_sim_watch mend_sim_watch_begin(mend_sim *sim, mend_driver_call call);
void mend_sim_watch_end(const mend_sim_watch *watch, mend_driver_call call);

#endif
