/*
 * Small worlds, all of them: every sequence of up to SMALL_WORLD_DEPTH of 8 operations, on a few
 * chunks, blocks and streams, each checked after every step and at its end. A sequence that leads
 * to a state which a shorter one, or one before it, leads to as well is not continued.
 *
 * States are the same when their hashes are. The hash sees the model (blocks, streams, graph pools,
 * graphs), all of the pool's layout (spans, chunks in the order of their creation, retired
 * mappings, addresses relative to the first reservation), the waits of each (passed or not, with a
 * fence or not, and of whom), the pool's streams and graph pools, and on the device the streams
 * with work left. It does not see how long that work takes, nor how streams wait for one another on
 * the device, so here all work takes as long, and the clock runs until it is done.
 */
#ifndef MEND_TESTS_SIM_SMALL_WORLDS_H
#define MEND_TESTS_SIM_SMALL_WORLDS_H

#include "tests/sim/executor.h"

enum { SMALL_WORLDS = 5, SMALL_WORLD_LETTERS = 8, SMALL_WORLD_DEPTH = 6, SMALL_WORLD_DEEPEST = 10 };

typedef struct small_world_report {
    uint64_t states;    /* different ones */
    uint64_t sequences; /* run */
    int depth;          /* reached in full */
    bool is_complete;   /* up to the depth asked for */
    trial_outcome outcome;
    operation ops[SMALL_WORLD_DEEPEST]; /* the finding, if any */
    size_t count;
} small_world_report;

const char *small_world_name(int world);

/* Up to `depth` operations, at most SMALL_WORLD_DEEPEST. Ends at the first finding. */
void small_world_search(int world, int depth, small_world_report *report);

void small_world_print(FILE *out, int world, const small_world_report *report);

#endif
