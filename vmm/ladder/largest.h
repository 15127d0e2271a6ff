/* The largest request that would succeed: asks the planner for one size after the other, and
 * carries nothing out. */
#ifndef MEND_LADDER_LARGEST_H
#define MEND_LADDER_LARGEST_H

#include "policy/ends.h"

/* What is asked, and what kept the answer from being complete. */
typedef struct mend_question {
    mend_heap *heap;
    bool is_captured;       /* the pool knows of a capture: nothing can be unmapped */
    bool creates_nothing;   /* creation would make the host wait first */
    bool lacks_host_memory; /* the answer failed because malloc failed */
    mend_ends ends[2];      /* while it looks: for requests without a device wait, and with one */
} mend_question;

/* The bytes that are free or can be created: no request above this can succeed. The caller holds
 * `state`. */
uint64_t mend_largest_thinkable(const mend_heap *heap);

/* The size of the largest request like `asking` that finds a place, up to `most_bytes`; 0: none
 * does. The caller holds both locks; no driver call. */
uint64_t mend_largest_up_to(mend_question *q, const mend_request *asking, uint64_t most_bytes);

/* A size below the refused one that would have succeeded instead, with waits of the host and
 * without compactions: the largest that at most two plans find, so often and not always the
 * largest; 0: none. It counts what heap->shortage says of the device. The caller holds both locks;
 * no driver call. */
uint64_t mend_largest_instead(mend_heap *heap, const mend_request *refused, bool is_captured);

#endif
