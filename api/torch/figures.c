/* PyTorch's statistics from Mend's. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "mend/mend_torch.h"
#include "torch/heaps.h"
#include "torch/ranges.h"
#include "torch/rounding.h"

/* The values at the last reset of what accumulates. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static mend_stats bases[MEND_TORCH_DEVICES];
static mend_torch_excess excess_bases[MEND_TORCH_DEVICES];

static _Atomic int64_t out_of_memory[MEND_TORCH_DEVICES];
static _Atomic int64_t retries[MEND_TORCH_DEVICES];

static mend_result stats_of(int device, mend_pool **heap, mend_stats *stats)
{
    mend_result result = mend_torch_heap(device, heap);
    stats->struct_size = sizeof(*stats);
    return result == MEND_OK ? mend_get_stats(*heap, stats) : result;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* `total` is the sum of all increases so far. A change of zone since the last reset counts neither
 * as an increase nor as a decrease. */
static mend_torch_stat stat_of(uint64_t current, uint64_t peak, uint64_t base, uint64_t total,
                               uint64_t base_total)
{
    int64_t grown = (int64_t)current - (int64_t)base;
    int64_t came = max_of(max_of((int64_t)total - (int64_t)base_total, grown), 0);
    return (mend_torch_stat){(int64_t)current, (int64_t)peak, came, came - grown};
}

/* All three values of a statistic, whose fields in mend_stats have these names; small_total: the
 * total of the small zone, or its current value if there is none. */
#define FILL(stat, name, total, small_total)                                                       \
    do {                                                                                           \
        (stat)[MEND_TORCH_ALL] =                                                                   \
            stat_of(now->name, now->peak_##name, base->name, now->total, base->total);             \
        (stat)[MEND_TORCH_SMALL] =                                                                 \
            stat_of(now->small_##name, now->peak_small_##name, base->small_##name,                 \
                    now->small_total, base->small_total);                                          \
        (stat)[MEND_TORCH_LARGE] =                                                                 \
            stat_of(now->name - now->small_##name, now->peak_large_##name,                         \
                    base->name - base->small_##name, now->total - now->small_total,                \
                    base->total - base->small_total);                                              \
    } while (0)

/* Free memory that cannot be released: only its current value is known. */
static mend_torch_stat idle_of(uint64_t bytes)
{
    return (mend_torch_stat){(int64_t)bytes, (int64_t)bytes, (int64_t)bytes, 0};
}

static void fill_chunks(mend_torch_figures *figures, const mend_stats *now, const mend_stats *base)
{
    uint64_t large = now->chunks - now->small_chunks;
    uint64_t base_large = base->chunks - base->small_chunks;
    figures->segment[MEND_TORCH_ALL] = stat_of(now->chunks, now->peak_chunks, base->chunks,
                                               now->chunks_created, base->chunks_created);
    figures->segment[MEND_TORCH_SMALL] =
        stat_of(now->small_chunks, now->small_chunks, base->small_chunks, now->small_chunks,
                base->small_chunks);
    figures->segment[MEND_TORCH_LARGE] = stat_of(large, large, base_large, large, base_large);
}

/* What blocks have beyond PyTorch's requests does not count as requested, except in peaks. A small
 * block may lie in the large zone: the small zone's figures are not less than 0. */
static void subtract_excess(mend_torch_figures *figures, int device)
{
    const mend_torch_excess now = mend_torch_rounding_sum(device);
    const mend_torch_excess *base = &excess_bases[device];
    int64_t came = (int64_t)(now.added - base->added);
    int64_t small_came = (int64_t)(now.small_added - base->small_added);
    int64_t went = came - ((int64_t)now.live - (int64_t)base->live);
    int64_t small_went = small_came - ((int64_t)now.small_live - (int64_t)base->small_live);
    mend_torch_stat *all = &figures->requested_bytes[MEND_TORCH_ALL];
    mend_torch_stat *small = &figures->requested_bytes[MEND_TORCH_SMALL];
    mend_torch_stat *large = &figures->requested_bytes[MEND_TORCH_LARGE];
    all->current -= (int64_t)now.live;
    all->allocated -= came;
    all->freed -= went;
    small->current = max_of(small->current - (int64_t)now.small_live, 0);
    small->allocated = max_of(small->allocated - small_came, 0);
    small->freed = max_of(small->freed - small_went, 0);
    large->current = all->current - small->current;
    large->allocated = all->allocated - small->allocated;
    large->freed = all->freed - small->freed;
}

/* The pages of ranges count in the large zone's current values. When its blocks and the pages had
 * their peaks is not known: the peak is at most both. */
static void add_pages(mend_torch_stat *stat, uint64_t peak_range_bytes)
{
    mend_torch_stat *large = &stat[MEND_TORCH_LARGE];
    const int64_t both = large->peak + (int64_t)peak_range_bytes;
    large->peak = both < stat[MEND_TORCH_ALL].peak ? both : stat[MEND_TORCH_ALL].peak;
}

static void fill(mend_torch_figures *figures, const mend_stats *now, const mend_stats *base,
                 int device)
{
    FILL(figures->allocation, live_blocks, allocations, small_allocations);
    FILL(figures->active, live_blocks, allocations, small_allocations);
    FILL(figures->allocated_bytes, live_bytes, allocated_bytes, small_allocated_bytes);
    FILL(figures->active_bytes, live_bytes, allocated_bytes, small_allocated_bytes);
    FILL(figures->requested_bytes, requested_bytes, allocated_requested_bytes,
         small_allocated_requested_bytes);
    if (mend_torch_rounding_sum(device).added != 0) {
        subtract_excess(figures, device);
    }
    FILL(figures->reserved_bytes, reserved_bytes, created_bytes, small_reserved_bytes);
    if (now->peak_range_bytes > 0) {
        add_pages(figures->allocated_bytes, now->peak_range_bytes);
        add_pages(figures->active_bytes, now->peak_range_bytes);
        add_pages(figures->reserved_bytes, now->peak_range_bytes);
    }
    fill_chunks(figures, now, base);
    mend_torch_stat *idle = figures->inactive_split_bytes;
    idle[MEND_TORCH_ALL] = idle_of(now->free_partial_bytes + now->free_small_bytes);
    idle[MEND_TORCH_SMALL] = idle_of(now->free_small_bytes);
    idle[MEND_TORCH_LARGE] = idle_of(now->free_partial_bytes);
    figures->num_alloc_retries =
        (int64_t)(now->waited_requests - base->waited_requests) + atomic_load(&retries[device]);
    figures->num_ooms = atomic_load(&out_of_memory[device]);
    figures->num_sync_all_streams = (int64_t)(now->host_waits - base->host_waits);
    figures->num_device_alloc = (int64_t)(now->chunks_created - base->chunks_created);
    figures->num_device_free = (int64_t)(now->chunks_released - base->chunks_released);
}

mend_result mend_torch_get_figures(int device, mend_torch_figures *figures)
{
    mend_pool *heap;
    mend_stats now = MEND_STATS_INIT;
    mend_result result = stats_of(device, &heap, &now);
    if (result == MEND_OK) {
        *figures = (mend_torch_figures){.num_ooms = 0};
        pthread_mutex_lock(&mutex);
        fill(figures, &now, &bases[device], device);
        pthread_mutex_unlock(&mutex);
    }
    return result;
}

static mend_result reset_accumulated(int device)
{
    mend_pool *heap;
    mend_stats now = MEND_STATS_INIT;
    mend_result result = stats_of(device, &heap, &now);
    if (result == MEND_OK) {
        pthread_mutex_lock(&mutex);
        bases[device] = now;
        excess_bases[device] = mend_torch_rounding_sum(device);
        pthread_mutex_unlock(&mutex);
        atomic_store(&out_of_memory[device], 0);
        atomic_store(&retries[device], 0);
    }
    return result;
}

mend_result mend_torch_reset(int device, mend_torch_reset_kind kind)
{
    mend_pool *heap;
    if (kind == MEND_TORCH_ACCUMULATED) {
        return reset_accumulated(device);
    }
    mend_result result = mend_torch_heap(device, &heap);
    return result == MEND_OK ? mend_reset_peak_stats(heap) : result;
}

void mend_torch_note(int device, mend_torch_note_kind kind)
{
    if (device >= 0 && device < MEND_TORCH_DEVICES) {
        atomic_fetch_add(kind == MEND_TORCH_RETRY ? &retries[device] : &out_of_memory[device], 1);
    }
}

/* ---- memory in total ------------------------------------------------------------------------- */

mend_result mend_torch_empty_cache(void)
{
    mend_torch_ranges_settle();
    mend_result result = mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_WAIT, NULL);
    return result == MEND_ERROR_CAPTURING ? MEND_OK : result;
}

mend_result mend_torch_largest(int device, mend_stream stream, uint64_t *size_bytes)
{
    mend_pool *heap;
    mend_room room = MEND_ROOM_INIT;
    mend_result result = mend_torch_heap(device, &heap);
    if (result == MEND_OK) {
        result = mend_get_room(heap, stream, &room);
    }
    if (result == MEND_OK) {
        *size_bytes =
            room.now_bytes > room.after_waiting_bytes ? room.now_bytes : room.after_waiting_bytes;
    }
    return result;
}
