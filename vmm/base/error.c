/* Where failures are noted: one note for each thread and depth of driver calls, and how the last
 * one becomes the thread's error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "base/process.h"
#include "base/words.h"
#include "mend/mend_frameworks.h"

mend_result mend_driver_failure(mend_result result, const char *call, int status,
                                const char *status_name, const char *format, ...)
{
    va_list arguments;
    assert(result != MEND_OK);
    assert((call == NULL) == (status_name == NULL));
    mend_thread_error *failure = mend_process_failure();
    va_start(arguments, format);
    vsnprintf(failure->message, sizeof(failure->message), format, arguments);
    va_end(arguments);
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

mend_result mend_no_host_memory(const char *what)
{
    return mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for %s", what);
}

/* The caller noted this failure last, so the note has the same result. */
void mend_publish_failure(mend_result result)
{
    const mend_thread_error *failure = mend_process_failure();
    assert(failure->result == result || mend_process_driver_depth >= MEND_FAILURES - 1);
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

/* ---- the log --------------------------------------------------------------------------------- */

/* A line reaches the sink or standard error as one write, with no lock held. */

/* Whether standard error gets a line: from the level on that was asked for. Else, where nothing was
 * asked for, the first of each kind of warning, by its words up to the first number. */
static bool is_shown(mend_process_log *log, mend_log_level level, const char *kind)
{
    if (log->shown != 0 || kind == NULL) {
        return log->shown > 0 && (int)level >= log->shown;
    }
    const uint64_t hash = mend_hash(MEND_HASH_OF_NOTHING, kind, strcspn(kind, "0123456789"));
    int i = 0;
    while (i < log->told_count && log->told[i] != hash) {
        i++;
    }
    if (i < log->told_count || i == MEND_LOG_KINDS) {
        return false;
    }
    log->told[log->told_count++] = hash;
    return true;
}

/* To the sink. Without one, to standard error. */
void mend_log_as(mend_log_level level, const char *kind, const char *format, ...)
{
    assert(mend_mutex_none_is_held_from(MEND_RANK_GROW));
    mend_process_log *log = &mend_process_own_log;
    mend_mutex_lock(&log->mutex);
    const mend_log_sink sink = log->sink;
    void *context = log->context;
    const bool is_default = log->shown == 0;
    const bool goes_on = sink != NULL || is_shown(log, level, kind);
    mend_mutex_unlock(&log->mutex);
    if (!goes_on) {
        return;
    }
    const mend_thread_error error = *mend_process_error();
    char line[MEND_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    mend_words_make_printable(line);
    if (sink != NULL) {
        sink(context, level, line);
    } else { /* one write, so that lines of several threads do not mix. A failed one is ignored */
        static const char once[] =
            " (Told once; MEND_CONF=log_level:warning tells all, log_level:off none.)";
        char text[MEND_MESSAGE_BYTES + sizeof(once) + 8];
        int length = snprintf(text, sizeof(text), "mend: %s%s\n", line, is_default ? once : "");
        (void)!write(STDERR_FILENO, text, (size_t)length);
    }
    *mend_process_error() = error;
}

void mend_log_write(mend_log_level level, const char *line)
{
    const char *words = line == NULL ? "" : line;
    mend_log_as(level, level >= MEND_LOG_WARNING ? words : NULL, "%s", words);
}

void mend_log_set_sink(mend_log_sink sink, void *context)
{
    (void)mend_process_prepare(); /* if it fails, a child of fork keeps the sink, and nothing
                                   * else */
    mend_mutex_lock(&mend_process_own_log.mutex);
    mend_process_own_log.sink = sink;
    mend_process_own_log.context = context;
    mend_mutex_unlock(&mend_process_own_log.mutex);
}

void mend_log_show(int level)
{
    mend_mutex_lock(&mend_process_own_log.mutex);
    const int shown = mend_process_own_log.shown;
    mend_process_own_log.shown = shown <= 0 || (level > 0 && level < shown) ? level : shown;
    mend_mutex_unlock(&mend_process_own_log.mutex);
}
