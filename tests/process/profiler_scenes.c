/* Processes with a profiler for NVTX (tests/process/profiler.c), and without one. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/process/linked_scenes.h"
#include "tests/process/rig.h"

static const char *name = "NVTX_INJECTION64_PATH";

static rig seen;

static void work(void)
{
    rig_open(&seen);
    rig_fill(&seen);
    rig_check(&seen);
    rig_free_blocks(&seen);
    CHECK(mend_trim(seen.pool, 0, MEND_TRIM_IDLE, NULL) == MEND_OK);
}

void scene_a_profiler_sees_what_reaches_the_driver(void)
{
    CHECK(setenv(name, PROFILER_LIBRARY, 1) == 0);
    work();
    void *profiler = dlopen(PROFILER_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    CHECK(profiler != NULL);
    const char *said = dlsym(profiler, "profiler_said");
    const int *depth = dlsym(profiler, "profiler_depth");
    CHECK(said != NULL && depth != NULL);
    CHECK(strchr(said, '?') == NULL && *depth == 0);
    const char *request = strstr(said, "+request +");
    CHECK(request != NULL && strstr(request, "+cuMemCreate - ") != NULL);
    const char *trim = strstr(said, "+trim +");
    CHECK(trim > request && strstr(trim, "+cuMemRelease - ") != NULL &&
          strstr(trim, " - - ") != NULL);
    const size_t length = strlen(said);
    void *block = NULL; /* beside the one that is kept */
    CHECK(mend_alloc(seen.pool, 512, seen.streams[0], &block) == MEND_OK);
    CHECK(mend_free(seen.pool, block, seen.streams[0]) == MEND_OK);
    CHECK(strlen(said) == length);
    rig_close(&seen);
    CHECK(*depth == 0);
}

void scene_nothing_is_loaded_that_is_no_profiler(void)
{
    CHECK(setenv(name, "/tmp/mend-none/profiler.so", 1) == 0);
    work();
    CHECK(setenv(name, PROFILER_LIBRARY, 1) == 0); /* too late: a tool names it before the start */
    rig_try_all();
    CHECK(dlopen(PROFILER_LIBRARY, RTLD_NOW | RTLD_NOLOAD) == NULL);
    rig_close(&seen);
}
