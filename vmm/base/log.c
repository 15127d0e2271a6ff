/* How a line reaches the sink or standard error: as one write, with no lock held. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/process.h"
#include "base/words.h"

/* To the sink. Without a sink, to standard error if the program asked for it. */
static void write_line(mend_log_level level, const char *format, va_list arguments)
{
    assert(mend_mutex_none_is_held_from(MEND_RANK_GROW));
    mend_mutex_lock(&mend_process_own_log.mutex);
    const mend_log_sink sink = mend_process_own_log.sink;
    void *context = mend_process_own_log.context;
    const int shown = mend_process_own_log.shown;
    mend_mutex_unlock(&mend_process_own_log.mutex);
    if (sink == NULL && (shown == 0 || (int)level < shown)) {
        return;
    }
    char line[MEND_MESSAGE_BYTES];
    vsnprintf(line, sizeof(line), format, arguments);
    mend_words_make_printable(line);
    if (sink != NULL) {
        sink(context, level, line);
    } else { /* one write, so that lines of several threads do not mix; a failed one is ignored */
        char text[MEND_MESSAGE_BYTES + 8];
        int length = snprintf(text, sizeof(text), "mend: %s\n", line);
        (void)!write(STDERR_FILENO, text, (size_t)length);
    }
}

void mend_log(mend_log_level level, const char *format, ...)
{
    mend_thread_error error = *mend_process_error();
    va_list arguments;
    va_start(arguments, format);
    write_line(level, format, arguments);
    va_end(arguments);
    *mend_process_error() = error;
}

void mend_log_write(mend_log_level level, const char *line)
{
    mend_log(level, "%s", line == NULL ? "" : line);
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
    mend_process_own_log.shown = shown == 0 || level < shown ? level : shown;
    mend_mutex_unlock(&mend_process_own_log.mutex);
}
