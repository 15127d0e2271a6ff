/* The calls of mend_host.h. */
#include "mend/mend_host.h"

#include <string.h>

#include "base/struct_size.h"
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

static mend_result move(mend_pool *pool, const char *call, mend_exchange_kind kind,
                        const uint64_t *tags, size_t tag_count, mend_move_report *report)
{
    if (pool == NULL || (tags == NULL && tag_count > 0)) {
        return mend_pool_invalid(pool == NULL ? "mend_move_to_host, mend_move_to_device: pool is "
                                                "NULL"
                                              : "mend_move_to_host, mend_move_to_device: tags is "
                                                "NULL");
    }
    if (report != NULL && !MEND_STRUCT_IS_WHOLE(report)) {
        return mend_pool_invalid("mend_move_report.struct_size is wrong: begin with "
                                 "MEND_MOVE_REPORT_INIT");
    }
    if (pool->heap.config.host_limit_bytes == 0) {
        return mend_fail(MEND_ERROR_NOT_SUPPORTED,
                         "%s: the pool has no mend_pool_config.host_bytes", call);
    }
    mend_result result = mend_pool_enter_all(pool);
    if (result != MEND_OK) {
        return result;
    }
    mend_move_report all = MEND_MOVE_REPORT_INIT;
    result = mend_relocate(&pool->heap, kind, tags, tag_count, &all);
    if (result == MEND_OK && report != NULL) {
        all.struct_size = report->struct_size;
        memcpy(report, &all, mend_min_u64(report->struct_size, sizeof(all)));
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_move_to_host(mend_pool *pool, const uint64_t *tags, size_t tag_count,
                              mend_move_report *report)
{
    return move(pool, "mend_move_to_host", MEND_EXCHANGE_TO_HOST, tags, tag_count, report);
}

mend_result mend_move_to_device(mend_pool *pool, const uint64_t *tags, size_t tag_count,
                                mend_move_report *report)
{
    return move(pool, "mend_move_to_device", MEND_EXCHANGE_TO_DEVICE, tags, tag_count, report);
}
