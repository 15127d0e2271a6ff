/* Giving wholly free chunks back, for callers whose door is open already. */
#ifndef MEND_HEAP_TRIM_H
#define MEND_HEAP_TRIM_H

#include "heap/state.h"

/* As mend_heap_trim, behind an open door. */
mend_result mend_heap_trim_inside(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes);

/* Gives back the smallest wholly free, idle chunk of at least so many bytes that the last plan
 * would not use. False where there is none, or it could not be given back: it stays, as free
 * memory. Reaches the driver; fails only when the context is lost. */
mend_result mend_trim_one(mend_heap *heap, uint32_t asking, uint64_t least_bytes, bool *released);

/* Addresses are short: unmaps wholly free chunks that are idle, which stay as memory that can be
 * mapped anywhere, and gives empty reservations back. True when that has freed any addresses.
 * Reaches the driver; what it refuses stays. */
bool mend_trim_addresses(mend_heap *heap, uint32_t asking);

#endif
