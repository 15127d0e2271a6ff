/* The calls about memory in total: limits, releases, available memory, statistics. */

#include "base/align.h"
#include "base/words.h"
#include "mend/mend_frameworks.h"
#include "pool/pool.h"

/* How much may stay reserved in chunks where the pool is to hold at most `keep_bytes`. */
static uint64_t keep_in_chunks(const mend_heap *heap, uint64_t keep_bytes)
{
    return keep_bytes - mend_min_u64(mend_heap_passed_bytes(heap), keep_bytes);
}

mend_result mend_trim(mend_pool *pool, uint64_t keep_bytes, mend_trim_mode mode,
                      uint64_t *released_bytes)
{
    MEND_INVALID_IF(pool == NULL || (unsigned)mode > MEND_TRIM_BY_POLICY,
                    "mend_trim: pool is NULL, or mode is no mend_trim_mode");
    if (mode == MEND_TRIM_BY_POLICY) {
        return mend_pool_collect(pool, keep_bytes, released_bytes);
    }
    MEND_TRY(mend_pool_enter_all(pool));
    uint64_t bytes = 0;
    const uint64_t keep = keep_in_chunks(&pool->heap, keep_bytes);
    mend_result result = mend_fallback_trim(&pool->heap, keep, mode == MEND_TRIM_WAIT, &bytes);
    MEND_FEATURES_CALL(trim, &pool->heap, false);
    assert(bytes <= pool->heap.chunks.created_bytes - pool->heap.chunks.reserved_bytes);
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = bytes;
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_get_available(mend_pool *pool, mend_stream stream, mend_available *available)
{
    MEND_INVALID_IF(pool == NULL || available == NULL,
                    "mend_get_available: pool or available is NULL");
    mend_order order = {.stream = stream};
    MEND_TRY(mend_pool_check_struct(available, "MEND_AVAILABLE_INIT"));
    MEND_TRY(mend_pool_find_capture(pool, stream, &order.capture));
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
    mend_heap *heap = &pool->heap;
    uint64_t released_bytes = 0;
    mend_events_begin_call(&heap->events, MEND_CAUSE_LIMIT);
    const uint64_t limit = limit_bytes == 0 ? heap->config.default_limit_bytes
                                            : mend_min_u64(limit_bytes, heap->device.total_bytes);
    heap->config.limit_bytes = limit;
    mend_events_note(&heap->events, MEND_EVENT_LIMIT, 0, limit, 0);
    const uint64_t most_bytes = mend_budget_limit_of_chunks(heap);
    mend_result result = heap->chunks.reserved_bytes > most_bytes
                             ? mend_fallback_trim(heap, most_bytes, false, &released_bytes)
                             : MEND_OK;
    const uint64_t reserved = heap->chunks.reserved_bytes + mend_heap_passed_bytes(heap);
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

/* ---- figures --------------------------------------------------------------------------------- */

/* A transaction may be in progress: its claimed memory counts as free, its created as reserved. */

/* Number of live blocks without a mapping after a failed transaction. */
static uint64_t unmapped_blocks(const mend_heap *heap)
{
    uint64_t count = 0;
    for (size_t i = 0; i < heap->blocks.capacity && heap->chunks.missing_count > 0; i++) {
        const mend_span *span = heap->blocks.entries[i].value;
        count += span != NULL && mend_layout_misses_mapping(heap, span);
    }
    return count;
}

static void fill_bytes(const mend_heap *heap, mend_stats *stats)
{
    const mend_chunks *chunks = &heap->chunks;
    const uint64_t small_bytes = mend_heap_free_in(heap, MEND_ZONE_SMALL);
    const uint64_t large_bytes = mend_heap_free_in(heap, MEND_ZONE_LARGE);
    const uint64_t range_bytes = mend_heap_free_in(heap, MEND_ZONE_RANGE);
    stats->live_bytes = heap->counters.live_bytes;
    stats->requested_bytes = MEND_HEAP_SUM(heap, requested_bytes);
    stats->reserved_bytes = chunks->reserved_bytes + mend_heap_passed_bytes(heap);
    stats->passed_bytes = mend_heap_passed_bytes(heap);
    stats->passed_blocks = heap->zones[MEND_ZONE_PASSED].counters.live_blocks;
    stats->free_bytes = small_bytes + large_bytes + range_bytes + chunks->unmapped_bytes;
    stats->free_empty_bytes = mend_chunks_empty_bytes(chunks);
    stats->free_partial_bytes = large_bytes - chunks->empty_in[MEND_ZONE_LARGE];
    stats->free_partial_bytes += range_bytes - chunks->empty_in[MEND_ZONE_RANGE];
    stats->free_small_bytes = small_bytes - chunks->empty_in[MEND_ZONE_SMALL];
    stats->small_chunks = chunks->reserved_in[MEND_ZONE_SMALL];
    stats->limit_bytes = heap->config.limit_bytes;
    stats->soft_limit_bytes = heap->config.soft_limit_bytes;
    stats->pending_bytes = heap->usage.pending_bytes[MEND_USAGE_ALL];
    stats->peer_devices = (uint64_t)heap->allowed.count - 1;
    stats->effective_limit_bytes =
        mend_min_u64(mend_budget_hard_limit(heap) + stats->passed_bytes, stats->limit_bytes);
    stats->device_bytes = heap->device.total_bytes;
    stats->bare_device = !heap->device.virtual_memory && !heap->device.memory_pools;
    stats->address_bytes = heap->space.address_bytes + heap->range_space.address_bytes;
    stats->mapped_bytes = heap->space.taken_bytes + heap->range_space.taken_bytes;
    stats->mapped_bytes -= chunks->unmapped_frozen_bytes;
    stats->retired_bytes = heap->retire.bytes;
}

static void fill_counts(const mend_heap *heap, mend_stats *stats)
{
    stats->live_blocks = MEND_HEAP_SUM(heap, live_blocks);
    stats->chunks = heap->chunks.all.count;
    stats->mappings = mend_heap_mappings(heap);
    stats->unmapped_blocks = unmapped_blocks(heap);
    stats->streams = heap->streams.known_count;
    stats->graph_pools = heap->graph_pools.count - heap->graph_pools.capture_count;
    stats->captures = heap->graph_pools.capture_count;
    stats->allocations = MEND_HEAP_SUM(heap, allocations);
    stats->frees = stats->allocations - stats->live_blocks;
    stats->chunks_created = heap->chunks.created;
    stats->chunks_released = heap->chunks.released;
    stats->stream_waits = heap->streams.stream_waits;
    stats->host_waits = heap->streams.host_waits;
    stats->context_fences = heap->streams.context_fences;
    for (int zone = 0; zone < MEND_ZONES_OF_BLOCKS; zone++) {
        const mend_cache *cache = &heap->zones[zone].cache;
        stats->cached_blocks += cache->count;
        for (uint32_t i = 0; i < cache->count; i++) {
            stats->cached_bytes += cache->spans[i]->size_bytes;
        }
    }
}

/* The totals of both zones, and the part of the small zone. */
static void fill_small(const mend_heap *heap, mend_stats *stats)
{
    const mend_zone_counters *small = &heap->zones[MEND_ZONE_SMALL].counters;
    stats->small_live_blocks = small->live_blocks;
    stats->small_reserved_bytes = mend_heap_reserved_in(heap, MEND_ZONE_SMALL);
#define X(counter) stats->small_##counter = small->counter
    X(live_bytes);
    X(requested_bytes);
    X(allocations);
    X(allocated_bytes);
    X(allocated_requested_bytes);
#undef X
    stats->allocated_bytes = MEND_HEAP_SUM(heap, allocated_bytes);
    stats->allocated_requested_bytes = MEND_HEAP_SUM(heap, allocated_requested_bytes);
    stats->created_bytes = heap->chunks.created_bytes;
}

static void fill_peaks(const mend_heap *heap, mend_stats *stats)
{
    stats->peak_small_reserved_bytes = heap->zones[MEND_ZONE_SMALL].counters.peak_reserved_bytes;
    stats->peak_large_reserved_bytes = heap->zones[MEND_ZONE_LARGE].counters.peak_reserved_bytes;
#define X(figure, counter)                                                                         \
    stats->peak_##figure = mend_usage_counter_peak(heap, counter, MEND_USAGE_ALL);                 \
    stats->peak_small_##figure = mend_usage_counter_peak(heap, counter, MEND_USAGE_SMALL);         \
    stats->peak_large_##figure = mend_usage_counter_peak(heap, counter, MEND_USAGE_LARGE)
    X(live_blocks, MEND_USE_BLOCKS);
    X(live_bytes, MEND_USE_BYTES);
    X(requested_bytes, MEND_USE_REQUESTED);
#undef X
}

void mend_pool_statistics(mend_pool *pool, mend_stats *stats)
{
    mend_heap *heap = &pool->heap;
    *stats = (mend_stats){.struct_size = stats->struct_size};
    mend_usage_settle(heap);
    fill_bytes(heap, stats);
    fill_counts(heap, stats);
    fill_small(heap, stats);
    MEND_FEATURES_CALL(statistics, heap, stats);
    mend_layout_note_peaks(heap, false); /* memory that a thread is adding counts */
#define X(counter) stats->counter = heap->counters.counter;
    MEND_HEAP_COUNTERS(X)
#undef X
    stats->placed_in_run += stats->cache_hits; /* the cache's blocks were placed in a run, too */
    stats->driver_failures += heap->chunks.fabric_retries;
    fill_peaks(heap, stats);
    stats->pressure_calls = pool->callbacks.calls;
    stats->peer_pool_trims = pool->callbacks.peer_pool_trims;
}

mend_result mend_get_stats(mend_pool *pool, mend_stats *stats)
{
    MEND_INVALID_IF(pool == NULL || stats == NULL, "mend_get_stats: pool or stats is NULL");
    mend_stats all = MEND_STATS_INIT;
    MEND_TRY(mend_pool_check_struct(stats, "MEND_STATS_INIT"));
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
    MEND_TRY(mend_pool_check_struct(usage, "MEND_USAGE_INIT"));
    MEND_TRY(mend_pool_read_struct(outside, "MEND_USAGE_INIT", &of_outside, sizeof(of_outside)));
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

mend_result mend_pool_collect(mend_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes)
{
    MEND_TRY(mend_pool_check_process(pool));
    const mend_driver *driver = pool->driver;
    mend_wants wants = {0}; /* the driver needs a context. Without one nothing is for others */
    if (pool->others != NULL &&
        driver->context_push(driver, pool->heap.device.context) == MEND_DRIVER_OK) {
        wants = pool->others->ask(pool->others);
        driver->context_pop(driver);
    }
    MEND_TRY(mend_pool_enter_all(pool));
    uint64_t bytes = 0;
    const uint64_t keep = keep_in_chunks(&pool->heap, keep_bytes);
    mend_result result =
        mend_fallback_collect(&pool->heap, pool->idle_ns, wants.bytes, keep, &bytes);
    uint64_t empty_bytes = mend_chunks_empty_bytes(&pool->heap.chunks);
    result = mend_pool_leave_all(pool, result);
    if (pool->others != NULL) {
        pool->others->offer(pool->others, empty_bytes, pool->collector != NULL, wants.newest);
    }
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = bytes;
    }
    return result;
}
