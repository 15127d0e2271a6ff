/* The figures of a run, for programs and for people. */
#ifndef MEND_LAB_REPLAY_PRINT_H
#define MEND_LAB_REPLAY_PRINT_H

#include <stdio.h>

#include "lab/replay/run.h"
#include "lab/trace/trace.h"

/* What a row says beside its figures. */
typedef struct mend_replay_row {
    const mend_trace *trace;
    const char *policy;
    const mend_replay_options *options;
    const mend_replay_result *result;
} mend_replay_row;

/* One object on a line of its own. */
void mend_replay_print_json(FILE *out, const mend_replay_row *row);

/* A table with a head of its own for each trace, aligned for a terminal. */
void mend_replay_print_table_head(FILE *out, const mend_trace *trace,
                                  const mend_replay_options *options);
void mend_replay_print_table_row(FILE *out, const mend_replay_row *row);

#endif
