/* The figures of mend_stats, read from the heap. */
#ifndef MEND_OBSERVE_STATISTICS_H
#define MEND_OBSERVE_STATISTICS_H

#include "layout/state.h"

/* Fills every figure; struct_size is left alone. O(empty chunks), no driver call; under the
 * pool's lock. */
void mend_observe_statistics(mend_heap *heap, mend_stats *stats);

/* Sets every peak to its current value. */
void mend_observe_reset_peaks(mend_heap *heap);

#endif
