/* What sleeps has no memory, so nothing outside of the pool may begin to rely on it. Guarded by
 * `state`. */
#ifndef MEND_USERS_AWAKE_H
#define MEND_USERS_AWAKE_H

#include "layout/state.h"

/* The same for a heap in which something sleeps. */
mend_result mend_users_find_asleep(const mend_heap *heap, uint64_t address, uint64_t size_bytes,
                                   const char *what);

/* MEND_ERROR_ASLEEP: a chunk of the range sleeps; `what` names the call. */
static inline mend_result mend_users_check_awake(const mend_heap *heap, uint64_t address,
                                                 uint64_t size_bytes, const char *what)
{
    return heap->chunks.asleep_count == 0 ? MEND_OK
                                          : mend_users_find_asleep(heap, address, size_bytes, what);
}

#endif
