/* Fills mend_stats from the heap. */
#ifndef MEND_OBSERVE_STATISTICS_H
#define MEND_OBSERVE_STATISTICS_H

#include "layout/state.h"

/* Fills every field except struct_size. O(empty chunks), no driver call; the caller holds
 * `state`. */
void mend_observe_statistics(mend_heap *heap, mend_stats *stats);

/* Sets every peak to its current value. */
void mend_observe_reset_peaks(mend_heap *heap);

#endif
