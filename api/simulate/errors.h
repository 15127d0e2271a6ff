/* The error that a thread asks for later: every call of the runtime ends with simulate_answer. */
#ifndef MEND_SIMULATE_ERRORS_H
#define MEND_SIMULATE_ERRORS_H

#include "mend/mend_results.h"

/* Remembers an error as the thread's last one, and returns its code of cudaError_t. A status of the
 * simulated device is one too. */
int simulate_answer(int status);

/* What the runtime answers where a call of the simulated device about work gave this result. */
int simulate_error_of(mend_result result);

/* The runtime's name and words for a code; never NULL. */
const char *simulate_error_name(int error);
const char *simulate_error_text(int error);

#endif
