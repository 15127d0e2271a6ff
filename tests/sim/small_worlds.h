/*
 * Small worlds, all of them: every sequence of up to SMALL_WORLD_DEPTH of 8 operations, on a few
 * chunks, blocks and streams, each checked after every step and at its end. A sequence whose last
 * operation does not apply, or repeats the one before it, is not continued.
 */
#ifndef MEND_TESTS_SIM_SMALL_WORLDS_H
#define MEND_TESTS_SIM_SMALL_WORLDS_H

#include "tests/sim/executor.h"

enum { SMALL_WORLDS = 5, SMALL_WORLD_LETTERS = 8, SMALL_WORLD_DEPTH = 6, SMALL_WORLD_DEEPEST = 10 };

typedef struct small_world_report {
    uint64_t sequences;    /* run */
    trial_outcome outcome; /* of the last one */
    operation ops[SMALL_WORLD_DEEPEST];
    size_t count;
} small_world_report;

const char *small_world_name(int world);

/* Up to `depth` operations, at most SMALL_WORLD_DEEPEST. Ends at the first finding, with false. */
bool small_world_search(int world, int depth, small_world_report *report);

void small_world_print(FILE *out, int world, const small_world_report *report);

#endif
