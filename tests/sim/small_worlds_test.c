/* The small worlds. `./run soak` searches them deeper. */
#include "tests/sim/small_worlds.h"

#include <string.h>

#include "tests/support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DEPTH = 4 };
#else
enum { DEPTH = SMALL_WORLD_DEPTH };
#endif

/* The world that has the name of the test. */
static void expect_holds(void)
{
    static small_world_report report;
    int world = 0;
    while (strcmp(small_world_name(world), mend_test_name()) != 0) {
        world++;
    }
    if (!small_world_search(world, DEPTH, &report)) {
        small_world_print(stdout, world, &report);
        mend_test_fail(__FILE__, __LINE__, "%s: %s", trial_verdict_name(report.outcome.verdict),
                       report.outcome.finding);
    }
    EXPECT_TRUE(report.sequences > 100);
}

__attribute__((constructor)) static void register_worlds(void)
{
    for (int i = 0; i < SMALL_WORLDS; i++) {
        mend_test_register("small_worlds", small_world_name(i), __FILE__, __LINE__, expect_holds);
    }
}
