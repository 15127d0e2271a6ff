/* Fills mend_stats from the heap: counters and sums that it keeps, each checked by the validation.
 * It needs `state` alone, so a transaction may be in progress: its claimed memory counts as free,
 * its created memory as reserved. */
#include "pool/pool.h"

#include <stdio.h>

#include "base/words.h"
#include "mend/mend_frameworks.h"

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
    stats->free_partial_bytes = large_bytes - heap->zones[MEND_ZONE_LARGE].empty_bytes;
    stats->free_partial_bytes += range_bytes - heap->zones[MEND_ZONE_RANGE].empty_bytes;
    stats->free_small_bytes = small_bytes - heap->zones[MEND_ZONE_SMALL].empty_bytes;
    stats->small_chunks = chunks->reserved_in[MEND_ZONE_SMALL];
    stats->limit_bytes = heap->config.limit_bytes;
    stats->soft_limit_bytes = heap->config.soft_limit_bytes;
    stats->pending_bytes = heap->usage.pending_bytes[MEND_USAGE_ALL];
    stats->peer_devices = (uint64_t)heap->allowed.count - 1;
    stats->effective_limit_bytes = mend_budget_hard_limit(heap);
    stats->device_bytes = heap->device.total_bytes;
    stats->bare_device = !heap->device.virtual_memory && !heap->device.memory_pools;
    stats->address_bytes = heap->space.address_bytes + heap->range_space.address_bytes;
    stats->mapped_bytes = mend_heap_taken_bytes(heap) - chunks->unmapped_frozen_bytes;
    stats->retired_bytes = heap->retire.bytes;
    assert(stats->free_bytes + stats->live_bytes ==
           stats->reserved_bytes + chunks->asleep_live_bytes);
    assert(stats->free_partial_bytes <= large_bytes + range_bytes);
    assert(stats->free_small_bytes <= small_bytes);
    assert(mend_heap_taken_bytes(heap) >= chunks->unmapped_frozen_bytes);
}

/* The counters of the heap. A request that the cache served was placed in a run, too. */
static void fill_counters(const mend_heap *heap, mend_stats *stats)
{
#define X(counter) stats->counter = heap->counters.counter;
    MEND_HEAP_COUNTERS(X)
#undef X
    stats->placed_in_run += stats->cache_hits;
    stats->driver_failures += heap->chunks.fabric_retries;
}

static void fill_counts(const mend_heap *heap, mend_stats *stats)
{
    assert(heap->graph_pools.count >= heap->graph_pools.capture_count);
    const mend_zone *small = &heap->zones[MEND_ZONE_SMALL];
    const mend_zone *large = &heap->zones[MEND_ZONE_LARGE];
    stats->live_blocks = MEND_HEAP_SUM(heap, live_blocks);
    stats->chunks = mend_heap_chunks(heap);
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
    stats->cached_blocks = (uint64_t)small->cache.count + large->cache.count;
    stats->cached_bytes = mend_cache_bytes(heap);
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
    assert(stats->peak_live_bytes >= stats->live_bytes);
    assert(stats->peak_live_blocks >= stats->live_blocks);
    assert(stats->peak_requested_bytes >= stats->requested_bytes);
    assert(stats->peak_reserved_bytes >= stats->reserved_bytes);
    assert(stats->peak_chunks >= stats->chunks);
    assert(stats->peak_mappings >= stats->mappings);
}

void mend_observe_statistics(mend_heap *heap, mend_stats *stats)
{
    *stats = (mend_stats){.struct_size = stats->struct_size};
    mend_usage_settle(heap);
    fill_bytes(heap, stats);
    fill_counts(heap, stats);
    fill_small(heap, stats);
    MEND_FEATURES_CALL(statistics, heap, stats);
    mend_layout_note_peaks(heap, false); /* memory that a thread is adding counts */
    fill_counters(heap, stats);
    fill_peaks(heap, stats);
}

/* ---- what is left when a pool ends ----------------------------------------------------------- */

enum { SHOWN = 3 };

/* Inserts the span if it is one of the largest. The smallest of the list drops out. */
static void keep(const mend_span *largest[SHOWN], const mend_span *span)
{
    for (int i = 0; i < SHOWN; i++) {
        if (largest[i] == NULL || span->size_bytes > largest[i]->size_bytes) {
            const mend_span *smaller = largest[i];
            largest[i] = span;
            span = smaller;
            if (span == NULL) {
                return;
            }
        }
    }
}

bool mend_observe_remains(const mend_heap *heap, char line[MEND_REMAINS_BYTES])
{
    mend_stats stats = {0};
    MEND_FEATURES_CALL(statistics, heap, &stats);
    const uint64_t ranges = stats.ranges;
    const uint64_t count = MEND_HEAP_SUM(heap, live_blocks);
    const mend_zone *zones = heap->zones;
    const mend_span *largest[SHOWN] = {NULL};
    int used = 0;
    line[0] = '\0';
    if (ranges > 0) {
        used = snprintf(line, MEND_REMAINS_BYTES, "%llu ranges, %s committed",
                        (unsigned long long)ranges,
                        mend_words_amount(zones[MEND_ZONE_RANGE].counters.live_bytes).text);
    }
    if (count == 0) {
        return used > 0;
    }
    for (size_t i = 0; i < heap->blocks.capacity; i++) {
        const mend_span *span = heap->blocks.entries[i].value;
        if (span != NULL && span->live) {
            keep(largest, span);
        }
    }
    used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used,
                     "%s%llu block%s alive, %s; the largest:", used > 0 ? ", and " : "",
                     (unsigned long long)count, count == 1 ? "" : "s",
                     mend_words_amount(zones[MEND_ZONE_SMALL].counters.live_bytes +
                                       zones[MEND_ZONE_LARGE].counters.live_bytes)
                         .text);
    for (int i = 0; i < SHOWN && largest[i] != NULL; i++) {
        used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "%s 0x%llx (%s)",
                         i > 0 ? "," : "", (unsigned long long)largest[i]->address,
                         mend_words_amount(largest[i]->size_bytes).text);
    }
    used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, ".");
    mend_owner owners[MEND_OWNERS_TOLD] = {0};
    MEND_FEATURES_CALL(describe, heap, owners, line + used, MEND_REMAINS_BYTES - (size_t)used);
    return true;
}
