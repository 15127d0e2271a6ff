/* Shared by figures.c, which checks the numbers of each pool, and sums.c, which checks the sums of
 * all. */
#ifndef MEND_TESTS_SIM_FIGURES_H
#define MEND_TESTS_SIM_FIGURES_H

#include "tests/sim/trial.h"

static inline bool trial_is_between(uint64_t least, uint64_t value, uint64_t most)
{
    return least <= value && value <= most;
}

/* Driver calls since the last look. */
trial_seen trial_look_at_driver(const trial *t, const mend_driver_counters *now);

/* Whether the pools count it. */
void trial_check_sums(trial *t);

#endif
