/* The claims of the demo hold: on real device sizes, and on one with 5 % more than the program
 * uses, Mend completes without a wait or a copy. Where others wait, it reserves less. */
#include <stdio.h>
#include <string.h>

#include "cli/demo_report.h"
#include "lab/replay/replay.h"
#include "tests/cli/fixture.h"
#include "tests/cli/program.h"
#include "tests/support/test.h"

static mend_replay_result replay(const mend_demo_scene *scene, const mend_trace *trace,
                                 size_t allocator)
{
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    char capacity[32];
    if (scene->memory_bytes != 0) {
        snprintf(capacity, sizeof(capacity), "%lluGiB",
                 (unsigned long long)(scene->memory_bytes >> 30));
    } else {
        snprintf(capacity, sizeof(capacity), "%.3fx", scene->factor);
    }
    return fixture_replay(trace, mend_demo_allocators[allocator].policy, capacity, &options);
}

static bool is_honest(const mend_demo_scene *scene)
{
    return scene->memory_bytes == 24ull << 30 || scene->memory_bytes == 80ull << 30 ||
           (scene->memory_bytes == 0 && scene->factor == 1.05);
}

static void check_scene(const mend_demo_scene *scene)
{
    ENDING_TRACE mend_trace *trace = NULL;
    EXPECT_TRUE(is_honest(scene));
    ASSERT_RESULT(MEND_OK, mend_demo_load(scene, MEND_TRACES_DIR, &trace));
    ENDING_RESULT mend_replay_result mend = replay(scene, trace, MEND_DEMO_MEND);
    EXPECT_TRUE(mend.completed && mend.host_syncs == 0 && mend.bytes_copied == 0);
    for (size_t i = 0; i < MEND_DEMO_MEND; i++) {
        ENDING_RESULT mend_replay_result other = replay(scene, trace, i);
        /* Near the limit each fills the device. */
        if (scene->memory_bytes != 0 && other.completed && other.host_syncs > 0) {
            EXPECT_TRUE(mend.peak_reserved_bytes < other.peak_reserved_bytes);
        }
    }
}

MEND_TEST(demo, mend_completes_every_scene_without_a_wait)
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
    expect_run(1, command_line("demo --device sim -o '%s' --capacity 40MiB %%", page.path),
               " on 40.00 MiB (/...out of memory at event 1...near its limit...", NULL);
    expect_run(0, command_line("demo --device sim -o '%s' %%", page.path),
               " on 4.00 GiB (/...Mend...completed...near its limit...", NULL);
    static char text[1 << 17];
    read_all(page.path, text, sizeof(text));
    EXPECT_TRUE(strstr(text, " on 2 devices: it finishes with PyTorch caching on ") != NULL);
    EXPECT_TRUE(strstr(text, ", Mend on 2.</h1>") != NULL);
    EXPECT_TRUE(strstr(text, "<li>Mend finishes on every device of at least ") != NULL);
    EXPECT_TRUE(strstr(text, "chosen") == NULL && strstr(text, "bench/traces") == NULL);
    static const char rows[] = TRACE_HEAD "0,0,allocate,1,41943040,0\n"
                                          "0,0,allocate failure,(nil),41943040,0\n";
    static const char ended[] = "The recording ended when a request of 40.00 MiB failed. ";
    expect_run_on(rows, 1, command_line("demo --device sim --capacity 64MiB -o '%s' %%", page.path),
                  "\nThe recording ended when ...out of memory at event 1...", NULL);
    read_all(page.path, text, sizeof(text));
    EXPECT_TRUE(strstr(text, ended) != NULL);
    EXPECT_TRUE(strstr(text, "Asked for 40.00 MiB; 24.00 MiB were not in use.") != NULL);
    expect_run_on(TRACE_HEAD "0,0,allocate,1,41943040,0\n"
                             "0,0,allocate failure,(nil),41943040,0\n"
                             "0,0,allocate,2,512,0\n",
                  1, command_line("demo --device sim --capacity 64MiB -o '%s' %%", page.path),
                  "\nIn the recording 1 request failed, and ...completed, 1 failed again...", NULL);
    read_all(page.path, text, sizeof(text));
    EXPECT_TRUE(strstr(text, "\xe2\x9c\x95 failed again 1\xc3\x97</span>") != NULL);
    EXPECT_TRUE(strstr(text, "it finishes with PyTorch caching on 0, ") != NULL);
    fixture_remove(&page);
    expect_run(2, "demo --device cuda -o /dev/null %", "",
               "libmend demo: the CUDA driver cannot be loaded (libcuda.so.1: ");
    expect_run(2, "demo one %", "", "more than one file");
    expect_run(2, "demo --capacity 1GiB", "", "--capacity needs a FILE");
    expect_run(2, "demo --capacity 3 %", "", "did you forget the unit? '3'");
    expect_run(2, "demo /nowhere -o /dev/null", "", "libmend demo: /nowhere: No such file");
}
