/* The figures of runs as a table with a head for each trace, aligned for a terminal. */
#ifndef MEND_LAB_REPLAY_PRINT_H
#define MEND_LAB_REPLAY_PRINT_H

#include <stdio.h>

#include "lab/replay/replay.h"

void mend_replay_print_table_head(FILE *out, const mend_trace *trace,
                                  const mend_replay_options *options);
void mend_replay_print_table_row(FILE *out, const mend_replay_row *row);

#endif
