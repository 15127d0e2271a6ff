/* The bytes at the addresses of a simulated device. Does nothing if the device keeps no content. */
#ifndef MEND_SIM_CONTENT_H
#define MEND_SIM_CONTENT_H

#include "sim/state.h"

mend_status mend_sim_content_open(mend_sim *sim);
void mend_sim_content_close(mend_sim *sim);
bool mend_sim_content_take(mend_sim *sim, mend_sim_chunk *chunk);
void mend_sim_content_give(mend_sim *sim, const mend_sim_chunk *chunk);
bool mend_sim_content_map(mend_sim *sim, const mend_sim_mapping *mapping);
bool mend_sim_content_unmap(mend_sim *sim, uint64_t address, uint64_t size_bytes);
bool mend_sim_content_allow(mend_sim *sim, uint64_t address, uint64_t size_bytes);

/* Runs an item that was judged. */
void mend_sim_content_run(mend_sim *sim, const mend_sim_item *item);

#endif
