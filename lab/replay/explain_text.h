/* The explanation as tables. Lines with only zeros are left out. */
#ifndef MEND_LAB_REPLAY_EXPLAIN_TEXT_H
#define MEND_LAB_REPLAY_EXPLAIN_TEXT_H

#include <stdio.h>

#include "lab/replay/run.h"

void mend_replay_explain_text(FILE *out, const mend_replay_result *result);

#endif
