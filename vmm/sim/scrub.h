/* Scrubbing: memory that was given back is cleaned in the background before somebody else has it. A
 * creation that needs more than is clean waits, which `scrub` of the prices puts a price on. */
#ifndef MEND_SIM_SCRUB_H
#define MEND_SIM_SCRUB_H

#include "sim/state.h"

/* Where its price stands among those of calls: it is none. */
enum { MEND_CALL_scrub = MEND_DRIVER_CALL_COUNT };

/* What the device has free. */
uint64_t mend_sim_free_bytes(const mend_sim *sim, int device);

/* Memory comes back to a device. */
void mend_sim_scrub_given(mend_sim *sim, int device, uint64_t bytes);

/* Memory is to be taken: bills the wait until so much is clean, or until all is where there is not
 * enough. */
void mend_sim_scrub_for(mend_sim *sim, int device, uint64_t bytes);

#endif
