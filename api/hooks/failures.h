/* Errors that a hook cannot return: counted, and written to the log as warnings. */
#ifndef MEND_HOOKS_FAILURES_H
#define MEND_HOOKS_FAILURES_H

#include "mend/mend.h"

/* Passes the result through; where it is an error, `what` could not be done because of it. */
mend_result mend_hooks_note(mend_result result, const char *what);

/* How many errors there were. */
uint64_t mend_hooks_failures(void);

#endif
