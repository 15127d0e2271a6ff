/* What the demo shows holds: at its device sizes the models of today's allocators run out of
 * memory, and Mend completes without a wait or a copy. */
#include <stdio.h>

#include "cli/demo_report.h"
#include "lab/replay/replay.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

static void check_scene(const mend_demo_scene *scene)
{
    mend_trace *trace = NULL;
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    ASSERT_RESULT(MEND_OK, mend_demo_load(scene, MEND_TRACES_DIR, &trace));
    for (int i = 0; i < MEND_DEMO_ALLOCATORS; i++) {
        char capacity[32];
        snprintf(capacity, sizeof(capacity), "%.3fx", scene->factor);
        mend_replay_result result =
            fixture_replay(trace, mend_demo_allocators[i].policy, capacity, &options);
        if (result.completed != (i == MEND_DEMO_MEND)) {
            mend_test_fail(__FILE__, __LINE__, "%s: %s %s", scene->title,
                           mend_demo_allocators[i].policy,
                           result.completed ? "completed" : "ran out of memory");
        }
        if (i == MEND_DEMO_MEND) {
            EXPECT_U64_EQ(0, result.host_syncs);
            EXPECT_U64_EQ(0, result.bytes_copied);
        }
        mend_replay_result_clear(&result);
    }
    mend_trace_destroy(trace);
}

MEND_TEST(demo, mend_alone_completes_every_scene)
{
    EXPECT_STR_EQ("mend", mend_demo_allocators[MEND_DEMO_MEND].policy);
    for (int i = 0; i < MEND_DEMO_SCENES; i++) {
        check_scene(&mend_demo_scenes[i]);
    }
}
