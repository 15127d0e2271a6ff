/*
 * Built-in workloads that are hard for allocators, made from a few parameters and a seed. The same
 * text gives the same trace on every machine. docs/formats/replay.md lists them.
 */
#ifndef MEND_LAB_WORKLOADS_WORKLOAD_H
#define MEND_LAB_WORKLOADS_WORKLOAD_H

#include <stdio.h>

#include "lab/trace/trace.h"

/* Whether the text is "stress:..." and not the path of a file. */
bool mend_workload_is_spec(const char *text);

/*
 * Makes the trace of "stress:NAME" or "stress:NAME?parameter=value&...". `seed` applies if the text
 * has none; 0: the workload's default. The caller destroys *trace. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (unknown name or parameter, wrong value);
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_workload_generate(const char *spec, uint64_t seed, mend_trace **trace);

/* The same. Fails if there are more events than that. */
mend_result mend_workload_generate_within(const char *spec, uint64_t seed, size_t most_events,
                                          mend_trace **trace);

/* Prints each workload with its parameters and their defaults. */
void mend_workload_list(FILE *out);

#endif
