/*
 * RMM's log: Thread,Time,Action,Pointer,Size,Stream. Pointers name blocks and are reused after
 * their free; streams and threads are names too. What does not fit is refused with its line.
 */
#ifndef MEND_LAB_TRACE_RMM_H
#define MEND_LAB_TRACE_RMM_H

#include "lab/support/lines.h"
#include "lab/trace/trace.h"

/* Whether the source's line is the first one of such a log. */
bool mend_trace_is_rmm_log(const mend_line_source *source);

/* Reads what follows that line. Errors as mend_trace_read. */
mend_result mend_trace_read_rmm_log(mend_line_source *source, mend_trace **trace);

#endif
