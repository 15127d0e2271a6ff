/* The calls of mend_sleep.h. */
#include "sleep/sleep.h"

#include <stdlib.h>

#include "base/struct_size.h"
#include "pool/pool.h"

/* ---- sleep ----------------------------------------------------------------------------------- */

static bool is_keep(int keep)
{
    return keep >= MEND_BACKUP_DEFAULT && keep <= MEND_STAY_RESIDENT;
}

/* A rule in the first version of mend_sleep_options, whose callers pass no size. */
enum { FIRST_RULE_BYTES = 16 };
static_assert(FIRST_RULE_BYTES <= sizeof(mend_sleep_rule), "a rule only grows");

static mend_result check_options(const mend_sleep_options *options)
{
    bool has_files = options->others == MEND_BACKUP_FILE;
    MEND_INVALID_IF(!is_keep(options->others), "mend_sleep_options.others is not a mend_backup");
    MEND_INVALID_IF(options->skip_pinned < -1 || options->skip_pinned > 1,
                    "mend_sleep_options.skip_pinned is not -1, 0 or 1");
    MEND_INVALID_IF(options->keep_free < 0 || options->keep_free > 2,
                    "mend_sleep_options.keep_free is not 0 to 2");
    MEND_INVALID_IF(options->graphs != MEND_BACKUP_DEFAULT && options->graphs != MEND_DISCARD &&
                        options->graphs != MEND_STAY_RESIDENT,
                    "mend_sleep_options.graphs is not 0, MEND_DISCARD or "
                    "MEND_STAY_RESIDENT: no graph reads such memory before it writes");
    MEND_INVALID_IF(options->rule_count > 0 && options->rules == NULL,
                    "mend_sleep_options.rules is NULL");
    MEND_INVALID_IF(!mend_struct_size_is_whole(options->rule_bytes, sizeof(mend_sleep_rule)),
                    "mend_sleep_options.rule_bytes is not sizeof(mend_sleep_rule)");
    for (size_t i = 0; i < options->rule_count; i++) {
        int keep = mend_rule_at(options, i).backup;
        MEND_INVALID_IF(!is_keep(keep) || keep == MEND_BACKUP_DEFAULT,
                        "mend_sleep_rule.backup is not 1 to 4");
        has_files = has_files || keep == MEND_BACKUP_FILE;
    }
    return has_files && options->directory == NULL
               ? mend_pool_invalid(
                     "mend_sleep_options.directory is NULL: MEND_BACKUP_FILE needs one")
               : MEND_OK;
}

mend_result mend_sleep(mend_pool *pool, const mend_sleep_options *given, mend_sleep_report *report)
{
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report all = MEND_SLEEP_REPORT_INIT;
    MEND_INVALID_IF(pool == NULL, "mend_sleep: pool is NULL");
    MEND_TRY(mend_pool_check_struct(report, "mend_sleep_report"));
    MEND_TRY(mend_pool_read_struct(given, "mend_sleep_options", &options, sizeof(options)));
    options.rule_bytes = options.rule_bytes != 0 ? options.rule_bytes : FIRST_RULE_BYTES;
    MEND_TRY(check_options(&options));
    MEND_TRY(mend_pool_needs_chunks(pool, "mend_sleep"));
    MEND_TRY(mend_pool_enter_all(pool));
    const mend_result result = mend_sleep_put(&pool->heap, &options, &all);
    if (report != NULL && result == MEND_OK) {
        mend_struct_write(report, &all, sizeof(all));
    }
    return mend_pool_leave_all(pool, result);
}

/* ---- wake ------------------------------------------------------------------------------------ */

typedef struct waker {
    mend_seek seek;
    mend_pool *pool;
    mend_wake_order order;
    mend_wake_report report;
    mend_result result;
    mend_thread_error answer; /* why it failed. Calls of peer pools and callbacks note others */
} waker;

/* The caller holds `state` alone. */
static mend_outcome try_to_wake(mend_seek *seek)
{
    waker *w = MEND_CONTAINER_OF(seek, waker, seek);
    mend_heap *heap = &w->pool->heap;
    const mend_thread_error lacking = w->answer;
    const mend_seek lacked = *seek;
    mend_heap_unlock(heap);
    mend_heap_lock_all(heap);
    w->order.waits = seek->may_wait && !seek->is_captured;
    w->result = heap->unlocking.lost == MEND_DRIVER_OK
                    ? mend_sleep_wake(heap, &w->order, &w->report, seek)
                    : mend_pool_check_context(w->pool);
    w->answer = *mend_process_failure();
    if (seek->may_wait && w->result == MEND_ERROR_CAPTURING) { /* a capture forbids the wait */
        *seek = lacked;                                        /* others may still give it */
        seek->is_captured = true;
        w->result = MEND_ERROR_OUT_OF_MEMORY;
        w->answer = lacking;
    }
    mend_heap_unlock_grow(heap);
    if (w->result == MEND_OK) {
        return MEND_PLACED;
    }
    return w->result == MEND_ERROR_OUT_OF_MEMORY ? MEND_NOTHING : MEND_FAILED;
}

static void wake(waker *w)
{
    const mend_outcome outcome = mend_seek_room(&w->seek, true);
    if (outcome == MEND_FAILED && w->result == MEND_ERROR_OUT_OF_MEMORY) {
        w->result = MEND_ERROR_DEVICE_LOST; /* in a callback, which has noted it */
    } else if (w->result != MEND_OK) {
        *mend_process_failure() = w->answer;
    }
}

mend_result mend_wake(mend_pool *pool, const uint64_t *tags, size_t tag_count,
                      mend_wake_report *report)
{
    MEND_INVALID_IF(pool == NULL || (tags == NULL && tag_count > 0),
                    "mend_wake: pool or tags is NULL");
    waker w = {.seek = {.heap = &pool->heap, .attempt = try_to_wake},
               .pool = pool,
               .order = {tags, tag_count, false},
               .report = MEND_WAKE_REPORT_INIT};
    MEND_TRY(mend_pool_check_struct(report, "mend_wake_report"));
    MEND_TRY(mend_pool_enter(pool));
    wake(&w);
    if (w.result == MEND_OK && report != NULL) {
        mend_struct_write(report, &w.report, sizeof(w.report));
    }
    return mend_pool_leave(pool, w.result);
}

mend_result mend_read_backup(mend_pool *pool, const void *address, uint64_t size_bytes, void *copy,
                             const void **host)
{
    MEND_INVALID_IF(pool == NULL || (copy == NULL) == (host == NULL),
                    "mend_read_backup: pool is NULL, or not one of copy and host is");
    MEND_INVALID_IF(host != NULL && size_bytes == 0, "mend_read_backup: the size is 0");
    const uint64_t at = (uint64_t)(uintptr_t)address;
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, host != NULL
                                         ? mend_sleep_find(&pool->heap, at, size_bytes, host)
                                         : mend_sleep_read(&pool->heap, at, size_bytes, copy));
}

mend_result mend_get_sleep_tags(mend_pool *pool, mend_sleep_tag_info *infos, size_t info_bytes,
                                size_t capacity, size_t *count)
{
    MEND_TRY(
        mend_pool_check_array(pool, infos, info_bytes, capacity, count, "mend_get_sleep_tags"));
    MEND_TRY(mend_pool_enter_all(pool));
    mend_sleep_tag_info *found = NULL;
    mend_result result = mend_sleep_list_tags(&pool->heap, &found, count);
    for (size_t i = 0; result == MEND_OK && *count <= capacity && i < *count; i++) {
        mend_element_write(infos, info_bytes, i, &found[i], sizeof(*found));
    }
    free(found);
    return mend_pool_leave_all(pool, result);
}

mend_result mend_set_backup_cache_limit(mend_pool *pool, uint64_t most_bytes)
{
    mend_driver_scope scope;
    MEND_INVALID_IF(pool == NULL, "mend_set_backup_cache_limit: pool is NULL");
    MEND_TRY(mend_pool_enter_all(pool));
    mend_result result = mend_driver_scope_open(&pool->heap, &scope);
    if (result == MEND_OK) {
        mend_copies_limit(&pool->heap, most_bytes);
        mend_driver_scope_close(&pool->heap, &scope);
    }
    return mend_pool_leave_all(pool, result);
}

/* ---- checkpoints of the process -------------------------------------------------------------- */

mend_result mend_prepare_checkpoint(mend_pool *pool, mend_prepare_checkpoint_report *report)
{
    mend_prepare_checkpoint_report all = MEND_PREPARE_CHECKPOINT_REPORT_INIT;
    MEND_TRY(mend_pool_check_struct(report, "mend_prepare_checkpoint_report"));
    MEND_INVALID_IF(pool == NULL, "mend_prepare_checkpoint: pool is NULL");
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all_with(pool, mend_heap_prepare_checkpoint(&pool->heap, &all), report,
                                    &all, sizeof(all));
}
