#include "lab/support/packed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { INPUT_BYTES = 65536, REASON_BYTES = 160, MAGIC_BYTES = 2, GZIP_WINDOW_BITS = 15 + 16 };
static const unsigned char magic[MAGIC_BYTES] = {0x1f, 0x8b};

struct mend_packed_file {
    FILE *file;
    bool is_begun;     /* the kind of file is known */
    bool is_packed;    /* compressed: `stream` is in use */
    bool is_in_member; /* inside compressed data, before its end */
    z_stream stream;   /* its input has bytes that were read and not used yet, of a plain file
                        * too */
    unsigned char input[INPUT_BYTES];
    char reason[REASON_BYTES];
};

mend_result mend_packed_open(const char *path, mend_packed_file **file)
{
    mend_packed_file *opened = calloc(1, sizeof(*opened));
    if (opened == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    opened->file = fopen(path, "rb");
    if (opened->file == NULL) {
        int error = errno;
        free(opened);
        errno = error;
        return error == ENOMEM ? MEND_ERROR_OUT_OF_HOST_MEMORY : MEND_ERROR_INVALID_ARGUMENT;
    }
    *file = opened;
    return MEND_OK;
}

/* Fills the buffer behind the bytes that are not used yet. */
static const char *fill(mend_packed_file *file)
{
    z_stream *stream = &file->stream;
    memmove(file->input, stream->next_in != NULL ? stream->next_in : file->input, stream->avail_in);
    stream->next_in = file->input;
    size_t room = INPUT_BYTES - stream->avail_in;
    stream->avail_in += (uInt)fread(file->input + stream->avail_in, 1, room, file->file);
    if (ferror(file->file)) {
        snprintf(file->reason, REASON_BYTES, "cannot be read: %s", strerror(errno));
        return file->reason;
    }
    return NULL;
}

static bool is_at_magic(const mend_packed_file *file)
{
    return file->stream.avail_in >= MAGIC_BYTES &&
           memcmp(file->stream.next_in, magic, MAGIC_BYTES) == 0;
}

static const char *begin(mend_packed_file *file)
{
    const char *reason = fill(file);
    if (reason != NULL) {
        return reason;
    }
    file->is_begun = true;
    if (is_at_magic(file)) {
        if (inflateInit2(&file->stream, GZIP_WINDOW_BITS) != Z_OK) {
            return "no host memory to unpack it";
        }
        file->is_packed = true;
        file->is_in_member = true;
    }
    return NULL;
}

/* After a member: begins the next one, or reaches the end. */
static const char *begin_member(mend_packed_file *file)
{
    if (file->stream.avail_in < MAGIC_BYTES) {
        const char *reason = fill(file);
        if (reason != NULL || file->stream.avail_in == 0) {
            return reason;
        }
    }
    if (!is_at_magic(file)) {
        return "something else follows the compressed data";
    }
    file->is_in_member = inflateReset(&file->stream) == Z_OK;
    return NULL;
}

/* Unpacks the input, at most to the end of the member. */
static const char *unpack(mend_packed_file *file)
{
    z_stream *stream = &file->stream;
    if (stream->avail_in == 0) {
        const char *reason = fill(file);
        if (reason != NULL) {
            return reason;
        }
        if (stream->avail_in == 0) {
            return "the compressed data ends too early";
        }
    }
    int result = inflate(stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) {
        return "no host memory to unpack it";
    }
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        snprintf(file->reason, REASON_BYTES, "the compressed data is damaged (%s)",
                 stream->msg != NULL ? stream->msg : zError(result));
        return file->reason;
    }
    file->is_in_member = result != Z_STREAM_END;
    return NULL;
}

static const char *read_packed(mend_packed_file *file, char *bytes, size_t size, size_t *count)
{
    z_stream *stream = &file->stream;
    stream->next_out = (Bytef *)bytes;
    stream->avail_out = (uInt)size;
    const char *reason = NULL;
    while (reason == NULL && stream->avail_out == size) {
        if (!file->is_in_member) {
            reason = begin_member(file);
            if (!file->is_in_member) {
                break;
            }
        } else {
            reason = unpack(file);
        }
    }
    *count = size - stream->avail_out;
    return reason;
}

static const char *read_plain(mend_packed_file *file, char *bytes, size_t size, size_t *count)
{
    const char *reason = file->stream.avail_in == 0 ? fill(file) : NULL;
    *count = file->stream.avail_in < size ? file->stream.avail_in : size;
    memcpy(bytes, file->stream.next_in, *count);
    file->stream.next_in += *count;
    file->stream.avail_in -= (uInt)*count;
    return reason;
}

const char *mend_packed_read(mend_packed_file *file, char *bytes, size_t size, size_t *count)
{
    *count = 0;
    const char *reason = file->is_begun ? NULL : begin(file);
    if (reason != NULL) {
        return reason;
    }
    return file->is_packed ? read_packed(file, bytes, size, count)
                           : read_plain(file, bytes, size, count);
}

void mend_packed_close(mend_packed_file *file)
{
    if (file != NULL) {
        if (file->is_packed) {
            inflateEnd(&file->stream);
        }
        fclose(file->file);
        free(file);
    }
}
