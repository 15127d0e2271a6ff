/* What a device exports to other simulated devices, and imports. */
#ifndef MEND_SIM_SHARES_H
#define MEND_SIM_SHARES_H

#include "sim/state.h"

void mend_sim_shares_init(mend_sim *sim);
void mend_sim_shares_clear(mend_sim *sim);

/* Releases memory whose exports were closed, and whose importers ended, since the last time. */
void mend_sim_shares_sweep(mend_sim *sim);

mend_status mend_sim_export(mend_sim *sim, mend_chunk_handle handle, int share_type, void *out);
mend_status mend_sim_import(mend_sim *sim, const void *shared, int share_type,
                            mend_chunk_handle *handle);

#endif
