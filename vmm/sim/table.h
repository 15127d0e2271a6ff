/* The table of a simulated device: every call of the driver, by what the files of this room do. */
#ifndef MEND_SIM_TABLE_H
#define MEND_SIM_TABLE_H

#include "sim/state.h"

void mend_sim_table_fill(mend_sim *sim);

#endif
