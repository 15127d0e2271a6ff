/* The table of a simulated device: every driver call, made of the functions of this room. */
#ifndef MEND_SIM_TABLE_H
#define MEND_SIM_TABLE_H

#include "sim/state.h"

void mend_sim_table_fill(mend_sim *sim);

#endif
