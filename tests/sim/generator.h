/*
 * The generator: from a seed, a place and operations. Many seeds have few kinds of operations
 * (swarm testing: uninterrupted programs go further). Sizes come from few classes, and so do slots
 * and streams.
 */
#ifndef MEND_TESTS_SIM_GENERATOR_H
#define MEND_TESTS_SIM_GENERATOR_H

#include "tests/sim/executor.h"
#include "tests/support/test.h"

enum { TRIAL_MOST_STEPS = 4096 };

static inline uint32_t trial_random_below(mend_test_random *random, uint32_t bound)
{
    return (uint32_t)mend_test_random_below(random, bound);
}

/* Fills `config` and `count` operations. A shorter count gives the beginning of a longer one. */
void trial_draw(uint64_t seed, size_t count, trial_config *config, operation *ops);

#endif
