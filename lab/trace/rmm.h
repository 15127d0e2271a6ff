/*
 * The log of RMM: Thread,Time,Action,Pointer,Size,Stream. A pointer names a block, and may be
 * reused after the block's free. Streams and threads are names too. A wrong line is refused with
 * its number.
 */
#ifndef MEND_LAB_TRACE_RMM_H
#define MEND_LAB_TRACE_RMM_H

#include "lab/support/lines.h"
#include "lab/trace/detail.h"

/* Whether the source's line is the first one of such a log. */
bool mend_trace_is_rmm_log(const mend_line_source *source);

/* Reads the rest after that line. `detail`: as mend_trace_read_with. Errors as mend_trace_read. */
mend_result mend_trace_read_rmm_log(mend_line_source *source, mend_trace_detail *detail,
                                    mend_trace **trace);

#endif
