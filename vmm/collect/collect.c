/* The thread begins with the pool, and ends when the pool is left. */
#include "collect/collect.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/system.h"
#include "pool/pool.h"

/* A process that waits for memory of others does so for MEND_OTHERS_PATIENCE_MS. */
enum { PERIOD_WITH_FILE_MS = 10, SHORTEST_MS = 10, USUAL_MS = 250, PERIODS_OF_IDLE = 4 };
static_assert(PERIOD_WITH_FILE_MS * 4 <= MEND_OTHERS_PATIENCE_MS, "others wait long enough");

static void offer(mend_pool *pool, bool gives_back)
{
    if (pool->others != NULL) {
        pool->others->offer(pool->others, 0, gives_back, 0);
    }
}

static void *collect(void *context)
{
    mend_pool *pool = context;
    struct pollfd bell = {.fd = pool->collector->bell, .events = POLLIN};
    mend_result result = MEND_OK;
    int rung = 0;
    while (result != MEND_ERROR_DEVICE_LOST && result != MEND_ERROR_FORKED) {
        rung = poll(&bell, 1, pool->collector->period_ms);
        if (rung > 0) {
            break;
        }
        result = mend_pool_collect(pool, 0, NULL);
    }
    if (rung <= 0) {
        offer(pool, false); /* others need not wait for it any more */
    }
    return NULL;
}

/* After a failure nothing is left. */
static mend_result start(mend_pool *pool)
{
    struct mend_collector *collector = calloc(1, sizeof(*collector));
    if (collector == NULL) {
        return mend_no_host_memory("a pool");
    }
    const uint64_t period_ms = pool->idle_ns / UINT64_C(1000000) / PERIODS_OF_IDLE;
    collector->period_ms = pool->others != NULL && pool->others->has_members
                               ? PERIOD_WITH_FILE_MS
                               : (int)mend_min_u64(mend_max_u64(period_ms, SHORTEST_MS), USUAL_MS);
    collector->bell = mend_file_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (collector->bell < 0) {
        free(collector);
        return mend_failure(MEND_ERROR_SYSTEM, "no file for the background thread: %s",
                            strerror(errno));
    }
    pool->collector = collector; /* the thread reads it */
    offer(pool, true);
    if (!mend_start_service(&collector->thread, "mend-background", collect, pool)) {
        offer(pool, false);
        pool->collector = NULL;
        close(collector->bell);
        free(collector);
        return mend_failure(MEND_ERROR_SYSTEM, "the system started no background thread");
    }
    return MEND_OK;
}

mend_result mend_collector_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    (void)config;
    if (moment == MEND_POOL_BEGINS || moment == MEND_POOL_STAYS) {
        return pool->idle_ns > 0 ? start(pool) : MEND_OK;
    }
    if (moment == MEND_POOL_IS_LEFT && pool->collector != NULL) {
        (void)eventfd_write(pool->collector->bell, 1);
        pthread_join(pool->collector->thread, NULL);
        close(pool->collector->bell);
        free(pool->collector);
        pool->collector = NULL;
    }
    return MEND_OK;
}
