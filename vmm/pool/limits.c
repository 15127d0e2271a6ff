/* The calls about memory in total: limits, giving memory back, statistics. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/struct_size.h"
#include "base/words.h"
#include "ladder/ladder.h"
#include "observe/observe.h"
#include "pool/pool.h"
#include "sleep/sleep.h"

static mend_result trim(mend_pool *pool, uint64_t keep_bytes, bool waits, uint64_t *released_bytes)
{
    mend_result result = mend_pool_enter_all(pool);
    if (result != MEND_OK) {
        return result;
    }
    uint64_t bytes = 0;
    result = (waits ? mend_ladder_trim_wait : mend_ladder_trim)(&pool->heap, keep_bytes, &bytes);
    mend_copies_trim(&pool->heap);
    assert(bytes <= pool->heap.chunks.created_bytes - pool->heap.chunks.reserved_bytes);
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = bytes;
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_trim(mend_pool *pool, uint64_t keep_bytes, mend_trim_mode mode,
                      uint64_t *released_bytes)
{
    if (pool == NULL || (unsigned)mode > MEND_TRIM_SURPLUS) {
        return mend_pool_invalid("mend_trim: pool is NULL, or mode is no mend_trim_mode");
    }
    return mode == MEND_TRIM_SURPLUS
               ? mend_pool_collect(pool, keep_bytes, released_bytes)
               : trim(pool, keep_bytes, mode == MEND_TRIM_WAIT, released_bytes);
}

mend_result mend_get_room(mend_pool *pool, mend_stream stream, mend_room *room)
{
    if (pool == NULL || room == NULL) {
        return mend_pool_invalid("mend_get_room: pool or room is NULL");
    }
    if (!MEND_STRUCT_IS_WHOLE(room)) {
        return mend_pool_invalid("mend_room.struct_size is wrong: begin with MEND_ROOM_INIT");
    }
    mend_order order;
    mend_result result = mend_pool_find_order(pool, stream, &order);
    if (result == MEND_OK) {
        result = mend_pool_enter_all(pool);
    }
    if (result != MEND_OK) {
        return result;
    }
    mend_room all = {.struct_size = room->struct_size};
    result = mend_ladder_get_room(&pool->heap, order, &all);
    const uint64_t guard_bytes = pool->heap.config.guard_bytes;
    all.now_bytes -= mend_min_u64(guard_bytes, all.now_bytes);
    all.after_waiting_bytes -= mend_min_u64(guard_bytes, all.after_waiting_bytes);
    if (result == MEND_OK) {
        memcpy(room, &all, mend_min_u64(room->struct_size, sizeof(all)));
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_set_limit(mend_pool *pool, uint64_t limit_bytes)
{
    if (pool == NULL) {
        return mend_pool_invalid("mend_set_limit: pool is NULL");
    }
    mend_result result = mend_pool_enter_all(pool);
    if (result != MEND_OK) {
        return result;
    }
    result = mend_ladder_set_limit(&pool->heap, limit_bytes);
    uint64_t limit = pool->heap.config.limit_bytes;
    if (pool->is_plain) {
        mend_plain_set_limit(&pool->plain, limit);
    }
    uint64_t reserved = pool->heap.chunks.reserved_bytes;
    result = mend_pool_leave_all(pool, result);
    if (reserved > limit) {
        mend_log_beside_error(MEND_LOG_WARNING,
                              "device %d: the limit of %s is below the %s that "
                              "the pool holds",
                              pool->device, mend_words_amount(limit).text,
                              mend_words_amount_above(reserved).text);
    }
    return result;
}

mend_result mend_set_soft_limit(mend_pool *pool, uint64_t soft_limit_bytes)
{
    if (pool == NULL) {
        return mend_pool_invalid("mend_set_soft_limit: pool is NULL");
    }
    mend_result result = mend_pool_enter_all(pool);
    if (result != MEND_OK) {
        return result;
    }
    pool->heap.config.soft_limit_bytes = soft_limit_bytes;
    return mend_pool_leave_all(pool, MEND_OK);
}

/* Copies the caller's limits, as many fields as the caller's version has. */
static mend_result read_limits(const mend_defrag_limits *given, mend_defrag_limits *limits)
{
    *limits = (mend_defrag_limits)MEND_DEFRAG_LIMITS_INIT;
    if (given != NULL && !MEND_STRUCT_IS_WHOLE(given)) {
        return mend_pool_invalid("mend_defrag_limits.struct_size is wrong: begin with "
                                 "MEND_DEFRAG_LIMITS_INIT");
    }
    if (given != NULL && given->struct_size > sizeof(*limits)) {
        return mend_pool_invalid("mend_defrag_limits is of a newer version than the library");
    }
    if (given != NULL) {
        assert(given->struct_size <= sizeof(*limits));
        memcpy(limits, given, given->struct_size);
    }
    return MEND_OK;
}

mend_result mend_defrag(mend_pool *pool, const mend_defrag_limits *given,
                        mend_defrag_report *report)
{
    if (pool == NULL) {
        return mend_pool_invalid("mend_defrag: pool is NULL");
    }
    if (report != NULL && !MEND_STRUCT_IS_WHOLE(report)) {
        return mend_pool_invalid("mend_defrag_report.struct_size is wrong: begin with "
                                 "MEND_DEFRAG_REPORT_INIT");
    }
    mend_defrag_limits limits;
    mend_result result = read_limits(given, &limits);
    if (result == MEND_OK) {
        result = mend_pool_enter_all(pool);
    }
    if (result != MEND_OK) {
        return result;
    }
    mend_defrag_report all = MEND_DEFRAG_REPORT_INIT;
    result = mend_ladder_defrag(&pool->heap, &limits, &all);
    if (result == MEND_OK && report != NULL) {
        all.struct_size = report->struct_size;
        memcpy(report, &all, mend_min_u64(report->struct_size, sizeof(all)));
    }
    return mend_pool_leave_all(pool, result);
}

void mend_pool_statistics(mend_pool *pool, mend_stats *stats)
{
    mend_observe_statistics(&pool->heap, stats);
    stats->pressure_calls = pool->callbacks.calls;
    stats->peer_pool_trims = pool->callbacks.peer_pool_trims;
}

mend_result mend_get_stats(mend_pool *pool, mend_stats *stats)
{
    if (pool == NULL || stats == NULL) {
        return mend_pool_invalid("mend_get_stats: pool or stats is NULL");
    }
    size_t struct_size = stats->struct_size;
    if (!MEND_STRUCT_IS_WHOLE(stats)) {
        return mend_pool_invalid("mend_stats.struct_size is wrong: begin with MEND_STATS_INIT");
    }
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK) {
        return result;
    }
    mend_stats all = {.struct_size = struct_size};
    mend_heap_lock(&pool->heap);
    mend_pool_statistics(pool, &all);
    mend_heap_unlock(&pool->heap);
    memcpy(stats, &all, mend_min_u64(struct_size, sizeof(all)));
    return MEND_OK;
}

mend_result mend_reset_peak_stats(mend_pool *pool)
{
    if (pool == NULL) {
        return mend_pool_invalid("mend_reset_peak_stats: pool is NULL");
    }
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK) {
        return result;
    }
    mend_heap_lock(&pool->heap);
    mend_observe_reset_peaks(&pool->heap);
    mend_heap_unlock(&pool->heap);
    return MEND_OK;
}

mend_result mend_pool_explain(mend_pool *pool, mend_stream asking, mend_explanation *explanation)
{
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK) {
        return result;
    }
    mend_heap *heap = &pool->heap;
    mend_heap_lock_to_read(heap);
    uint32_t stream = mend_streams_lookup(&heap->streams, asking, 0);
    mend_observe_explain(heap, stream, explanation);
    mend_heap_unlock_after_read(heap);
    return MEND_OK;
}

mend_result mend_audit(mend_pool *pool)
{
    if (pool == NULL) {
        return mend_pool_invalid("mend_audit: pool is NULL");
    }
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK) {
        return result;
    }
    char finding[MEND_AUDIT_FINDING_BYTES];
    return mend_pool_audit(pool, finding) ? MEND_OK
                                          : mend_fail(MEND_ERROR_INVARIANT, "%s", finding);
}
