/* Violations: rules of the driver that a call or its work broke, explained in words. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/state.h"

/* Of the thread: calls of several may fail at a time. */
static _Thread_local char last_message[MEND_SIM_EXPLANATION_BYTES];

mend_result mend_sim_invalid(const char *message)
{
    snprintf(last_message, sizeof(last_message), "%s", message);
    return MEND_ERROR_INVALID_ARGUMENT;
}

const char *mend_sim_last_message(void)
{
    return last_message;
}

mend_status mend_sim_refuse(mend_sim *sim, mend_status status, const char *format, ...)
{
    assert(mend_mutex_is_held(&sim->mutex));
    char explanation[MEND_SIM_EXPLANATION_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(explanation, sizeof(explanation), format, arguments);
    va_end(arguments);
    mend_sim_invalid(explanation);
    if (sim->ledger.violations++ == 0) {
        memcpy(sim->first_violation, explanation, sizeof(explanation));
    }
    if (sim->config.on_violation != NULL) {
        sim->config.on_violation(sim->config.violation_context, explanation);
    }
    return status;
}
