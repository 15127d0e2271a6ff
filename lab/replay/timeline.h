/* Live and reserved memory over time, as a table for plotting programs. */
#ifndef MEND_LAB_REPLAY_TIMELINE_H
#define MEND_LAB_REPLAY_TIMELINE_H

#include <stdio.h>

#include "lab/replay/replay.h"

/* The columns' names. */
void mend_replay_timeline_head(FILE *out);

/*
 * At most MEND_REPLAY_TIMELINE_ROWS rows for a run. Each row is for a stretch of events of equal
 * length: the run's name, the last event of the stretch, and the largest values in it. The run has
 * a sample for every event.
 */
enum { MEND_REPLAY_TIMELINE_ROWS = 600 };

void mend_replay_timeline_write(FILE *out, const mend_replay_row *row);

#endif
