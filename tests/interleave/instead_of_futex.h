/*
 * Included before vmm/base/mutex.c where it is compiled once more for this program: the same file,
 * with its ranks and assertions, over a scheduler in place of the system's locks.
 */
#ifndef MEND_TESTS_INTERLEAVE_INSTEAD_OF_FUTEX_H
#define MEND_TESTS_INTERLEAVE_INSTEAD_OF_FUTEX_H

#include "base/futex.h"

bool schedule_is_free(mend_futex *lock);
void schedule_lock(mend_futex *lock);
bool schedule_try_lock(mend_futex *lock);
void schedule_unlock(mend_futex *lock);
void schedule_await(mend_futex_change *change, mend_futex *lock);
void schedule_tell(mend_futex_change *change);

#ifndef SCHEDULE_ITSELF
#define mend_futex_is_free  schedule_is_free
#define mend_futex_lock     schedule_lock
#define mend_futex_try_lock schedule_try_lock
#define mend_futex_unlock   schedule_unlock
#define mend_futex_await    schedule_await
#define mend_futex_tell     schedule_tell
#endif

#endif
