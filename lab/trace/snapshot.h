/*
 * PyTorch's memory snapshot, as torch.cuda.memory._dump_snapshot writes it (a pickle), or the same
 * as JSON: the events of the device that has most of them.
 */
#ifndef MEND_LAB_TRACE_SNAPSHOT_H
#define MEND_LAB_TRACE_SNAPSHOT_H

#include "lab/support/bytes.h"
#include "lab/trace/detail.h"

/* Whether the source's buffer may be the begin of such a file. */
bool mend_trace_is_snapshot(const mend_byte_source *source);

/* Reads all of the source. `detail`: as mend_trace_read_with. Errors as mend_trace_read. */
mend_result mend_trace_read_snapshot(mend_byte_source *source, mend_trace_detail *detail,
                                     mend_trace **trace);

#endif
