/*
 * Memory given back: at once, behind waits of the host, for a peer pool, or because of a lower
 * limit.
 *
 * Both locks are held; no driver scope is open. Errors as the calls of mend.h.
 */
#ifndef MEND_LADDER_TRIM_H
#define MEND_LADDER_TRIM_H

#include "layout/state.h"

/* As mend_trim. */
mend_result mend_ladder_trim(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes);

/* As mend_trim_wait. */
mend_result mend_ladder_trim_wait(mend_heap *heap, uint64_t keep_bytes, uint64_t *released_bytes);

/* For another pool of the device: about so many bytes of memory, and all addresses that are empty.
 * True when anything went back. */
bool mend_ladder_give_back(mend_heap *heap, uint64_t bytes);

/* As mend_set_limit. */
mend_result mend_ladder_set_limit(mend_heap *heap, uint64_t limit_bytes);

#endif
