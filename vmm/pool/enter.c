/* The way in and out of every call: the process, the locks, a context that is lost, the audit. */
#include <assert.h>

#include "base/error.h"
#include "base/log.h"
#include "pool/pool.h"

mend_result mend_pool_invalid(const char *what)
{
    return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s", what);
}

mend_result mend_pool_inherited(void)
{
    return mend_fail(MEND_ERROR_FORKED, "the pool was inherited through fork");
}

mend_result mend_pool_check_context(const mend_pool *pool)
{
    const mend_heap *heap = &pool->heap;
    mend_status lost = mend_heap_lost_by(heap);
    return lost == MEND_DRIVER_OK
               ? MEND_OK
               : mend_fail_driver(MEND_ERROR_DEVICE_LOST, "", lost,
                                  heap->driver->status_name(heap->driver, lost),
                                  "the context was broken by an earlier failure");
}

mend_result mend_pool_refuse(mend_pool *pool)
{
    mend_result result = mend_pool_check_context(pool);
    mend_heap_unlock(&pool->heap);
    return result;
}

mend_result mend_pool_enter_making(mend_pool *pool)
{
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK) {
        return result;
    }
    mend_heap_begin_making(&pool->heap);
    result = mend_pool_check_context(pool);
    if (result != MEND_OK) {
        mend_heap_end_making(&pool->heap);
    }
    return result;
}

bool mend_pool_audit(mend_pool *pool, char finding[MEND_AUDIT_FINDING_BYTES])
{
    mend_heap_begin_looking(&pool->heap);
    bool is_right = mend_observe_audit(&pool->heap, finding);
    mend_heap_end_looking(&pool->heap);
    return is_right;
}

/* In debug builds a pool that contradicts itself ends the program at the call that made it so. */
#ifndef NDEBUG
void mend_pool_audit_after_call(mend_pool *pool)
{
    char finding[MEND_AUDIT_FINDING_BYTES];
    bool is_right = true;
    if (pool->audit_level == 1) {
        mend_heap_lock(&pool->heap);
        is_right = mend_observe_audit_sums(&pool->heap, finding);
        mend_heap_unlock(&pool->heap);
    } else if (pool->audit_level == 2) {
        is_right = mend_pool_audit(pool, finding);
    }
    if (!is_right) {
        mend_log(MEND_LOG_WARNING, "audit: %s", finding);
    }
    assert(is_right);
}
#endif

mend_result mend_pool_leave_making(mend_pool *pool, mend_result result)
{
    mend_heap_end_making(&pool->heap);
    mend_pool_audit_after_call(pool);
    return result;
}
