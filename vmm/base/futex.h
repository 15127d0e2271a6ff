/*
 * A lock in one word, and a wait for a change: what base/mutex.h counts by rank. A lock of pthreads
 * asks of what type it is and notes who has it, for 110 instructions a pair of alloc and free.
 *
 * A word is 0 while the lock is free, 1 while a thread has it, 2 while others may wait as well.
 */
#ifndef MEND_BASE_FUTEX_H
#define MEND_BASE_FUTEX_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct mend_futex {
    atomic_uint word;
} mend_futex;

/* Threads that wait raise and lower `waiting` while they have the lock. */
typedef struct mend_futex_change {
    atomic_uint number;
    atomic_uint waiting;
} mend_futex_change;

/* Sleeps until the word is woken, or is not `value`, or for no reason; wakes so many threads. Both
 * keep errno, and are defined in mutex.c. */
void mend_futex_sleep(atomic_uint *word, unsigned value);
void mend_futex_wake(atomic_uint *word, int most);

static inline bool mend_futex_is_free(mend_futex *lock)
{
    return atomic_load_explicit(&lock->word, memory_order_relaxed) == 0;
}
static inline bool mend_futex_try_lock(mend_futex *lock)
{
    unsigned is_free = 0;
    return atomic_compare_exchange_strong_explicit(&lock->word, &is_free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}
static inline void mend_futex_lock(mend_futex *lock)
{
    if (!mend_futex_try_lock(lock)) {
        while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0) {
            mend_futex_sleep(&lock->word, 2);
        }
    }
}

/* The next owner may destroy the lock at once: a wake at its address does no harm. */
static inline void mend_futex_unlock(mend_futex *lock)
{
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2) {
        mend_futex_wake(&lock->word, 1);
    }
}

/* Releases the lock, sleeps, and takes it again. */
static inline void mend_futex_await(mend_futex_change *change, mend_futex *lock)
{
    atomic_fetch_add_explicit(&change->waiting, 1, memory_order_relaxed);
    const unsigned number = atomic_load_explicit(&change->number, memory_order_relaxed);
    mend_futex_unlock(lock);
    mend_futex_sleep(&change->number, number);
    mend_futex_lock(lock);
    atomic_fetch_sub_explicit(&change->waiting, 1, memory_order_relaxed);
}
/* Who changes something under the lock sees here whoever waited before. */
static inline void mend_futex_tell(mend_futex_change *change)
{
    if (atomic_load_explicit(&change->waiting, memory_order_relaxed) > 0) {
        atomic_fetch_add_explicit(&change->number, 1, memory_order_relaxed);
        mend_futex_wake(&change->number, INT_MAX);
    }
}

#endif
