/* What the files of this room share: the pool itself, and the way in and out of each call. */
#ifndef MEND_POOL_POOL_H
#define MEND_POOL_POOL_H

#include <stdbool.h>

#include "base/error.h"
#include "base/process.h"
#include "heap/heap.h"
#include "mend/mend.h"
#include "observe/audit.h"
#include "observe/explain.h"
#include "pool/pressure.h"

struct mend_pool {
    mend_heap heap; /* with the locks of the pool */
    const mend_driver *driver;
    int device;
    uint64_t generation;        /* of the process that made it */
    mend_process_member member; /* among the pools of the process */
    mend_pressure pressure;
    int audit_level;
    bool meets_peers; /* devices with a pool of the process may use its memory */
};

/* An error of an argument, in words. MEND_ERROR_INVALID_ARGUMENT. */
mend_result mend_pool_invalid(const char *what);

/* A copy of full size of the caller's config, as long as the caller knows it.
 * MEND_ERROR_INVALID_ARGUMENT. */
mend_result mend_pool_copy_config(const mend_pool_config *given, mend_pool_config *config);

/* The pointer lies in memory of the pool, live or free. Of a pool that another process made nothing
 * is known: true. Takes the `state` lock. */
bool mend_pool_holds(mend_pool *pool, const void *pointer);

/* MEND_ERROR_FORKED for a pool that another process made. Touches nothing of the pool. */
mend_result mend_pool_inherited(void);
static inline mend_result mend_pool_check_process(const mend_pool *pool)
{
    return pool->generation == mend_process_generation() ? MEND_OK : mend_pool_inherited();
}

/* MEND_ERROR_DEVICE_LOST for a pool whose context broke. Under the `state` lock. */
mend_result mend_pool_check_context(const mend_pool *pool);

/* The same, and lets go of the lock. */
mend_result mend_pool_refuse(mend_pool *pool);

/* The stream may be captured, and nothing but the driver tells. A program that promises to capture
 * in groups alone frees other blocks there, too. Special streams: the legacy one cannot be
 * captured, and without a stream nobody knows which is meant. */
static inline bool mend_pool_may_be_captured(const mend_pool *pool, mend_stream stream)
{
    bool is_asked = pool->heap.config.capture_checks || mend_heap_has_begun_groups(&pool->heap);
    return is_asked && stream != NULL && stream != MEND_STREAM_LEGACY && stream != MEND_NO_STREAM &&
           stream != MEND_EVERY_STREAM;
}

/*
 * In which order a call uses memory: that of the stream, and of the capture which records what is
 * queued there. Checks the process, and asks the driver without a lock, so that nobody waits for
 * the answer. A driver that can do nothing any more records nothing.
 * MEND_ERROR_FORKED, MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST.
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

/* Takes the `state` lock of a pool that can still work. The process is known to be the pool's.
 * MEND_ERROR_DEVICE_LOST: without the lock. */
static inline mend_result mend_pool_take(mend_pool *pool)
{
    mend_heap_lock(&pool->heap);
    return mend_heap_lost_by(&pool->heap) == MEND_DRIVER_OK ? MEND_OK : mend_pool_refuse(pool);
}

/* The same, also when the driver has shut down: a process that ends frees its blocks in peace. */
static inline mend_result mend_pool_take_to_free(mend_pool *pool)
{
    mend_heap_lock(&pool->heap);
    mend_status lost = mend_heap_lost_by(&pool->heap);
    return lost == MEND_DRIVER_OK || lost == MEND_DRIVER_DEINITIALIZED ? MEND_OK
                                                                       : mend_pool_refuse(pool);
}

/* Checks the process, and takes the `state` lock, or both locks, to make room.
 * MEND_ERROR_FORKED, MEND_ERROR_DEVICE_LOST: without the locks. */
static inline mend_result mend_pool_enter(mend_pool *pool)
{
    mend_result result = mend_pool_check_process(pool);
    return result == MEND_OK ? mend_pool_take(pool) : result;
}
mend_result mend_pool_enter_all(mend_pool *pool);

/* In debug builds: the audit where one is asked for. */
#ifdef NDEBUG
static inline void mend_pool_audit_after_call(mend_pool *pool)
{
    (void)pool;
}
#else
void mend_pool_audit_after_call(mend_pool *pool);
#endif

/* Lets go, after the audit where one is asked for. A failure is published; passes it through. */
static inline mend_result mend_pool_leave(mend_pool *pool, mend_result result)
{
    mend_heap_unlock(&pool->heap);
    mend_publish(result); /* before the audit, which may log */
    mend_pool_audit_after_call(pool);
    return result;
}
mend_result mend_pool_leave_all(mend_pool *pool, mend_result result);

/* The audit of observe/audit.h, under both locks. */
bool mend_pool_audit(mend_pool *pool, char finding[MEND_AUDIT_FINDING_BYTES]);

/* The explanation of observe/explain.h, under both locks, as `asking` finds the pool; a stream it
 * does not know owns nothing. MEND_ERROR_FORKED. */
mend_result mend_pool_explain(mend_pool *pool, mend_stream asking, mend_explanation *explanation);

#endif
