/*
 * The way in and out of each call: the process, the capture of the stream, the locks, a lost
 * context, and the one place where a failure is published.
 */
#ifndef MEND_POOL_ENTER_H
#define MEND_POOL_ENTER_H

#include <assert.h>

#include "base/error.h"
#include "move/locks.h"
#include "pool/pool.h"

/* Fails with MEND_ERROR_INVALID_ARGUMENT; `what` is the message. */
mend_result mend_pool_invalid(const char *what);

/* MEND_OK, or MEND_ERROR_NOT_SUPPORTED if the pool works over plain allocations; `what` needs
 * virtual memory. No lock. */
mend_result mend_pool_needs_virtual_memory(const mend_pool *pool, const char *what);

/* Fails with MEND_ERROR_FORKED, for a pool that another process created. Does not touch the
 * pool. */
mend_result mend_pool_inherited(void);
static inline mend_result mend_pool_check_process(const mend_pool *pool)
{
    return pool->generation == mend_process_generation() ? MEND_OK : mend_pool_inherited();
}

/* MEND_ERROR_DEVICE_LOST if the pool's context is lost. The caller holds `state`. */
mend_result mend_pool_check_context(const mend_pool *pool);

/* The same, and releases the lock. */
mend_result mend_pool_refuse(mend_pool *pool);

/* Whether the driver must be asked if the stream is captured. Even if the program promises to
 * capture only in groups, it may free other blocks during such a capture. Of the special streams,
 * the legacy one cannot be captured; MEND_NO_STREAM names no stream. */
static inline bool mend_pool_may_be_captured(const mend_pool *pool, mend_stream stream)
{
    bool is_asked = pool->heap.config.capture_checks || mend_heap_has_begun_groups(&pool->heap);
    return is_asked && stream != NULL && stream != MEND_STREAM_LEGACY && stream != MEND_NO_STREAM &&
           stream != MEND_EVERY_STREAM;
}

/*
 * The order in which a call uses memory: that of the stream, and of the capture that records the
 * stream's work. Checks the process, and asks the driver without a lock, so that no other thread
 * waits for the answer. After the driver has shut down there is no capture. MEND_ERROR_FORKED,
 * MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST.
 */
mend_result mend_pool_ask_own_capture(mend_pool *pool, uint64_t *capture);
mend_result mend_pool_miss_capture(mend_pool *pool, mend_stream stream, mend_driver_call call,
                                   mend_status status);
static inline mend_result mend_pool_find_order(mend_pool *pool, mend_stream stream,
                                               mend_order *order)
{
    *order = (mend_order){.stream = stream};
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK || !mend_pool_may_be_captured(pool, stream)) {
        return result;
    }
    if (stream == MEND_STREAM_PER_THREAD) {
        return mend_pool_ask_own_capture(pool, &order->capture);
    }
    const mend_driver *driver = pool->driver;
    mend_status status = driver->stream_get_capture(driver, stream, &order->capture);
    return status == MEND_DRIVER_OK
               ? MEND_OK
               : mend_pool_miss_capture(pool, stream, MEND_CALL_stream_get_capture, status);
}

/* Takes the `state` lock. The caller has checked the process. MEND_ERROR_DEVICE_LOST: the lock is
 * not taken. */
static inline mend_result mend_pool_take(mend_pool *pool)
{
    assert(mend_process_generation() == pool->generation);
    mend_heap_lock(&pool->heap);
    return mend_heap_lost_by(&pool->heap) == MEND_DRIVER_OK ? MEND_OK : mend_pool_refuse(pool);
}

/* The same with the lock taken already, but succeeds after the driver has shut down: frees work
 * while a process ends. */
static inline mend_result mend_pool_check_to_free(mend_pool *pool)
{
    mend_status lost = mend_heap_lost_by(&pool->heap);
    return lost == MEND_DRIVER_OK || lost == MEND_DRIVER_DEINITIALIZED ? MEND_OK
                                                                       : mend_pool_refuse(pool);
}
static inline mend_result mend_pool_take_to_free(mend_pool *pool)
{
    assert(mend_process_generation() == pool->generation);
    mend_heap_lock(&pool->heap);
    return mend_pool_check_to_free(pool);
}

/* Checks the process, then takes the `state` lock; mend_pool_enter_all takes both locks, to make
 * room. MEND_ERROR_FORKED, MEND_ERROR_DEVICE_LOST: no lock is taken. */
static inline mend_result mend_pool_enter(mend_pool *pool)
{
    mend_result result = mend_pool_check_process(pool);
    return result == MEND_OK ? mend_pool_take(pool) : result;
}
mend_result mend_pool_enter_all(mend_pool *pool);

/* In debug builds: runs the audit if the config asks for it. */
#ifdef NDEBUG
static inline void mend_pool_audit_after_call(mend_pool *pool)
{
    (void)pool;
}
#else
void mend_pool_audit_after_call(mend_pool *pool);
#endif

/* Releases the lock, then runs the audit if one is asked for. Publishes a failure, and returns
 * `result`. */
static inline mend_result mend_pool_leave(mend_pool *pool, mend_result result)
{
    assert(mend_mutex_is_held(&pool->heap.state));
    mend_heap_unlock(&pool->heap);
    mend_publish(result); /* before the audit, which may log */
    mend_pool_audit_after_call(pool);
    return result;
}
mend_result mend_pool_leave_all(mend_pool *pool, mend_result result);

/* Runs the audit of observe/audit.h, under both locks. */
bool mend_pool_audit(mend_pool *pool, char finding[MEND_AUDIT_FINDING_BYTES]);

#endif
