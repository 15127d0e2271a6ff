/* The thread that collects a pool's memory for others: see MEND_TRIM_SURPLUS. */
#include "pool/pool.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/files.h"
#include "base/signals.h"
#include "quota/quota.h"

/* A process that waits for memory of others does so for MEND_RATION_PATIENCE_MS. */
enum { PERIOD_WITH_FILE_MS = 10, SHORTEST_MS = 10, USUAL_MS = 250, PERIODS_OF_IDLE = 4 };
static_assert(PERIOD_WITH_FILE_MS * 4 <= MEND_RATION_PATIENCE_MS, "others wait long enough");

/* What the pool owes to others. The driver needs a context; without one it owes nothing. */
static mend_ration_owed ask_owed(mend_pool *pool)
{
    const mend_driver *driver = pool->driver;
    mend_ration_owed owed = {0};
    if (mend_ration_is_on(&pool->ration) &&
        driver->context_push(driver, pool->heap.device.context) == MEND_DRIVER_OK) {
        owed = mend_ration_ask_owed(&pool->ration);
        driver->context_pop(driver);
    }
    return owed;
}

mend_result mend_pool_collect(mend_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes)
{
    MEND_TRY(mend_pool_check_process(pool));
    const mend_ration_owed owed = ask_owed(pool);
    MEND_TRY(mend_pool_enter_all(pool));
    uint64_t bytes = 0;
    const uint64_t keep = mend_heap_keep_in_chunks(&pool->heap, keep_bytes);
    mend_result result = mend_ladder_collect(&pool->heap, pool->idle_ns, owed.bytes, keep, &bytes);
    uint64_t empty_bytes = mend_chunks_empty_bytes(&pool->heap.chunks);
    result = mend_pool_leave_all(pool, result);
    mend_ration_offer(&pool->ration, empty_bytes, pool->collector.runs, owed.newest);
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = bytes;
    }
    return result;
}

static void *collect(void *context)
{
    mend_pool *pool = context;
    struct pollfd bell = {.fd = pool->collector.bell, .events = POLLIN};
    mend_result result = MEND_OK;
    int rung = 0;
    while (result != MEND_ERROR_DEVICE_LOST && result != MEND_ERROR_FORKED) {
        rung = poll(&bell, 1, pool->collector.period_ms);
        if (rung > 0) {
            break;
        }
        result = mend_pool_collect(pool, 0, NULL);
    }
    if (rung <= 0) {
        mend_ration_offer(&pool->ration, 0, false, 0); /* others need not wait for it any more */
    }
    return NULL;
}

static int period_of(const mend_pool *pool)
{
    uint64_t idle_ms = pool->idle_ns / UINT64_C(1000000);
    uint64_t period = idle_ms == 0 ? USUAL_MS : idle_ms / PERIODS_OF_IDLE;
    period = mend_min_u64(mend_max_u64(period, SHORTEST_MS), USUAL_MS);
    return pool->ration.has_file ? PERIOD_WITH_FILE_MS : (int)period;
}

mend_result mend_collector_start(mend_pool *pool)
{
    mend_collecting *collector = &pool->collector;
    collector->period_ms = period_of(pool);
    collector->bell = mend_file_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (collector->bell < 0) {
        return mend_failure(MEND_ERROR_SYSTEM, "no file for the collector's thread: %s",
                            strerror(errno));
    }
    collector->runs = true; /* the thread reads it */
    mend_ration_offer(&pool->ration, 0, true, 0);
    if (!mend_start_service(&collector->thread, "mend-collector", collect, pool)) {
        collector->runs = false;
        mend_ration_offer(&pool->ration, 0, false, 0);
        close(collector->bell);
        return mend_failure(MEND_ERROR_SYSTEM, "the system started no thread for the collector");
    }
    return MEND_OK;
}

void mend_collector_stop(mend_pool *pool)
{
    mend_collecting *collector = &pool->collector;
    if (collector->runs) {
        (void)eventfd_write(collector->bell, 1);
        pthread_join(collector->thread, NULL);
        close(collector->bell);
        collector->runs = false;
    }
}
