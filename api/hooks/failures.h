/* Errors that a hook cannot return: they are counted and logged as warnings. */
#ifndef MEND_HOOKS_FAILURES_H
#define MEND_HOOKS_FAILURES_H

#include "mend/mend.h"

/* Counts an error. The log says that `what` failed. */
void mend_hooks_note_failure(mend_result result, const char *what);

static inline void mend_hooks_note(mend_result result, const char *what)
{
    if (result != MEND_OK) {
        mend_hooks_note_failure(result, what);
    }
}

/* Counts a mistake of the framework, and logs the line. */
void mend_hooks_note_mistake(const char *line);

/* The number of errors so far. */
uint64_t mend_hooks_failures(void);

#endif
