/* Errors that a hook cannot return: counted, and written to the log as warnings. */
#ifndef MEND_HOOKS_FAILURES_H
#define MEND_HOOKS_FAILURES_H

#include "mend/mend.h"

/* Because of an error `what` could not be done. */
void mend_hooks_note_failure(mend_result result, const char *what);

static inline void mend_hooks_note(mend_result result, const char *what)
{
    if (result != MEND_OK) {
        mend_hooks_note_failure(result, what);
    }
}

/* What the framework should not have asked: counted, and the line logged. */
void mend_hooks_note_mistake(const char *line);

/* How many errors there were. */
uint64_t mend_hooks_failures(void);

#endif
