/*
 * Sleep, as a transaction: it freezes its chunks, so that no thread takes or reuses memory in them,
 * copies their contents away, and only then unmaps them; what cannot be done is undone. What a
 * sleeping chunk is: physical/asleep.h.
 *
 * The caller holds both locks, and no driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_SLEEP_SLEEP_H
#define MEND_SLEEP_SLEEP_H

#include "sleep/keep.h"

/* As mend_sleep; `options` and `report` are of full size. */
mend_result mend_sleep_put(mend_heap *heap, const mend_sleep_options *options,
                           mend_sleep_report *report);

#endif
