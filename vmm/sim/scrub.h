/* Scrubbing: the device cleans freed memory in the background before it gives it out again. A
 * creation that needs more memory than is clean waits; the price `scrub` sets how long. */
#ifndef MEND_SIM_SCRUB_H
#define MEND_SIM_SCRUB_H

#include "sim/state.h"

/* Free bytes of the device. */
uint64_t mend_sim_free_bytes(const mend_sim *sim, int device);

/* A device gets memory back. */
void mend_sim_scrub_given(mend_sim *sim, int device, uint64_t bytes);

/* Memory will be taken: bills the wait until this much is clean, or all of it if there is less. */
void mend_sim_scrub_for(mend_sim *sim, int device, uint64_t bytes);

#endif
