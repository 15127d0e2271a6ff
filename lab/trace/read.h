/* Reads traces from files of all known formats (docs/formats/replay.md). */
#ifndef MEND_LAB_TRACE_READ_H
#define MEND_LAB_TRACE_READ_H

#include "lab/trace/detail.h"

/*
 * Reads a file, plain or compressed by gzip. The caller destroys *trace. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT: the file or a line is wrong, and mend_get_last_error names file,
 * line and reason; MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_trace_read(const char *path, mend_trace **trace);

/*
 * The same with the other data of the file, in an initialized detail that the caller clears, after
 * a failure too. Blocks from before the recording are then the first events. A NULL detail: as
 * mend_trace_read.
 */
mend_result mend_trace_read_with(const char *path, mend_trace_detail *detail, mend_trace **trace);

#endif
