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
