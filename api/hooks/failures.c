#include "hooks/failures.h"

#include <stdatomic.h>
#include <stdio.h>

static _Atomic uint64_t failures;

mend_result mend_hooks_note(mend_result result, const char *what)
{
    if (result != MEND_OK) {
        atomic_fetch_add_explicit(&failures, 1, memory_order_relaxed);
        mend_error error = MEND_ERROR_INIT;
        char line[1024];
        mend_last_error(&error);
        snprintf(line, sizeof(line), "%s failed: %s: %s", what, mend_result_name(result),
                 error.message);
        mend_log_write(MEND_LOG_WARNING, line);
    }
    return result;
}

uint64_t mend_hooks_failures(void)
{
    return atomic_load_explicit(&failures, memory_order_relaxed);
}
