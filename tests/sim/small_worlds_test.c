/* The small worlds, as far as a test has time; `./run soak` searches them to their end. */
#include "tests/sim/small_worlds.h"
#include "tests/support/test.h"

enum { SECONDS_A_WORLD = 5 };

static void expect_holds(int world)
{
    static small_world_report report;
    small_world_search(world, SMALL_WORLD_DEPTH, SECONDS_A_WORLD, &report);
    if (report.outcome.verdict != TRIAL_HOLDS) {
        small_world_print(stdout, world, &report);
        mend_test_fail(__FILE__, __LINE__, "%s: %s", trial_verdict_name(report.outcome.verdict),
                       report.outcome.finding);
    }
    EXPECT_TRUE(report.states > 8);
    EXPECT_TRUE(report.depth >= 2);
}

MEND_TEST(small_worlds, extensions_and_moves)
{
    expect_holds(0);
}

MEND_TEST(small_worlds, streams_and_fences)
{
    expect_holds(1);
}

MEND_TEST(small_worlds, groups_and_captures)
{
    expect_holds(2);
}

MEND_TEST(small_worlds, trims_and_limits)
{
    expect_holds(3);
}

MEND_TEST(small_worlds, compactions)
{
    expect_holds(4);
}
