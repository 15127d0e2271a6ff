/*
 * Where failures are noted: one note for each thread and depth of driver calls, and how the last
 * one becomes the thread's error.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/process.h"
#include "base/struct_size.h"
#include "base/words.h"

static mend_result note(mend_result result, const char *call, int status, const char *status_name,
                        const char *format, va_list arguments)
{
    assert(result != MEND_OK);
    assert((call == NULL) == (status_name == NULL));
    mend_thread_error *failure = mend_process_failure();
    vsnprintf(failure->message, sizeof(failure->message), format, arguments);
    mend_words_make_printable(failure->message);
    if (call != NULL && strstr(failure->message, status_name) == NULL) {
        /* Only the message has the driver's code and the call. */
        const bool is_named = *call == '\0' || strstr(failure->message, call) != NULL;
        const size_t length = strlen(failure->message);
        snprintf(failure->message + length, sizeof(failure->message) - length, " (%s%s%s)",
                 is_named ? "" : call, is_named ? "" : ": ", status_name);
    }
    failure->result = result;
    failure->driver_status = status;
    failure->driver_name = status_name;
    failure->driver_call = call;
    failure->oom_report.struct_size = 0;
    return result;
}

mend_result mend_failure(mend_result result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note(result, NULL, 0, NULL, format, arguments);
    va_end(arguments);
    return result;
}

mend_result mend_no_host_memory(const char *what)
{
    return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for %s", what);
}

mend_result mend_driver_failure(mend_result result, const char *call, int status,
                                const char *status_name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note(result, call, status, status_name, format, arguments);
    va_end(arguments);
    return result;
}

/* The caller noted this failure last, so the note has the same result. */
void mend_publish_failure(mend_result result)
{
    const mend_thread_error *failure = mend_process_failure();
    assert(failure->result == result || *mend_process_driver_depth() >= MEND_FAILURES - 1);
    *mend_process_error() = *failure;
    mend_process_error()->result = result;
}

const char *mend_result_name(mend_result result)
{
    switch (result) {
#define X(name, value, meaning)                                                                    \
    case name:                                                                                     \
        return #name;
        MEND_RESULTS(X)
#undef X
    }
    return "MEND_ERROR_UNKNOWN_RESULT";
}

mend_result mend_get_last_error(mend_error *error)
{
    if (error == NULL || !mend_struct_size_is_whole(error->struct_size, sizeof(size_t))) {
        return MEND_ERROR_INVALID_ARGUMENT; /* the last error stays readable */
    }
    mend_thread_error *last = mend_process_error();
    for (int i = 0; i < 4; i++) { /* the note was copied, and its owners with it */
        const mend_owner **to = i < 3 ? &last->oom_report.owners[i] : &last->oom_report.suspect;
        *to = last->owners[i].live_blocks > 0 ? &last->owners[i] : NULL;
    }
    mend_error all = {.result = last->result,
                      .driver_status = last->driver_status,
                      .driver_name = last->driver_name != NULL ? last->driver_name : "",
                      .driver_call = last->driver_call != NULL ? last->driver_call : "",
                      .message = last->message,
                      .oom_report = last->oom_report.struct_size != 0 ? &last->oom_report : NULL};
    mend_struct_write(error, &all, sizeof(all));
    return MEND_OK;
}

mend_result mend_set_last_error(mend_result result, const char *message)
{
    return result == MEND_OK ? MEND_OK : mend_fail(result, "%s", message != NULL ? message : "");
}

int mend_version(void)
{
    return MEND_VERSION_MAJOR * 10000 + MEND_VERSION_MINOR * 100 + MEND_VERSION_PATCH;
}
