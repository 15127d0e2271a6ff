/* A trial that must hold: of a test that is a shrunk list of operations. */
#ifndef MEND_TESTS_SIM_EXPECT_H
#define MEND_TESTS_SIM_EXPECT_H

#include "tests/sim/executor.h"
#include "tests/support/test.h"

static void expect_holds(const trial_config *config, const operation *ops, size_t count)
{
    static trial_outcome outcome;
    trial_run(config, ops, count, &outcome);
    if (outcome.verdict != TRIAL_HOLDS) {
        mend_test_fail(__FILE__, __LINE__, "%s at step %zu: %s",
                       trial_verdict_name(outcome.verdict), outcome.step, outcome.finding);
    }
}

#endif
