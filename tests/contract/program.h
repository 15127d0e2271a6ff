/*
 * Calls of the program around Mend, which Mend never makes: streams that take turns with the legacy
 * stream, captures, graphs. On the simulated device by mend_sim.h, on a GPU by the driver's own
 * entry points.
 */
#ifndef MEND_TESTS_CONTRACT_PROGRAM_H
#define MEND_TESTS_CONTRACT_PROGRAM_H

#include "tests/contract/contract.h"

typedef struct program_graph {
    void *graph;
    void *executable;
} program_graph;

/* Blocking, of the current context. Destroyed like any other stream. */
mend_stream program_make_blocking_stream(contract *c);

void program_begin_capture(contract *c, mend_stream stream, mend_capture_mode mode);

/* Ends a capture that is expected to give a graph. Destroy it. */
program_graph program_end_capture(contract *c, mend_stream stream);

/* Ends a capture that was spoilt. */
void program_end_spoilt_capture(contract *c, mend_stream stream);

void program_launch_graph(contract *c, const program_graph *graph, mend_stream stream);
void program_destroy_graph(contract *c, program_graph *graph);

#endif
