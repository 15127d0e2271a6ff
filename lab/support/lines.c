/* Lines of a file, plain or compressed. It refuses damaged and hostile files, so that its callers
 * get only valid lines. */
#include "lab/support/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

mend_result mend_line_source_open(mend_line_source *source, const char *path)
{
    source->line_length = 0;
    source->line_number = 0;
    source->lacks_end = false;
    source->ended = false;
    return mend_byte_source_open(&source->bytes, path);
}

mend_result mend_line_source_fail(const mend_line_source *source, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s:%llu: %s", source->bytes.path,
                     (unsigned long long)source->line_number, reason);
}

static mend_result append(mend_line_source *source, const char *bytes, size_t count)
{
    if (count > MEND_LINE_BYTES - source->line_length) {
        return mend_line_source_fail(source, "the line is longer than %d bytes", MEND_LINE_BYTES);
    }
    if (memchr(bytes, 0, count) != NULL) {
        return mend_line_source_fail(source, "the line holds a zero byte: is this a text file?");
    }
    memcpy(source->line + source->line_length, bytes, count);
    source->line_length += count;
    return MEND_OK;
}

mend_result mend_line_source_next(mend_line_source *source)
{
    mend_byte_source *bytes = &source->bytes;
    source->line_length = 0;
    source->line_number++;
    for (;;) {
        const char *reason = mend_byte_source_fill(bytes);
        if (reason != NULL) {
            return mend_line_source_fail(source, "%s", reason);
        }
        if (bytes->end == 0) {
            source->ended = source->line_length == 0;
            source->lacks_end = !source->ended;
            break;
        }
        const char *start = bytes->buffer + bytes->start;
        size_t left = bytes->end - bytes->start;
        const char *end = memchr(start, '\n', left);
        size_t count = end == NULL ? left : (size_t)(end - start);
        mend_result result = append(source, start, count);
        if (result != MEND_OK) {
            return result;
        }
        bytes->start += count + (end != NULL);
        if (end != NULL) {
            break;
        }
    }
    if (source->line_length > 0 && source->line[source->line_length - 1] == '\r') {
        source->line_length--;
    }
    source->line[source->line_length] = 0;
    return MEND_OK;
}

void mend_line_source_close(mend_line_source *source)
{
    mend_byte_source_close(&source->bytes);
}
