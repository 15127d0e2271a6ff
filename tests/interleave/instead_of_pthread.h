/*
 * Included before vmm/base/thread.c where it is compiled once more for this program: the same file,
 * with its ranks and assertions, over a scheduler in place of the system's locks.
 */
#ifndef MEND_TESTS_INTERLEAVE_INSTEAD_OF_PTHREAD_H
#define MEND_TESTS_INTERLEAVE_INSTEAD_OF_PTHREAD_H

#include <pthread.h>

int schedule_mutex_destroy(pthread_mutex_t *mutex);
int schedule_mutex_lock(pthread_mutex_t *mutex);
int schedule_mutex_trylock(pthread_mutex_t *mutex);
int schedule_mutex_unlock(pthread_mutex_t *mutex);
int schedule_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int schedule_cond_broadcast(pthread_cond_t *condition);

#ifndef SCHEDULE_ITSELF
#define pthread_mutex_destroy  schedule_mutex_destroy
#define pthread_mutex_lock     schedule_mutex_lock
#define pthread_mutex_trylock  schedule_mutex_trylock
#define pthread_mutex_unlock   schedule_mutex_unlock
#define pthread_cond_wait      schedule_cond_wait
#define pthread_cond_broadcast schedule_cond_broadcast
#endif

#endif
