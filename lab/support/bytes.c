#include "lab/support/bytes.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/align.h"
#include "base/error.h"

mend_result mend_byte_source_open(mend_byte_source *source, const char *path)
{
    source->path = path;
    source->file = NULL;
    source->start = 0;
    source->end = 0;
    source->before = 0;
    struct stat status;
    const bool is_known = stat(path, &status) == 0;
    if (is_known && S_ISDIR(status.st_mode)) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: is a folder", path);
    }
    source->most = MEND_MOST_FILE_BYTES; /* of a pipe */
    if (is_known && S_ISREG(status.st_mode) &&
        (uint64_t)status.st_size < MEND_MOST_FILE_BYTES / MEND_MOST_UNPACKED) {
        source->most = mend_min_u64(
            source->most, MEND_ANY_FILE_BYTES + MEND_MOST_UNPACKED * (uint64_t)status.st_size);
    }
    source->left = source->most;
    mend_result result = mend_packed_open(path, &source->file);
    if (result == MEND_ERROR_OUT_OF_HOST_MEMORY) {
        return mend_fail(result, "%s: no host memory to read it", path);
    }
    return result == MEND_OK ? MEND_OK : mend_fail(result, "%s: %s", path, strerror(errno));
}

const char *mend_byte_source_fill(mend_byte_source *source)
{
    if (source->start < source->end) {
        return NULL;
    }
    size_t count = 0;
    const char *reason =
        mend_packed_read(source->file, source->buffer, MEND_BYTE_BUFFER_BYTES, &count);
    source->before += source->end;
    source->start = 0;
    source->end = count;
    if (count > source->left) {
        return source->most == MEND_MOST_FILE_BYTES
                   ? "there is too much of it, more than 4 GiB"
                   : "it unpacks to too much, more than 256 times its size: unpack it first";
    }
    source->left -= count;
    return count > 0 ? NULL : reason;
}

const char *mend_byte_source_take(mend_byte_source *source, void *bytes, uint64_t count)
{
    for (char *to = bytes; count > 0;) {
        const char *reason = mend_byte_source_fill(source);
        if (reason != NULL) {
            return reason;
        }
        if (source->end == 0) {
            return "the file ends too early";
        }
        size_t part = (size_t)mend_min_u64(count, source->end - source->start);
        if (to != NULL) {
            memcpy(to, source->buffer + source->start, part);
            to += part;
        }
        source->start += part;
        count -= part;
    }
    return NULL;
}

void mend_byte_source_close(mend_byte_source *source)
{
    mend_packed_close(source->file);
    source->file = NULL;
}
