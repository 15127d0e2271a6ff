/* The bytes of a file, plain or compressed by gzip, through a buffer. */
#ifndef MEND_LAB_SUPPORT_BYTES_H
#define MEND_LAB_SUPPORT_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "lab/support/packed.h"

/* The most bytes that a file may have, unpacked. A small file, which may be made to unpack to far
 * more, may have so many, and so many times its own size. */
#define MEND_MOST_FILE_BYTES (UINT64_C(1) << 32)
#define MEND_ANY_FILE_BYTES  (UINT64_C(64) << 20)
#define MEND_MOST_UNPACKED   UINT64_C(256)

enum { MEND_BYTE_BUFFER_BYTES = 65536 };

typedef struct mend_byte_source {
    const char *path;
    mend_packed_file *file;
    size_t start; /* of the unread part of the buffer */
    size_t end;
    uint64_t before; /* bytes of the file before the buffer */
    uint64_t left;   /* of the allowed bytes */
    uint64_t most;   /* most bytes of the file, and most memory of its contents */
    char buffer[MEND_BYTE_BUFFER_BYTES];
} mend_byte_source;

/* MEND_OK; MEND_ERROR_INVALID_ARGUMENT with the reason; MEND_ERROR_OUT_OF_HOST_MEMORY. `path` is
 * borrowed until close. */
mend_result mend_byte_source_open(mend_byte_source *source, const char *path);

/* Reads more when the buffer is empty. If it stays empty, the file has ended. NULL, or the reason
 * for a failure, which is valid as long as the file. */
const char *mend_byte_source_fill(mend_byte_source *source);

/* The next `count` bytes. Where `bytes` is NULL they are skipped. A file that ends before is a
 * failure. */
const char *mend_byte_source_take(mend_byte_source *source, void *bytes, uint64_t count);

/* How many bytes were taken. */
static inline uint64_t mend_byte_source_position(const mend_byte_source *source)
{
    return source->before + source->start;
}

void mend_byte_source_close(mend_byte_source *source);

#endif
