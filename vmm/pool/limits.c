/* The calls about memory in total: limits, releases, available memory, compaction and statistics.
 * Figures need `state` alone, all others both locks. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/align.h"
#include "base/system.h"
#include "base/words.h"
#include "mend/mend_frameworks.h"
#include "pool/pool.h"

static mend_result trim(mend_pool *pool, uint64_t keep_bytes, bool waits, uint64_t *released_bytes)
{
    MEND_TRY(mend_pool_enter_all(pool));
    uint64_t bytes = 0;
    const uint64_t keep = mend_heap_keep_in_chunks(&pool->heap, keep_bytes);
    mend_result result = mend_fallback_trim(&pool->heap, keep, waits, &bytes);
    MEND_FEATURES_CALL(trim, &pool->heap);
    assert(bytes <= pool->heap.chunks.created_bytes - pool->heap.chunks.reserved_bytes);
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = bytes;
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_trim(mend_pool *pool, uint64_t keep_bytes, mend_trim_mode mode,
                      uint64_t *released_bytes)
{
    MEND_INVALID_IF(pool == NULL || (unsigned)mode > MEND_TRIM_BY_POLICY,
                    "mend_trim: pool is NULL, or mode is no mend_trim_mode");
    return mode == MEND_TRIM_BY_POLICY
               ? mend_pool_collect(pool, keep_bytes, released_bytes)
               : trim(pool, keep_bytes, mode == MEND_TRIM_WAIT, released_bytes);
}

mend_result mend_get_available(mend_pool *pool, mend_stream stream, mend_available *available)
{
    MEND_INVALID_IF(pool == NULL || available == NULL,
                    "mend_get_available: pool or available is NULL");
    mend_order order;
    MEND_TRY(mend_pool_check_struct(available, "mend_available"));
    MEND_TRY(mend_pool_find_order(pool, stream, &order));
    MEND_TRY(mend_pool_enter_all(pool));
    mend_available all = MEND_AVAILABLE_INIT;
    mend_result result = mend_fallback_get_available(&pool->heap, order, &all);
    const uint64_t guard_bytes = pool->heap.config.guard_bytes;
    all.now_bytes -= mend_min_u64(guard_bytes, all.now_bytes);
    all.after_waiting_bytes -= mend_min_u64(guard_bytes, all.after_waiting_bytes);
    return mend_pool_leave_all_with(pool, result, available, &all, sizeof(all));
}

mend_result mend_set_limit(mend_pool *pool, uint64_t limit_bytes)
{
    MEND_INVALID_IF(pool == NULL, "mend_set_limit: pool is NULL");
    MEND_TRY(mend_pool_enter_all(pool));
    mend_result result = mend_fallback_set_limit(&pool->heap, limit_bytes);
    uint64_t limit = pool->heap.config.limit_bytes;
    const uint64_t reserved =
        pool->heap.chunks.reserved_bytes + mend_heap_passed_bytes(&pool->heap);
    result = mend_pool_leave_all(pool, result);
    if (reserved > limit) {
        mend_log(MEND_LOG_WARNING,
                 "device %d: the limit of %s is below the %s that "
                 "the pool holds",
                 pool->device, mend_words_amount(limit).text,
                 mend_words_amount_above(reserved).text);
    }
    return result;
}

mend_result mend_compact(mend_pool *pool, const mend_compact_limits *given,
                         mend_compact_report *report)
{
    mend_compact_limits limits = MEND_COMPACT_LIMITS_INIT;
    mend_compact_report all = MEND_COMPACT_REPORT_INIT;
    MEND_TRY(mend_pool_check_struct(report, "mend_compact_report"));
    MEND_TRY(mend_pool_read_struct(given, "mend_compact_limits", &limits, sizeof(limits)));
    MEND_INVALID_IF(pool == NULL, "mend_compact: pool is NULL");
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all_with(pool, mend_fallback_compact(&pool->heap, &limits, &all), report,
                                    &all, sizeof(all));
}

void mend_pool_statistics(mend_pool *pool, mend_stats *stats)
{
    mend_observe_statistics(&pool->heap, stats);
    stats->pressure_calls = pool->callbacks.calls;
    stats->peer_pool_trims = pool->callbacks.peer_pool_trims;
}

mend_result mend_get_stats(mend_pool *pool, mend_stats *stats)
{
    MEND_INVALID_IF(pool == NULL || stats == NULL, "mend_get_stats: pool or stats is NULL");
    mend_stats all = MEND_STATS_INIT;
    MEND_TRY(mend_pool_check_struct(stats, "mend_stats"));
    MEND_TRY(mend_pool_look(pool));
    mend_pool_statistics(pool, &all);
    mend_heap_unlock(&pool->heap);
    mend_struct_write(stats, &all, sizeof(all));
    return MEND_OK;
}

mend_result mend_get_usage(mend_pool *pool, const mend_usage *outside, mend_usage *usage)
{
    MEND_INVALID_IF(pool == NULL || usage == NULL, "mend_get_usage: pool or usage is NULL");
    mend_usage all = MEND_USAGE_INIT;
    mend_usage of_outside = MEND_USAGE_INIT;
    MEND_TRY(mend_pool_check_struct(usage, "mend_usage"));
    MEND_TRY(mend_pool_read_struct(outside, "mend_usage", &of_outside, sizeof(of_outside)));
    MEND_TRY(mend_pool_look(pool));
    if (outside != NULL) {
        mend_usage_set_outside(&pool->heap, &of_outside);
    }
    mend_fallback_look_for_ends(&pool->heap);
    mend_usage_settle(&pool->heap);
    mend_usage_fill(&pool->heap, &all);
    mend_heap_unlock(&pool->heap);
    mend_struct_write(usage, &all, sizeof(all));
    return MEND_OK;
}

mend_result mend_reset_peak_stats(mend_pool *pool)
{
    MEND_INVALID_IF(pool == NULL, "mend_reset_peak_stats: pool is NULL");
    MEND_TRY(mend_pool_look(pool));
    mend_layout_note_peaks(&pool->heap, true);
    mend_heap_unlock(&pool->heap);
    return MEND_OK;
}

/* ---- memory for others ----------------------------------------------------------------------- */

/* The thread that collects a pool's memory for others: see MEND_TRIM_BY_POLICY. */

/* A process that waits for memory of others does so for MEND_OTHERS_PATIENCE_MS. */
enum { PERIOD_WITH_FILE_MS = 10, SHORTEST_MS = 10, USUAL_MS = 250, PERIODS_OF_IDLE = 4 };
static_assert(PERIOD_WITH_FILE_MS * 4 <= MEND_OTHERS_PATIENCE_MS, "others wait long enough");

/* Memory that the pool should release for others. The driver needs a context. Without one it
 * releases nothing. */
static mend_wants ask_others(mend_pool *pool)
{
    const mend_driver *driver = pool->driver;
    mend_wants wants = {0};
    if (pool->others != NULL &&
        driver->context_push(driver, pool->heap.device.context) == MEND_DRIVER_OK) {
        wants = pool->others->ask(pool->others);
        driver->context_pop(driver);
    }
    return wants;
}

static void offer(mend_pool *pool, uint64_t idle_bytes, bool gives_back, uint64_t answered)
{
    if (pool->others != NULL) {
        pool->others->offer(pool->others, idle_bytes, gives_back, answered);
    }
}

mend_result mend_pool_collect(mend_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes)
{
    MEND_TRY(mend_pool_check_process(pool));
    const mend_wants wants = ask_others(pool);
    MEND_TRY(mend_pool_enter_all(pool));
    uint64_t bytes = 0;
    const uint64_t keep = mend_heap_keep_in_chunks(&pool->heap, keep_bytes);
    mend_result result =
        mend_fallback_collect(&pool->heap, pool->idle_ns, wants.bytes, keep, &bytes);
    uint64_t empty_bytes = mend_chunks_empty_bytes(&pool->heap.chunks);
    result = mend_pool_leave_all(pool, result);
    offer(pool, empty_bytes, pool->background.runs, wants.newest);
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = bytes;
    }
    return result;
}

static void *collect(void *context)
{
    mend_pool *pool = context;
    struct pollfd bell = {.fd = pool->background.bell, .events = POLLIN};
    mend_result result = MEND_OK;
    int rung = 0;
    while (result != MEND_ERROR_DEVICE_LOST && result != MEND_ERROR_FORKED) {
        rung = poll(&bell, 1, pool->background.period_ms);
        if (rung > 0) {
            break;
        }
        result = mend_pool_collect(pool, 0, NULL);
    }
    if (rung <= 0) {
        offer(pool, 0, false, 0); /* others need not wait for it any more */
    }
    return NULL;
}

static int period_of(const mend_pool *pool)
{
    uint64_t idle_ms = pool->idle_ns / UINT64_C(1000000);
    uint64_t period = idle_ms == 0 ? USUAL_MS : idle_ms / PERIODS_OF_IDLE;
    period = mend_min_u64(mend_max_u64(period, SHORTEST_MS), USUAL_MS);
    return pool->others != NULL && pool->others->has_members ? PERIOD_WITH_FILE_MS : (int)period;
}

mend_result mend_background_thread_start(mend_pool *pool)
{
    mend_background_thread *background = &pool->background;
    background->period_ms = period_of(pool);
    background->bell = mend_file_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (background->bell < 0) {
        return mend_failure(MEND_ERROR_SYSTEM, "no file for the background thread: %s",
                            strerror(errno));
    }
    background->runs = true; /* the thread reads it */
    offer(pool, 0, true, 0);
    if (!mend_start_service(&background->thread, "mend-background", collect, pool)) {
        background->runs = false;
        offer(pool, 0, false, 0);
        close(background->bell);
        return mend_failure(MEND_ERROR_SYSTEM, "the system started no background thread");
    }
    return MEND_OK;
}

void mend_background_thread_stop(mend_pool *pool)
{
    mend_background_thread *background = &pool->background;
    if (background->runs) {
        (void)eventfd_write(background->bell, 1);
        pthread_join(background->thread, NULL);
        close(background->bell);
        background->runs = false;
    }
}
