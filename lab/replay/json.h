/* A run as one JSON object on one line. docs/formats/replay.md describes each key. */
#ifndef MEND_LAB_REPLAY_JSON_H
#define MEND_LAB_REPLAY_JSON_H

#include <stdio.h>

#include "lab/replay/replay.h"

void mend_replay_print_json(FILE *out, const mend_replay_row *row);

#endif
