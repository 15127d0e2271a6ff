/* The report of an allocation that found no room: where the memory is, and what would help. */
#ifndef MEND_LADDER_REPORT_H
#define MEND_LADDER_REPORT_H

#include "layout/state.h"

/* Free memory that a request could use. */
typedef struct mend_usable {
    uint64_t empty_bytes;   /* bytes of empty chunks, which can be joined */
    uint64_t longest_bytes; /* the longest stretch in one run, in a zone that the request may use */
    unsigned blocked;       /* what keeps the rest of the free memory from it */
} mend_usable;

/* What the request could use: after waits for the GPU, or in a capture, which forbids them. The
 * caller holds `state`; no driver call. O(runs + chunks). */
mend_usable mend_report_usable(const mend_heap *heap, const mend_request *request,
                               bool is_captured);

/* Whether the request would not fit even if all free memory were joined. */
bool mend_report_is_hopeless(const mend_heap *heap, const mend_request *request);

/* How much memory the device lacks for what it refused; all of it, if the driver refuses although
 * it counts enough as free. */
uint64_t mend_report_lacking_bytes(const mend_shortage *shortage);

/* How many bytes the request lacks: this much more in free chunks that its stream may use, or in
 * room to create, would be enough. At least a page. The caller holds `state`; no driver call. */
uint64_t mend_report_missing_bytes(const mend_heap *heap, const mend_request *request);

/* Notes the report as the failure, from heap->shortage and the heap; `fitting_bytes`: a
 * request of this size would have succeeded; `is_captured`: a capture in progress forbids waits.
 * The caller holds both locks; no driver call. MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_out_of_memory(mend_heap *heap, const mend_request *request,
                                      bool is_captured, uint64_t fitting_bytes);

/* The same if there was memory, but no addresses to map it: those of a range may be in use by old
 * mappings. MEND_ERROR_OUT_OF_ADDRESSES. */
mend_result mend_report_out_of_addresses(const mend_heap *heap, const mend_request *request);

/* Notes the text as the failure, never cut off whatever the numbers, with the shortfall. `advice`
 * follows the limit that would help; it may be "". MEND_ERROR_OUT_OF_MEMORY. */
mend_result mend_report_fail(const mend_shortfall *shortfall, const char *advice);

#endif
