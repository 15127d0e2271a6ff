/* Lines of a file, plain or compressed. It refuses damaged and hostile files, so that its callers
 * get only valid lines. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "lab/support/lines.h"
#include "lab/support/packed.h"

mend_result mend_line_source_open(mend_line_source *source, const char *path)
{
    source->path = path;
    source->file = NULL;
    source->buffer_start = 0;
    source->buffer_end = 0;
    source->line_length = 0;
    source->line_number = 0;
    source->ended = false;
    source->bytes_left = MEND_MOST_TEXT_BYTES;
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: is a folder", path);
    }
    mend_result result = mend_packed_open(path, &source->file);
    if (result == MEND_ERROR_OUT_OF_HOST_MEMORY) {
        return mend_fail(result, "%s: no host memory to read it", path);
    }
    return result == MEND_OK ? MEND_OK : mend_fail(result, "%s: %s", path, strerror(errno));
}

mend_result mend_line_source_fail(const mend_line_source *source, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s:%llu: %s", source->path,
                     (unsigned long long)source->line_number, reason);
}

/* Reads more bytes; if the buffer stays empty, there are none left. */
static mend_result refill(mend_line_source *source)
{
    size_t count = 0;
    const char *reason =
        mend_packed_read(source->file, source->buffer, MEND_LINE_BUFFER_BYTES, &count);
    source->buffer_start = 0;
    source->buffer_end = count;
    if (source->buffer_end > source->bytes_left) {
        return mend_line_source_fail(source, "there is too much of it, more than 4 GiB of text");
    }
    source->bytes_left -= source->buffer_end;
    return reason == NULL || count > 0 ? MEND_OK : mend_line_source_fail(source, "%s", reason);
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
    source->line_length = 0;
    source->line_number++;
    for (;;) {
        if (source->buffer_start == source->buffer_end) {
            mend_result result = refill(source);
            if (result != MEND_OK) {
                return result;
            }
            if (source->buffer_end == 0) {
                source->ended = source->line_length == 0;
                break;
            }
        }
        const char *start = source->buffer + source->buffer_start;
        size_t left = source->buffer_end - source->buffer_start;
        const char *end = memchr(start, '\n', left);
        size_t count = end == NULL ? left : (size_t)(end - start);
        mend_result result = append(source, start, count);
        if (result != MEND_OK) {
            return result;
        }
        source->buffer_start += count + (end != NULL);
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
    mend_packed_close(source->file);
    source->file = NULL;
}
