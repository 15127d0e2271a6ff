/* The lines of a file, plain or compressed by gzip. */
#ifndef MEND_LAB_SUPPORT_LINES_H
#define MEND_LAB_SUPPORT_LINES_H

#include <stdbool.h>

#include "lab/support/bytes.h"

enum { MEND_LINE_BYTES = 4096 };

typedef struct mend_line_source {
    mend_byte_source bytes;
    char line[MEND_LINE_BYTES + 1]; /* without its end (LF or CRLF), ends with a 0 */
    size_t line_length;
    uint64_t line_number; /* the first is 1 */
    bool lacks_end;       /* the file ended before the line did */
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
