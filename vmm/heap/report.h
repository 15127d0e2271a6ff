/* The report of an allocation that found no room: where the memory is, and what would help. */
#ifndef MEND_HEAP_REPORT_H
#define MEND_HEAP_REPORT_H

#include "heap/heap.h"

/* Even with all that is free joined into one, the request would be too large. */
bool mend_report_is_hopeless(const mend_heap *heap, const mend_request *request);

/* Counts the failure, and leaves the report as the thread's error. Asks the driver how much memory
 * the device has left; the door is open, both locks are held. MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_out_of_memory(mend_heap *heap, const mend_request *request);

#endif
