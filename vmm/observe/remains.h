/* What still lives in a pool that is destroyed: in words, for the log. */
#ifndef MEND_OBSERVE_REMAINS_H
#define MEND_OBSERVE_REMAINS_H

#include <stdbool.h>

#include "layout/state.h"

enum { MEND_REMAINS_BYTES = 256 };

/* How many blocks live, of how many bytes, and the three largest of them. False, and "": none does.
 * `state` is held, or nobody else uses the heap. O(n). */
bool mend_observe_remains(const mend_heap *heap, char line[MEND_REMAINS_BYTES]);

#endif
