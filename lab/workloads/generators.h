/* The generators of the built-in workloads. `parameters` are the values in the order of the
 * workload's table. */
#ifndef MEND_LAB_WORKLOADS_GENERATORS_H
#define MEND_LAB_WORKLOADS_GENERATORS_H

#include "lab/workloads/population.h"

void mend_stress_checkerboard(const uint64_t *parameters, mend_random *random,
                              mend_population *population);
void mend_stress_small_pins(const uint64_t *parameters, mend_random *random,
                            mend_population *population);
void mend_stress_phase_shift(const uint64_t *parameters, mend_random *random,
                             mend_population *population);
void mend_stress_many_streams(const uint64_t *parameters, mend_random *random,
                              mend_population *population);
void mend_stress_staircase(const uint64_t *parameters, mend_random *random,
                           mend_population *population);
void mend_stress_random_mix(const uint64_t *parameters, mend_random *random,
                            mend_population *population);
void mend_stress_replaced(const uint64_t *parameters, mend_random *random,
                          mend_population *population);
void mend_stress_rmm_random(const uint64_t *parameters, mend_random *random,
                            mend_population *population);
void mend_stress_rmm_streams(const uint64_t *parameters, mend_random *random,
                             mend_population *population);

#endif
