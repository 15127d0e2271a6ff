/* Scenes: the subject of a drawn program, and how a seed becomes a program and a schedule. */
#ifndef MEND_TESTS_INTERLEAVE_SCENES_H
#define MEND_TESTS_INTERLEAVE_SCENES_H

#include "tests/interleave/program.h"

int scene_count(void);
const char *scene_name(int scene);

/* -1 when there is none. */
int scene_by_name(const char *name);

/* Draws and runs one. On a finding says everything about it on stderr. */
bool scene_run(int scene, uint64_t seed, FILE *trace, program_outcome *outcome);

#endif
