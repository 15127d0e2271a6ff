/*
 * Fitting: where a request goes in free mapped memory. While pressure is low: best fit. Near the
 * limit: among the places that fit, the one that breaks the fewest bytes of empty chunks.
 */
#ifndef MEND_POLICY_FIT_H
#define MEND_POLICY_FIT_H

#include "layout/layout.h"

typedef struct mend_fit {
    mend_run *run; /* NULL: nothing fits */
    uint64_t address;
} mend_fit;

/* Searches one zone, among runs not above `largest_bytes` that the request's stream may use.
 * Changes nothing except that it joins idle spans; no driver call. */
mend_fit mend_fit_find(mend_heap *heap, const mend_request *request, int zone,
                       uint64_t largest_bytes);

/* Searches every place of every run; the time is proportional to the number of free spans. For a
 * request that would otherwise wait or fail. Memory held for graphs does not hide the memory beside
 * it. */
mend_fit mend_fit_find_anywhere(mend_heap *heap, const mend_request *request, int zone);

#endif
