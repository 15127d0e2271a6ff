/*
 * Waking, as a transaction: it takes all memory, maps it, and copies the contents back, before any
 * chunk is usable; if that fails, all of it is given back.
 *
 * The caller holds both locks, and no driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_SLEEP_WAKE_H
#define MEND_SLEEP_WAKE_H

#include "layout/state.h"
#include "mend/mend_sleep.h"

/* As mend_wake, without the help of others. After MEND_ERROR_OUT_OF_MEMORY, *lacking_bytes is what
 * the device or the limit lacked. */
mend_result mend_sleep_wake(mend_heap *heap, const uint64_t *tags, size_t tag_count,
                            mend_wake_report *report, uint64_t *lacking_bytes);

#endif
