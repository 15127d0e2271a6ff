/* A trial that must hold: a test that is a place and a list of operations, see script.h. */
#ifndef MEND_TESTS_SIM_EXPECT_H
#define MEND_TESTS_SIM_EXPECT_H

#include "tests/sim/script.h"
#include "tests/support/test.h"

static void expect_holds(const char *place, const char *text)
{
    enum { MOST = 200 };
    static trial_outcome outcome;
    static operation ops[MOST];
    trial_config config;
    const int count = trial_read_script(place, text, &config, ops, MOST);
    ASSERT_TRUE(count > 0);
    trial_run(&config, ops, (size_t)count, &outcome);
    if (outcome.verdict != TRIAL_HOLDS) {
        mend_test_fail(__FILE__, __LINE__, "%s at step %zu: %s",
                       trial_verdict_name(outcome.verdict), outcome.step, outcome.finding);
    }
}

#define HOLDS(suite, name, place, text)                                                            \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        expect_holds(place, text);                                                                 \
    }

#endif
