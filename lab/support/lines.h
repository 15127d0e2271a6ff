/* The lines of a file, plain or compressed by gzip. */
#ifndef MEND_LAB_SUPPORT_LINES_H
#define MEND_LAB_SUPPORT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/support/packed.h"

/* The most bytes that a compressed file may have when it is unpacked. */
#define MEND_MOST_TEXT_BYTES (UINT64_C(1) << 32)

enum { MEND_LINE_BYTES = 4096, MEND_LINE_BUFFER_BYTES = 65536 };

typedef struct mend_line_source {
    const char *path;
    mend_packed_file *file;
    char buffer[MEND_LINE_BUFFER_BYTES];
    size_t buffer_start;
    size_t buffer_end;
    char line[MEND_LINE_BYTES + 1]; /* without its end (LF or CRLF), ends with a 0 */
    size_t line_length;
    uint64_t bytes_left;  /* at most MEND_MOST_TEXT_BYTES */
    uint64_t line_number; /* the first is 1 */
    bool ended;           /* there is no further line */
} mend_line_source;

/* MEND_OK; MEND_ERROR_INVALID_ARGUMENT with the reason; MEND_ERROR_OUT_OF_HOST_MEMORY. `path` is
 * borrowed until close. */
mend_result mend_line_source_open(mend_line_source *source, const char *path);

/* Moves to the next line, or sets `ended`. MEND_ERROR_INVALID_ARGUMENT: damaged data, a line that
 * is too long or contains a 0, or too many bytes. */
mend_result mend_line_source_next(mend_line_source *source);

/* MEND_ERROR_INVALID_ARGUMENT with the message "path:line: reason". */
__attribute__((format(printf, 2, 3))) mend_result
mend_line_source_fail(const mend_line_source *source, const char *format, ...);

void mend_line_source_close(mend_line_source *source);

#endif
