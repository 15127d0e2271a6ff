/* Giving wholly free chunks back, for callers whose door is open already. */
#ifndef MEND_HEAP_TRIM_H
#define MEND_HEAP_TRIM_H

#include "heap/state.h"

/* As mend_heap_trim, behind an open door. */
mend_result mend_heap_trim_inside(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes);

#endif
