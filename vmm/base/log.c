#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/process.h"

void mend_log(mend_log_level level, const char *format, ...)
{
    mend_log_sink sink;
    void *context;
    mend_process_get_log_sink(&sink, &context);
    if (sink == NULL) {
        return;
    }
    char line[MEND_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    sink(context, level, line);
}

void mend_log_write(mend_log_level level, const char *line)
{
    mend_log(level, "%s", line == NULL ? "" : line);
}

void mend_log_set_sink(mend_log_sink sink, void *context)
{
    mend_process_set_log_sink(sink, context);
}
