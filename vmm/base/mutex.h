/*
 * A lock with a rank. A thread may wait for a lock only while it holds no lock of the same or a
 * higher rank. Debug builds assert it. Locks may be released in any order.
 */
#ifndef MEND_BASE_MUTEX_H
#define MEND_BASE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

/* From the outermost lock to the innermost. */
typedef enum mend_lock_rank {
    MEND_RANK_PROCESS = 1, /* the list of pools, the loaded driver */
    MEND_RANK_GROW = 2,    /* one pool's right to change mappings. Held during slow driver calls */
    MEND_RANK_POOL = 3,    /* one pool's heap and statistics. Released during slow driver calls */
    MEND_RANK_DRIVER = 4,  /* decorators and the simulated device */
    MEND_RANK_SHARE = 5,   /* exports of the process, and its begun graph pools */
    MEND_RANK_LOG = 6
} mend_lock_rank;

typedef struct mend_mutex {
    pthread_mutex_t mutex;
    mend_lock_rank rank;
} mend_mutex;

#define MEND_MUTEX_INITIALIZER(lock_rank)                                                          \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, lock_rank                                                       \
    }

void mend_mutex_init(mend_mutex *mutex, mend_lock_rank rank);
void mend_mutex_destroy(mend_mutex *mutex);
void mend_mutex_lock(mend_mutex *mutex);
void mend_mutex_unlock(mend_mutex *mutex);

/* Takes the lock if it is free. Never waits, so any order of ranks is allowed. The lock then counts
 * like any other. */
bool mend_mutex_try_lock(mend_mutex *mutex);

/* For assertions: whether the calling thread holds a lock of this one's rank. Whether it holds none
 * of a rank or of a higher one. A lock that was never initialized, as in a heap that a test lays
 * out by hand, counts as held. */
#ifndef NDEBUG
bool mend_mutex_is_held(const mend_mutex *mutex);
bool mend_mutex_none_is_held_from(mend_lock_rank rank);
#endif

/* Waits for a change that another thread makes under the mutex. Wakeups without a change are
 * possible. */
typedef struct mend_condition {
    pthread_cond_t condition;
} mend_condition;

#define MEND_CONDITION_INITIALIZER                                                                 \
    {                                                                                              \
        PTHREAD_COND_INITIALIZER                                                                   \
    }

void mend_condition_init(mend_condition *condition);
void mend_condition_destroy(mend_condition *condition);

/* Releases the mutex, waits, and takes it again. The mutex is the innermost one that the caller
 * holds. */
void mend_condition_wait(mend_condition *condition, mend_mutex *mutex);
void mend_condition_wake_all(mend_condition *condition);

#endif
