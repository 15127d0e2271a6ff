/* Lines of a file, plain or compressed: everything a hostile file can do to a reader ends here. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/error.h"
#include "cli/trace_formats.h"

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
    errno = 0;
    source->file = gzopen(path, "rb");
    if (source->file == NULL) {
        if (errno == 0 || errno == ENOMEM) {
            return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "%s: no host memory to read it", path);
        }
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: %s", path, strerror(errno));
    }
    return MEND_OK;
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

/* Reads more bytes; none are left when the buffer stays empty. */
static mend_result refill(mend_line_source *source)
{
    gzFile file = source->file;
    int count = gzread(file, source->buffer, MEND_LINE_BUFFER_BYTES);
    source->buffer_start = 0;
    source->buffer_end = count > 0 ? (size_t)count : 0;
    if (source->buffer_end > source->bytes_left) {
        return mend_line_source_fail(source, "there is too much of it, more than 4 GiB of text");
    }
    source->bytes_left -= source->buffer_end;
    if (count > 0) {
        return MEND_OK;
    }
    int error;
    const char *reason = gzerror(file, &error);
    if (error == Z_OK || error == Z_STREAM_END) {
        return MEND_OK;
    }
    if (error == Z_ERRNO) {
        return mend_line_source_fail(source, "cannot be read: %s", strerror(errno));
    }
    return mend_line_source_fail(source,
                                 error == Z_BUF_ERROR ? "the compressed data ends too early"
                                                      : "the compressed data is damaged (%s)",
                                 reason);
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
    if (source->file != NULL) {
        gzclose(source->file);
        source->file = NULL;
    }
}
