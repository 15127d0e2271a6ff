/* Pinned memory of the host: copies from and to it run in stream order, and the call returns before
 * they are done. Guarded by the device's lock. */
#ifndef MEND_SIM_HOST_H
#define MEND_SIM_HOST_H

#include "sim/state.h"

void mend_sim_host_init(mend_sim *sim);

/* Frees host memory. */
void mend_sim_host_clear(mend_sim *sim);

/* Whether the range is memory of host_alloc. */
bool mend_sim_host_is_pinned(const mend_sim *sim, const void *pointer, uint64_t size_bytes);

#endif
