/*
 * Fitting: where in the free memory that is mapped already a request goes. Best fit while pressure
 * is low; when the limit comes near, the place among those that fit that breaks fewest empty
 * chunks.
 */
#ifndef MEND_POLICY_FIT_H
#define MEND_POLICY_FIT_H

#include "layout/layout.h"

typedef struct mend_fit {
    mend_run *run; /* NULL: nothing fits */
    uint64_t address;
} mend_fit;

/* Looks in one zone among runs not above `largest_bytes` which the request's stream may use.
 * Changes nothing but joins idle spans; no driver call. */
mend_fit mend_fit_find(mend_heap *heap, const mend_request *request, int zone,
                       uint64_t largest_bytes);

/* The same at every place of every run, in a time proportional to the free spans: for a request
 * that would wait otherwise, or run out of memory. What is held for graphs does not hide what lies
 * beside it.
 */
mend_fit mend_fit_find_anywhere(mend_heap *heap, const mend_request *request, int zone);

#endif
