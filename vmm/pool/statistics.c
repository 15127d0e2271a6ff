/* Fills mend_stats from the heap: counters and sums that it keeps, each checked by the validation.
 * It needs `state` alone, so a transaction may be in progress: what that has claimed counts as
 * free, what it has created as reserved. */
#include "pool/pool.h"

#include <stdio.h>

#include "alloc/ladder.h"
#include "base/words.h"
#include "layout/feature.h"
#include "layout/layout.h"
#include "map/map.h"

/* Number of live blocks that lack their mapping after a transaction that failed. */
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
    stats->address_bytes = heap->space.address_bytes + heap->range_space.address_bytes -
                           heap->range_space.borrowed_bytes;
    stats->mapped_bytes = mend_heap_taken_bytes(heap) - chunks->unmapped_frozen_bytes;
    stats->retired_bytes = heap->retire.bytes;
    assert(stats->free_bytes + stats->live_bytes ==
           stats->reserved_bytes + chunks->asleep_live_bytes);
    assert(stats->free_partial_bytes <= large_bytes + range_bytes);
    assert(stats->free_small_bytes <= small_bytes);
    assert(mend_heap_taken_bytes(heap) >= chunks->unmapped_frozen_bytes);
}

/* The counters of the heap; a request that the front cache served was placed in a run, too. */
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
    stats->history_events = heap->history.next - 1;
    stats->history_lost = mend_history_lost(&heap->history);
    const mend_event_ring *recording = heap->history.recording;
    stats->record_lost = recording != NULL ? atomic_load(&recording->lost) : 0;
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

/* ---- why free memory is not used ------------------------------------------------------------- */

/* Why free memory is not used, in sums; and what is left when a pool ends. */

mend_free_reason mend_observe_reason(const mend_heap *heap, const mend_span *span, uint32_t asking)
{
    assert(!span->live);
    const mend_streams *streams = &heap->streams;
    unsigned holds = mend_waits_blocked_by(streams, &span->waits, asking);
    if (holds & MEND_BLOCKED_BY_GRAPH_POOLS) {
        return MEND_FREE_GRAPH_POOLS;
    }
    if (holds & MEND_BLOCKED_UNTIL_WAIT) {
        return MEND_FREE_STREAMLESS;
    }
    if (holds & MEND_BLOCKED_BY_STREAMS) {
        return MEND_FREE_STREAMS;
    }
    bool is_idle = mend_waits_blocked_by(streams, &span->waits, MEND_STREAM_UNKNOWN) == 0;
    return is_idle ? MEND_FREE_IDLE : MEND_FREE_OWN;
}

/* `idle`: what counts it if nothing keeps it from use. */
static void add(mend_live_free *sums, uint64_t *idle, mend_free_reason reason, uint64_t bytes)
{
    uint64_t *const sum_of[MEND_FREE_REASONS] = {
        [MEND_FREE_IDLE] = idle,
        [MEND_FREE_OWN] = &sums->streams_bytes,
        [MEND_FREE_STREAMS] = &sums->streams_bytes,
        [MEND_FREE_STREAMLESS] = &sums->no_stream_bytes,
        [MEND_FREE_GRAPH_POOLS] = &sums->graphs_bytes,
    };
    *sum_of[reason] += bytes;
}

/* Returns the lowest span of the chunk; `above` is that of the chunk above it. Adds to *count how
 * many there are. */
static const mend_span *add_chunk(const mend_heap *heap, const mend_chunk *chunk,
                                  const mend_span *above, mend_live_free *sums, size_t *count)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    const bool is_empty = mend_chunk_is_empty(chunk);
    const bool sleeps = mend_chunk_sleeps(chunk);
    mend_free_reason worst = MEND_FREE_IDLE;
    const mend_span *lowest = NULL;
    const mend_span *span = mend_layout_last_span(heap, chunk, above);
    for (; span != NULL && mend_span_end(span) > chunk->address; span = span->previous) {
        lowest = span;
        ++*count;
        if (span->live || sleeps) {
            continue;
        }
        const uint64_t bytes =
            mend_min_u64(mend_span_end(span), end) - mend_max_u64(span->address, chunk->address);
        const mend_free_reason reason = mend_observe_reason(heap, span, MEND_STREAM_UNKNOWN);
        worst = reason > worst ? reason : worst;
        if (!is_empty) {
            add(sums, &sums->beside_bytes, reason, bytes);
        }
    }
    if (is_empty) {
        add(sums, &sums->whole_bytes, worst, chunk->size_bytes);
    } else if (sleeps && mend_chunk_is_reserved(chunk)) {
        sums->beside_bytes += chunk->size_bytes; /* the driver refused to take it back */
    }
    return lowest;
}

bool mend_observe_free(const mend_heap *heap, size_t spans, uint64_t *below, mend_live_free *sums)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    const mend_span *above = NULL;
    size_t count = 0;
    if (*below == UINT64_MAX) {
        *sums = (mend_live_free){.whole_bytes = heap->chunks.unmapped_bytes};
    }
    const mend_chunk *chunk = mend_chunk_below(&heap->chunks, *below);
    for (; chunk != NULL && count < spans; chunk = mend_chunk_previous(chunk)) {
        above = add_chunk(heap, chunk, above, sums, &count);
        *below = chunk->address;
    }
    return chunk != NULL;
}

/* ---- what is left when a pool ends ----------------------------------------------------------- */

enum { SHOWN = MEND_OWNERS_SHOWN };

/* Inserts the span if it is one of the largest; the smallest of the list drops out. */
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
    mend_owner owners[SHOWN] = {0};
    mend_owner suspect = {0};
    size_t total = 0;
    char text[MEND_REMAINS_BYTES / 2];
    (void)mend_owners_find(heap, MEND_BY_DEFAULT, owners, SHOWN, &suspect, &total);
    if (mend_owners_describe(owners, mend_min_u64(total, SHOWN), text, sizeof(text)) > 0) {
        used += snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "; held by: %s", text);
    }
    mend_owners_accuse(&suspect, text, sizeof(text));
    if (text[0] != '\0') {
        snprintf(line + used, MEND_REMAINS_BYTES - (size_t)used, "; possible leak: %s", text);
    }
    return true;
}
