/* What sleeps has no memory, so nothing outside of the pool may begin to rely on it. Guarded by
 * `state`. */
#ifndef MEND_USERS_AWAKE_H
#define MEND_USERS_AWAKE_H

#include "layout/state.h"

/* MEND_ERROR_ASLEEP: a chunk of the range sleeps; `what` names the call. */
mend_result mend_users_check_awake(const mend_heap *heap, uint64_t address, uint64_t size_bytes,
                                   const char *what);

#endif
