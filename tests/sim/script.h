/*
 * Places and operations as text, as the simulation prints findings, and tests have them: "streams
 * 2, vanish 1" and "ALLOC slot 1 size 65 / FREE slot 1". A missing value is 0, or for a place the
 * default.
 */
#ifndef MEND_TESTS_SIM_SCRIPT_H
#define MEND_TESTS_SIM_SCRIPT_H

#include "tests/sim/executor.h"

/* How many operations there are, at most `most`. -1: the text has a word that is none. */
int trial_read_script(const char *place, const char *text, trial_config *config, operation *ops,
                      int most);

/* As a case for regressions.c. */
void trial_print(FILE *out, const char *name, const trial_config *config, const operation *ops,
                 size_t count);

#endif
