/*
 * Waking, as a transaction: it takes all memory, maps it, and copies the contents back, before any
 * chunk is usable; if that fails, all of it is given back.
 *
 * The caller holds both locks, and no driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_SLEEP_WAKE_H
#define MEND_SLEEP_WAKE_H

#include "ladder/trim.h"
#include "mend/mend_sleep.h"

/* As mend_wake, without the help of others. After MEND_ERROR_OUT_OF_MEMORY, *need says what the
 * device or the limit lacked, and of what; not whether others may wait. */
mend_result mend_sleep_wake(mend_heap *heap, const uint64_t *tags, size_t tag_count,
                            mend_wake_report *report, mend_need *need);

#endif
