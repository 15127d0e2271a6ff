/* The explanation as JSON; docs/formats/replay.md describes each key. */
#ifndef MEND_LAB_REPLAY_EXPLAIN_JSON_H
#define MEND_LAB_REPLAY_EXPLAIN_JSON_H

#include "lab/replay/run.h"
#include "lab/support/json.h"

/* Writes the value of the key `explain`. */
void mend_replay_explain_json(mend_json *json, const mend_replay_result *result);

#endif
