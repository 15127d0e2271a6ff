#include "hooks/failures.h"

#include <stdatomic.h>
#include <stdio.h>

static _Atomic uint64_t failures;

void mend_hooks_note_failure(mend_result result, const char *what)
{
    mend_error error = MEND_ERROR_INIT;
    char line[1024];
    atomic_fetch_add_explicit(&failures, 1, memory_order_relaxed);
    mend_get_last_error(&error);
    snprintf(line, sizeof(line), "%s failed: %s: %s", what, mend_result_name(result),
             error.message);
    mend_log_write(MEND_LOG_WARNING, line);
}

void mend_hooks_note_mistake(const char *line)
{
    atomic_fetch_add_explicit(&failures, 1, memory_order_relaxed);
    mend_log_write(MEND_LOG_WARNING, line);
}

uint64_t mend_hooks_failures(void)
{
    return atomic_load_explicit(&failures, memory_order_relaxed);
}
