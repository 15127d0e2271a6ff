/* Locks of pthreads. Debug builds count the locks of each rank that a thread holds, in one number a
 * thread. */
#include "base/thread.h"

#include <assert.h>
#include <limits.h>

#ifdef NDEBUG

#define count_taken(rank)  ((void)(rank))
#define count_let_go(rank) ((void)(rank))

#else

enum { BITS_A_RANK = 4 };
static_assert((size_t)BITS_A_RANK * (MEND_RANK_LOG + 1) <= sizeof(unsigned) * CHAR_BIT,
              "the locks of each rank that a thread holds are counted in one number");

/* The counts of locks that the thread holds, shifted so that the count of `rank` is in the lowest
 * bits. */
static unsigned held_from(mend_lock_rank rank)
{
    return *mend_process_held_ranks() >> (BITS_A_RANK * rank);
}

static unsigned held_of(mend_lock_rank rank)
{
    return held_from(rank) % (1u << BITS_A_RANK);
}

bool mend_mutex_is_held(const mend_mutex *mutex)
{
    return mutex->rank == 0 || held_of(mutex->rank) > 0;
}

bool mend_mutex_none_is_held_from(mend_lock_rank rank)
{
    return held_from(rank) == 0;
}

static void count_taken(mend_lock_rank rank)
{
    assert(held_of(rank) + 1 < 1u << BITS_A_RANK);
    *mend_process_held_ranks() += 1u << (BITS_A_RANK * rank);
}

static void count_let_go(mend_lock_rank rank)
{
    const bool is_held = held_of(rank) > 0;
    assert((is_held || mend_process_generation() > 1) && "else it was taken before a fork");
    if (is_held) {
        *mend_process_held_ranks() -= 1u << (BITS_A_RANK * rank);
    }
}

#endif

void mend_mutex_init(mend_mutex *mutex, mend_lock_rank rank)
{
    assert(rank >= MEND_RANK_PROCESS);
    assert(rank <= MEND_RANK_LOG);
    pthread_mutex_init(&mutex->mutex, NULL);
    mutex->rank = rank;
}

void mend_mutex_destroy(mend_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->mutex);
}

void mend_mutex_lock(mend_mutex *mutex)
{
    assert(held_from(mutex->rank) == 0 && "locks are taken in rising order of rank");
    pthread_mutex_lock(&mutex->mutex);
    count_taken(mutex->rank);
}

void mend_mutex_unlock(mend_mutex *mutex)
{
    mend_lock_rank rank = mutex->rank; /* read before the unlock: the next owner may destroy the
                                        * mutex */
    pthread_mutex_unlock(&mutex->mutex);
    count_let_go(rank);
}

bool mend_mutex_try_lock(mend_mutex *mutex)
{
    if (pthread_mutex_trylock(&mutex->mutex) != 0) {
        return false;
    }
    count_taken(mutex->rank);
    return true;
}

void mend_condition_wait(pthread_cond_t *condition, mend_mutex *mutex)
{
    assert(held_from(mutex->rank) == 1 && "only the innermost lock can be released in a wait");
    count_let_go(mutex->rank);
    pthread_cond_wait(condition, &mutex->mutex);
    count_taken(mutex->rank);
}

void mend_condition_wake_all(pthread_cond_t *condition)
{
    pthread_cond_broadcast(condition);
}
