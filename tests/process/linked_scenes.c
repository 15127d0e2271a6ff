/* The scenes of the program that is linked with Mend. */
#include "tests/process/linked_scenes.h"

const scene scenes[] = {
#define X(name) {#name, scene_##name},
    FORK_SCENES(X) SHARE_SCENES(X) PROFILER_SCENES(X) EXIT_SCENES(X) STOP_SCENES(X)
#undef X
        {NULL, NULL},
};
