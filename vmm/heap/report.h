/* The report of an allocation that found no room: where the memory is, and what would help. */
#ifndef MEND_HEAP_REPORT_H
#define MEND_HEAP_REPORT_H

#include "heap/state.h"

/* Even with all that is free joined into one, the request would be too large. */
bool mend_report_is_hopeless(const mend_heap *heap, const mend_request *request);

/* What a request lacks of free chunks that its stream may use and of room to create: as much more
 * of either would do. At least a page. `state` is held; no driver call. */
uint64_t mend_report_missing_bytes(const mend_heap *heap, const mend_request *request);

/* Leaves the report as the thread's error: of what heap->shortage and the heap say now. Both locks
 * are held; no driver call. MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_out_of_memory(const mend_heap *heap, const mend_request *request);

/* What the report says, in bytes. */
enum { MEND_ADVICE_BYTES = 128 };
typedef struct mend_report {
    uint64_t requested;
    uint64_t limit;
    uint64_t reserved;
    uint64_t live;
    uint64_t whole;      /* free, in chunks wholly free */
    uint64_t partial;    /* free, beside live blocks */
    uint64_t in_use;     /* free, but work of streams may still use it */
    uint64_t streamless; /* freed without a stream: only a wait for the context makes it idle */
    uint64_t in_group;   /* held for graphs */
    uint64_t emptiest;   /* free in the chunk with most free bytes among those partly used */
    uint64_t holder;     /* address of a block that holds it; 0: there is none */
    uint64_t holder_bytes;
    uint64_t device_free;
    uint64_t device_others; /* neither free nor of the pool */
    char advice[MEND_ADVICE_BYTES];
} mend_report;

/* Leaves the text as the thread's error, whole whatever the numbers. MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_fail(const mend_report *report);

#endif
