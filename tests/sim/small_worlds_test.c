/* The small worlds; `./run soak` searches them deeper. */
#include "tests/sim/small_worlds.h"
#include "tests/support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DEPTH = 4 };
#else
enum { DEPTH = SMALL_WORLD_DEPTH };
#endif

static void expect_holds(int world)
{
    static small_world_report report;
    small_world_search(world, DEPTH, &report);
    if (report.outcome.verdict != TRIAL_HOLDS) {
        small_world_print(stdout, world, &report);
        mend_test_fail(__FILE__, __LINE__, "%s: %s", trial_verdict_name(report.outcome.verdict),
                       report.outcome.finding);
    }
    EXPECT_TRUE(report.states > 8);
    EXPECT_TRUE(report.is_complete);
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
