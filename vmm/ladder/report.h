/* The report of an allocation that found no room: where the memory is, and what would help. */
#ifndef MEND_LADDER_REPORT_H
#define MEND_LADDER_REPORT_H

#include "layout/state.h"

/* Even with all that is free joined into one, the request would be too large. */
bool mend_report_is_hopeless(const mend_heap *heap, const mend_request *request);

/* What a request lacks of free chunks that its stream may use and of room to create: as much more
 * of either would do. At least a page. `state` is held; no driver call. */
uint64_t mend_report_missing_bytes(const mend_heap *heap, const mend_request *request);

/* Leaves the report as the thread's error: of what heap->shortage and the heap say now. Both locks
 * are held; no driver call. MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_out_of_memory(const mend_heap *heap, const mend_request *request);

/* Leaves the text as the thread's error, whole whatever the numbers, and the numbers beside it. The
 * advice is that for whom no limit would do. MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_fail(const mend_shortfall *shortfall, const char *advice);

#endif
