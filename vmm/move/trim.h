/* Giving empty chunks back, for callers inside a driver scope already. */
#ifndef MEND_MOVE_TRIM_H
#define MEND_MOVE_TRIM_H

#include "policy/plan.h"

/* Maps again what is missing, and gives back idle empty chunks until no more than `keep_bytes` are
 * reserved. Errors as mend_trim. */
mend_result mend_trim_to(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes);

/* Gives back the smallest empty, idle chunk of at least what the plan lacks that the plan would not
 * use. False where there is none, or it could not be given back: it stays, as free memory. Reaches
 * the driver; fails only when the context is lost. */
mend_result mend_trim_one(mend_heap *heap, uint32_t asking, mend_plan *plan, bool *released);

/* Addresses are short: unmaps empty chunks that are idle, which stay as memory that can be
 * mapped anywhere, and gives empty reservations back. True when that has freed any addresses.
 * Reaches the driver; what it refuses stays. */
bool mend_trim_addresses(mend_heap *heap, uint32_t asking);

#endif
