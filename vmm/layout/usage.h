/* What the process uses of the device, with peaks of the sums. */
#ifndef MEND_LAYOUT_USAGE_H
#define MEND_LAYOUT_USAGE_H

#include "layout/state.h"

/* Call it after each change of what rows have beside their counters, with `state` still held. */
void mend_usage_note(mend_heap *heap);

void mend_usage_reset_peaks(mend_heap *heap);

/* The peak of a counter (MEND_USE_...), whatever is beside it. */
uint64_t mend_usage_counter_peak(const mend_heap *heap, int number, int part);

/* What is used outside of the pool from now on; and all rows. */
void mend_usage_set_outside(mend_heap *heap, const mend_usage *outside);
void mend_usage_fill(mend_heap *heap, mend_usage *to);

/* A span has become free memory of a run, with several waits: it is pending if another stream than
 * that which freed it may still use it. And it is taken, or changes its size. */
void mend_usage_begin_pending(mend_heap *heap, mend_span *span, uint32_t freed_on);
void mend_usage_end_pending(mend_heap *heap, mend_span *span);
static inline bool mend_span_is_pending(const mend_span *span)
{
    return span->pending.next != NULL;
}

/* Finds those that no stream uses any more, as far as is known: one, which is pending if true is
 * returned; and all. */
bool mend_usage_look(mend_heap *heap, mend_span *span);
void mend_usage_settle(mend_heap *heap);

#endif
