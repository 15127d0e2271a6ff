/* The calls of mend_host.h. */
#include "mend/mend_host.h"

#include "base/thread.h"
#include "pool/pool.h"
#include "sleep/sleep.h"

int mend_set_host_allowed(int allowed)
{
    bool *own = mend_process_host_is_allowed();
    int before = *own;
    *own = allowed != 0;
    return before;
}

mend_result mend_move(mend_pool *pool, mend_move_target target, const uint64_t *tags,
                      size_t tag_count, mend_move_report *report)
{
    if (pool == NULL || (tags == NULL && tag_count > 0) || (unsigned)target > MEND_MOVE_TO_HOST) {
        return mend_pool_invalid(
            "mend_move: pool or tags is NULL, or target is no mend_move_target");
    }
    mend_move_report all = MEND_MOVE_REPORT_INIT;
    mend_result result = mend_pool_check_struct(report, "mend_move_report");
    if (result == MEND_OK && pool->heap.config.host_limit_bytes == 0) {
        result = mend_fail(MEND_ERROR_NOT_SUPPORTED,
                           "mend_move: the pool has no mend_pool_config.host_bytes");
    }
    if (result == MEND_OK) {
        result = mend_pool_enter_all(pool);
    }
    if (result != MEND_OK) {
        return result;
    }
    result = mend_relocate(&pool->heap,
                           target == MEND_MOVE_TO_HOST ? MEND_BACKING_HOST : MEND_BACKING_DEVICE,
                           tags, tag_count, &all);
    return mend_pool_leave_all_with(pool, result, report, &all, sizeof(all));
}
