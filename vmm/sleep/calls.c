/* The calls of mend_sleep.h. */
#include "sleep/sleep.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "mend/mend_frameworks.h"
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

/* ---- what is kept ---------------------------------------------------------------------------- */

/* While bytes are copied, `state` is released. No driver call. */

static mend_result not_there(uint64_t address, const char *why)
{
    return mend_failure(MEND_ERROR_INVALID_ARGUMENT, "mend_read_backup: the memory at 0x%llx %s",
                        (unsigned long long)address, why);
}

/* The backup of the memory at an address, or the copy that a wake left. */
static mend_result get_backup(mend_heap *heap, uint64_t address, const mend_contents **kept)
{
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, address);
    if (chunk == NULL || mend_chunk_sleeps(chunk)) {
        *kept = chunk != NULL ? chunk->kept : NULL;
        return chunk != NULL ? MEND_OK : not_there(address, "is not of the pool");
    }
    const mend_span *span = mend_heap_span_at(heap, address);
    *kept = span != NULL && span->live && span->has_copy ? mend_copy_at(heap, address) : NULL;
    return *kept != NULL ? MEND_OK : not_there(address, "does not sleep, and has no copy");
}

/* How many of these awake bytes are of blocks with a copy: behind a block may be another one that
 * never slept. */
static uint64_t copied_bytes(const mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    const uint64_t end = address + size_bytes;
    uint64_t at = address;
    const mend_span *span = mend_heap_span_at(heap, address);
    while (span != NULL && at < end && span->address <= at && span->live && span->has_copy) {
        at = span->address + span->size_bytes;
        span = span->next;
    }
    return mend_min_u64(at, end) - address;
}

/* Finds as much as one piece has. *part_bytes says how much, and `at` where in the host's memory or
 * the file. */
static mend_result find_part(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                             const mend_contents **kept, const mend_kept_piece **piece,
                             uint64_t *at, uint64_t *part_bytes)
{
    MEND_TRY(get_backup(heap, address, kept));
    const uint64_t offset_bytes = address - (*kept)->address;
    *piece = mend_keep_piece_of(*kept, offset_bytes, 1);
    if (*piece == NULL || ((*piece)->backup == MEND_BACKUP_FILE && (*kept)->file == NULL)) {
        return not_there(address, "has no backup");
    }
    const uint64_t inside = offset_bytes - (*piece)->offset_bytes;
    *at = (*piece)->at + inside;
    *part_bytes = mend_min_u64(size_bytes, (*piece)->size_bytes - inside);
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, address);
    if (!mend_chunk_sleeps(chunk)) {
        *part_bytes = copied_bytes(heap, address, *part_bytes);
    }
    return MEND_OK;
}

static mend_result read_part(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host,
                             uint64_t *part_bytes)
{
    const mend_contents *kept;
    const mend_kept_piece *piece;
    uint64_t at = 0;
    MEND_TRY(find_part(heap, address, size_bytes, &kept, &piece, &at, part_bytes));
    if (piece->backup == MEND_BACKUP_FILE) {
        return mend_sleep_file_pass(heap, kept->file, NULL, host, *part_bytes, at);
    }
    mend_heap_unlock(heap);
    memcpy(host, (const unsigned char *)kept->host + at, (size_t)*part_bytes);
    mend_heap_lock(heap);
    return MEND_OK;
}

static mend_result find_backup(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                               const void **host)
{
    const mend_contents *kept;
    const mend_kept_piece *piece;
    uint64_t at = 0;
    uint64_t part_bytes = 0;
    MEND_TRY(find_part(heap, address, size_bytes, &kept, &piece, &at, &part_bytes));
    if (piece->backup == MEND_BACKUP_FILE || part_bytes < size_bytes) {
        return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                            "mend_read_backup: the backup of the memory at 0x%llx is %s",
                            (unsigned long long)address,
                            piece->backup == MEND_BACKUP_FILE ? "in a file" : "in several places");
    }
    *host = (const unsigned char *)kept->host + at;
    return MEND_OK;
}

static mend_result read_backup(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    uint64_t part_bytes = 0;
    for (uint64_t seen = 0; seen < size_bytes; seen += part_bytes) { /* before `host` is written */
        const mend_contents *kept;
        const mend_kept_piece *piece;
        uint64_t at;
        MEND_TRY(
            find_part(heap, address + seen, size_bytes - seen, &kept, &piece, &at, &part_bytes));
    }
    for (uint64_t done = 0; done < size_bytes; done += part_bytes) {
        MEND_TRY(read_part(heap, address + done, size_bytes - done, (unsigned char *)host + done,
                           &part_bytes));
    }
    return MEND_OK;
}

mend_result mend_read_backup(mend_pool *pool, const void *address, uint64_t size_bytes, void *copy,
                             const void **host)
{
    MEND_INVALID_IF(pool == NULL || (copy == NULL) == (host == NULL),
                    "mend_read_backup: pool is NULL, or not one of copy and host is");
    MEND_INVALID_IF(host != NULL && size_bytes == 0, "mend_read_backup: the size is 0");
    const uint64_t at = (uint64_t)(uintptr_t)address;
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, host != NULL ? find_backup(&pool->heap, at, size_bytes, host)
                                                  : read_backup(&pool->heap, at, size_bytes, copy));
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
