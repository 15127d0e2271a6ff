/* The scenes of fork_scenes.c, share_scenes.c, profiler_scenes.c and exit_scenes.c. */
#ifndef MEND_TESTS_PROCESS_LINKED_SCENES_H
#define MEND_TESTS_PROCESS_LINKED_SCENES_H

#include "tests/process/scenes.h"

#define X(name) void scene_##name(void);
FORK_SCENES(X)
SHARE_SCENES(X)
PROFILER_SCENES(X)
EXIT_SCENES(X)
STOP_SCENES(X)
#undef X

#endif
