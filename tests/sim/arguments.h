/* Arguments that no call takes, and settings as a text: see arguments.c. */
#ifndef MEND_TESTS_SIM_ARGUMENTS_H
#define MEND_TESTS_SIM_ARGUMENTS_H

#include "tests/sim/trial.h"

/* Calls of the pool `which`, and of all devices, that must be refused and change nothing. */
void trial_refuse_arguments(trial *t, uint8_t which);

/* Moves the settings into the environment, for the next pools. The caller ends that. */
void trial_configure_by_text(mend_pool_config *config);

#endif
