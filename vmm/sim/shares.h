/* What a device exports to other simulated devices, and imports. */
#ifndef MEND_SIM_SHARES_H
#define MEND_SIM_SHARES_H

#include "sim/state.h"

void mend_sim_shares_init(mend_sim *sim);
void mend_sim_shares_clear(mend_sim *sim);

/* Releases memory whose exports were closed, and whose importers ended, since the last time. */
void mend_sim_shares_sweep(mend_sim *sim);

#endif
