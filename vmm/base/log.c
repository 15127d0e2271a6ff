/* How a line reaches the sink or standard error: as one write, with no lock held. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/words.h"

/* The kind of a warning is its words up to the first number. */
static uint64_t kind_of(const char *words)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = strcspn(words, "0123456789"); i > 0; i--) {
        hash = (hash ^ (unsigned char)words[i - 1]) * UINT64_C(1099511628211);
    }
    return hash | 1;
}

/* Whether standard error gets a line: from the level on that was asked for. Else, where nothing was
 * asked for, the first of each kind of warning. Kind 0 has no first. */
static bool is_shown(mend_process_log *log, mend_log_level level, uint64_t kind)
{
    if (log->shown != 0) {
        return log->shown > 0 && (int)level >= log->shown;
    }
    int i = 0;
    while (i < log->told_count && log->told[i] != kind) {
        i++;
    }
    if (kind == 0 || i < log->told_count || i == MEND_LOG_KINDS) {
        return false;
    }
    log->told[log->told_count++] = kind;
    return true;
}

/* To the sink. Without one, to standard error. */
static void write_line(mend_log_level level, uint64_t kind, const char *format, va_list arguments)
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
    vsnprintf(line, sizeof(line), format, arguments);
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

void mend_log(mend_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(level, 0, format, arguments);
    va_end(arguments);
}

void mend_warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(MEND_LOG_WARNING, kind_of(format), format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 3, 4))) static void write_kind(mend_log_level level, uint64_t kind,
                                                             const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(level, kind, format, arguments);
    va_end(arguments);
}

void mend_log_write(mend_log_level level, const char *line)
{
    const char *words = line == NULL ? "" : line;
    write_kind(level, level >= MEND_LOG_WARNING ? kind_of(words) : 0, "%s", words);
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
