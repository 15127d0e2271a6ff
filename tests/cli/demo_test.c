/* What the demo shows holds: at its device sizes the models of today's allocators run out of
 * memory, and Mend completes without a wait or a copy. */
#include <stdio.h>
#include <string.h>

#include "cli/demo_report.h"
#include "lab/replay/replay.h"
#include "tests/cli/fixture.h"
#include "tests/cli/program.h"
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

/* A program of the user's runs on the device that was asked for, and on one near its limit. */
MEND_TEST(demo, of_a_file_is_about_that_program)
{
    fixture_file page = fixture_write_text(".html", "before");
    char arguments[1024];
    snprintf(arguments, sizeof(arguments), "demo --device sim -o '%s' --capacity 40MiB %%",
             page.path);
    expect_run(1, arguments, " on 40.00 MiB (/...out of memory at event 1...near its limit...",
               NULL);
    snprintf(arguments, sizeof(arguments), "demo --device sim -o '%s' %%", page.path);
    expect_run(0, arguments, " on 4.00 GiB (/...Mend...completed...near its limit...", NULL);
    static char text[1 << 17];
    read_all(page.path, text, sizeof(text));
    EXPECT_TRUE(strstr(text, " on 2 devices: it finishes with PyTorch caching on ") != NULL);
    EXPECT_TRUE(strstr(text, ", Mend on 2.</h1>") != NULL);
    EXPECT_TRUE(strstr(text, "<li>Mend finishes on every device of at least ") != NULL);
    EXPECT_TRUE(strstr(text, "chosen") == NULL && strstr(text, "bench/traces") == NULL);
    fixture_remove(&page);
    expect_run(2, "demo one %", "", "more than one file");
    expect_run(2, "demo --capacity 1GiB", "", "--capacity needs a FILE");
    expect_run(2, "demo --capacity 3 %", "", "not a size of at least 2 MiB: '3'");
    expect_run(2, "demo /nowhere -o /dev/null", "", "mend demo: /nowhere: No such file");
}
