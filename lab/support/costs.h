/* Cost tables of the simulated device, read from files (docs/formats/replay.md). */
#ifndef MEND_LAB_SUPPORT_COSTS_H
#define MEND_LAB_SUPPORT_COSTS_H

#include "mend/mend_sim.h"

/* MEND_OK; MEND_ERROR_INVALID_ARGUMENT with file, line and reason; then *prices is untouched. */
mend_result mend_costs_read(const char *path, mend_sim_prices *prices);

#endif
