/* Prints the figures of a run, as JSON or as a table. */
#ifndef MEND_LAB_REPLAY_PRINT_H
#define MEND_LAB_REPLAY_PRINT_H

#include <stdio.h>

#include "lab/replay/run.h"
#include "lab/trace/trace.h"

/* A run with its names. */
typedef struct mend_replay_row {
    const mend_trace *trace;
    const char *policy;
    const mend_replay_options *options;
    const mend_replay_result *result;
} mend_replay_row;

/* Prints one object on one line. */
void mend_replay_print_json(FILE *out, const mend_replay_row *row);

/* Prints a table with a head for each trace, aligned for a terminal. */
void mend_replay_print_table_head(FILE *out, const mend_trace *trace,
                                  const mend_replay_options *options);
void mend_replay_print_table_row(FILE *out, const mend_replay_row *row);

#endif
