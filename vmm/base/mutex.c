#include "base/mutex.h"

#include <assert.h>

#include "base/process.h"

void mend_mutex_init(mend_mutex *mutex, mend_lock_rank rank)
{
    pthread_mutex_init(&mutex->mutex, NULL);
    mutex->rank = rank;
}

void mend_mutex_destroy(mend_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->mutex);
}

void mend_mutex_lock(mend_mutex *mutex)
{
#ifndef NDEBUG
    unsigned *held = mend_process_held_ranks();
    assert((*held >> mutex->rank) == 0 && "locks are taken in rising order of rank");
    *held |= 1u << mutex->rank;
#endif
    pthread_mutex_lock(&mutex->mutex);
}

void mend_mutex_unlock(mend_mutex *mutex)
{
    pthread_mutex_unlock(&mutex->mutex);
#ifndef NDEBUG
    *mend_process_held_ranks() &= ~(1u << mutex->rank);
#endif
}

bool mend_mutex_try_lock(mend_mutex *mutex)
{
    if (pthread_mutex_trylock(&mutex->mutex) != 0) {
        return false;
    }
#ifndef NDEBUG
    *mend_process_held_ranks() |= 1u << mutex->rank;
#endif
    return true;
}

void mend_condition_init(mend_condition *condition)
{
    pthread_cond_init(&condition->condition, NULL);
}

void mend_condition_destroy(mend_condition *condition)
{
    pthread_cond_destroy(&condition->condition);
}

void mend_condition_wait(mend_condition *condition, mend_mutex *mutex)
{
#ifndef NDEBUG
    unsigned *held = mend_process_held_ranks();
    assert((*held >> mutex->rank) == 1 && "only the innermost lock can be let go in a wait");
    *held &= ~(1u << mutex->rank);
#endif
    pthread_cond_wait(&condition->condition, &mutex->mutex);
#ifndef NDEBUG
    *held |= 1u << mutex->rank;
#endif
}

void mend_condition_wake_all(mend_condition *condition)
{
    pthread_cond_broadcast(&condition->condition);
}
