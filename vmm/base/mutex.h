/*
 * A lock with a rank. A thread takes locks only in rising order of rank; debug builds assert it.
 */
#ifndef MEND_BASE_MUTEX_H
#define MEND_BASE_MUTEX_H

#include <pthread.h>

/* From the outermost lock to the innermost. */
typedef enum mend_lock_rank {
    MEND_RANK_PROCESS = 1, /* the list of pools, the loaded driver */
    MEND_RANK_POOL = 2,    /* one pool's heap and statistics */
    MEND_RANK_DRIVER = 3,  /* decorators and the simulated device */
    MEND_RANK_LOG = 4
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

#endif
