/* The blocks that are still live when a pool is destroyed, in words for the log. */
#ifndef MEND_OBSERVE_REMAINS_H
#define MEND_OBSERVE_REMAINS_H

#include <stdbool.h>

#include "layout/state.h"

enum { MEND_REMAINS_BYTES = 256 };

/* Writes how many blocks are live, their bytes, and the three largest. False, and "": none is live.
 * The caller holds `state`, or no other thread uses the heap. O(n). */
bool mend_observe_remains(const mend_heap *heap, char line[MEND_REMAINS_BYTES]);

#endif
