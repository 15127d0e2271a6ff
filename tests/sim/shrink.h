/*
 * Trials in processes of their own, so that a crash and a hang are findings like others, and
 * shrinking: the shortest list of the simplest operations, in the plainest place, that still finds
 * the same.
 */
#ifndef MEND_TESTS_SIM_SHRINK_H
#define MEND_TESTS_SIM_SHRINK_H

#include "tests/sim/executor.h"

/* As trial_run, in a child. A child that ends by itself is a crash, one that takes longer than a
 * while a hang. False when there can be no child. */
bool trial_run_apart(const trial_config *config, const operation *ops, size_t count,
                     trial_outcome *outcome);

/* Shrinks a finding of a trial, in place. *outcome is of the rest. Returns how many trials it took.
 * Two findings are the same when they differ in numbers only. */
uint64_t trial_shrink(trial_config *config, operation *ops, size_t *count, trial_outcome *outcome);

#endif
