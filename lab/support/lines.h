/* The lines of a file, plain or compressed by gzip. */
#ifndef MEND_LAB_SUPPORT_LINES_H
#define MEND_LAB_SUPPORT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/support/packed.h"

/* What a compressed file may grow to. */
#define MEND_MOST_TEXT_BYTES (UINT64_C(1) << 32)

enum { MEND_LINE_BYTES = 4096, MEND_LINE_BUFFER_BYTES = 65536 };

typedef struct mend_line_source {
    const char *path;
    mend_packed_file *file;
    char buffer[MEND_LINE_BUFFER_BYTES];
    size_t buffer_start;
    size_t buffer_end;
    char line[MEND_LINE_BYTES + 1]; /* without its end (LF or CRLF), closed by a 0 */
    size_t line_length;
    uint64_t bytes_left;  /* MEND_MOST_TEXT_BYTES at first, or less */
    uint64_t line_number; /* the first is 1 */
    bool ended;           /* there was no further line */
} mend_line_source;

/* MEND_OK; MEND_ERROR_INVALID_ARGUMENT with the reason; MEND_ERROR_OUT_OF_HOST_MEMORY. `path` is
 * borrowed until close. */
mend_result mend_line_source_open(mend_line_source *source, const char *path);

/* Moves to the next line, or sets `ended`. MEND_ERROR_INVALID_ARGUMENT: damaged data, a line that
 * is too long or holds a 0, more bytes than there may be. */
mend_result mend_line_source_next(mend_line_source *source);

/* MEND_ERROR_INVALID_ARGUMENT with the message "path:line: reason". */
__attribute__((format(printf, 2, 3))) mend_result
mend_line_source_fail(const mend_line_source *source, const char *format, ...);

void mend_line_source_close(mend_line_source *source);

#endif
