/* PyTorch's statistics from Mend's. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "mend/mend_frameworks.h"
#include "mend/mend_torch.h"
#include "torch/heaps.h"
#include "torch/ranges.h"
#include "torch/rounding.h"

/* Statistics of a device's pool, with memory outside of it in all rows of the usage. */
typedef struct look {
    mend_stats stats;
    mend_usage usage;
    mend_usage outside;
} look;
#define LOOK_INIT                                                                                  \
    {                                                                                              \
        MEND_STATS_INIT, MEND_USAGE_INIT, MEND_USAGE_INIT                                          \
    }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static mend_usage outsides[MEND_TORCH_DEVICES];
/* The counters at their last reset. */
static look bases[MEND_TORCH_DEVICES];
static mend_torch_excess excess_bases[MEND_TORCH_DEVICES];

static _Atomic int64_t out_of_memory[MEND_TORCH_DEVICES];
static _Atomic int64_t retries[MEND_TORCH_DEVICES];

static mend_result look_at(int device, look *now)
{
    mend_pool *heap;
    mend_result result = mend_torch_heap(device, &heap);
    if (result != MEND_OK) {
        return result;
    }
    pthread_mutex_lock(&mutex); /* so that outside memory is the usage's */
    now->outside = outsides[device];
    result = mend_get_usage(heap, NULL, &now->usage);
    pthread_mutex_unlock(&mutex);
    return result == MEND_OK ? mend_get_stats(heap, &now->stats) : result;
}

/* The pool's part of a row. */
static uint64_t own(const look *at, int row, int part)
{
    return at->usage.now[row][part] - at->outside.now[row][part];
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Sums from `grown` and the increases since the last reset. Other growth is unknown. */
static mend_torch_stat stat_of(uint64_t current, uint64_t peak, int64_t grown, uint64_t increases)
{
    const int64_t came = max_of(max_of((int64_t)increases, grown), 0);
    return (mend_torch_stat){(int64_t)current, (int64_t)peak, came, came - grown};
}

static_assert((int)MEND_TORCH_ALL == (int)MEND_USAGE_ALL &&
                  (int)MEND_TORCH_SMALL == (int)MEND_USAGE_SMALL &&
                  (int)MEND_TORCH_LARGE == (int)MEND_USAGE_LARGE &&
                  (int)MEND_TORCH_STAT_TYPES == (int)MEND_USAGE_PARTS,
              "PyTorch's pools are the parts of the usage");

/* A statistic from its row of the usage, and the sums of increases, of all and of the small
 * pool. */
static void fill_row(mend_torch_stat stat[MEND_TORCH_STAT_TYPES], const look *now, const look *base,
                     int row, uint64_t increases, uint64_t small_increases)
{
    const uint64_t of[MEND_TORCH_STAT_TYPES] = {increases, small_increases,
                                                increases - small_increases};
    for (int part = 0; part < MEND_TORCH_STAT_TYPES; part++) {
        const int64_t grown = (int64_t)(own(now, row, part) - own(base, row, part));
        stat[part] =
            stat_of(now->usage.now[row][part], now->usage.peak[row][part], grown, of[part]);
    }
}

/* The names are those of fields in mend_stats. */
#define FILL(field, row, total, small_total)                                                       \
    fill_row(figures->field, now, base, row, now->stats.total - base->stats.total,                 \
             now->stats.small_total - base->stats.small_total)

/* Free memory that cannot be released: only its current value is known. */
static mend_torch_stat idle_of(uint64_t bytes)
{
    return (mend_torch_stat){(int64_t)bytes, (int64_t)bytes, (int64_t)bytes, 0};
}

/* Of the two pools only the current values are known. */
static void fill_chunks(mend_torch_figures *figures, const look *now, const look *base)
{
    const uint64_t small = now->stats.small_chunks;
    const uint64_t base_small = base->stats.small_chunks;
    FILL(segment, MEND_USAGE_CHUNKS, chunks_created, chunks_created);
    figures->segment[MEND_TORCH_SMALL] = stat_of(small, small, (int64_t)(small - base_small), 0);
    const uint64_t large = now->stats.chunks - small;
    const uint64_t base_large = base->stats.chunks - base_small;
    figures->segment[MEND_TORCH_LARGE] = stat_of(large, large, (int64_t)(large - base_large), 0);
}

/* Bytes beyond PyTorch's requests do not count as requested, except in peaks. A small block may lie
 * in the large zone: the small zone's figures are not less than 0. */
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

static void fill(mend_torch_figures *figures, const look *now, const look *base, int device)
{
    FILL(allocation, MEND_USAGE_BLOCKS, allocations, small_allocations);
    FILL(active, MEND_USAGE_ACTIVE_BLOCKS, allocations, small_allocations);
    FILL(allocated_bytes, MEND_USAGE_BYTES, allocated_bytes, small_allocated_bytes);
    FILL(active_bytes, MEND_USAGE_ACTIVE_BYTES, allocated_bytes, small_allocated_bytes);
    FILL(requested_bytes, MEND_USAGE_REQUESTED_BYTES, allocated_requested_bytes,
         small_allocated_requested_bytes);
    if (mend_torch_rounding_sum(device).added != 0) {
        subtract_excess(figures, device);
    }
    FILL(reserved_bytes, MEND_USAGE_RESERVED_BYTES, created_bytes, small_reserved_bytes);
    fill_chunks(figures, now, base);
    mend_torch_stat *idle = figures->inactive_split_bytes;
    const uint64_t free_small_bytes = now->stats.free_small_bytes;
    idle[MEND_TORCH_ALL] = idle_of(now->stats.free_partial_bytes + free_small_bytes);
    idle[MEND_TORCH_SMALL] = idle_of(free_small_bytes);
    idle[MEND_TORCH_LARGE] = idle_of(now->stats.free_partial_bytes);
#define SINCE(counter) (int64_t)(now->stats.counter - base->stats.counter)
    figures->num_alloc_retries = SINCE(waited_requests) + atomic_load(&retries[device]);
    figures->num_ooms = atomic_load(&out_of_memory[device]);
    figures->num_sync_all_streams = SINCE(host_waits);
    figures->num_device_alloc = SINCE(chunks_created);
    figures->num_device_free = SINCE(chunks_released);
#undef SINCE
}

mend_result mend_torch_get_figures(int device, mend_torch_figures *figures)
{
    look now = LOOK_INIT;
    mend_result result = look_at(device, &now);
    if (result == MEND_OK) {
        *figures = (mend_torch_figures){.num_ooms = 0};
        pthread_mutex_lock(&mutex);
        fill(figures, &now, &bases[device], device);
        pthread_mutex_unlock(&mutex);
    }
    return result;
}

mend_result mend_torch_set_outside(int device, const mend_usage *outside)
{
    mend_pool *heap;
    mend_usage usage = MEND_USAGE_INIT;
    mend_result result = mend_torch_heap(device, &heap);
    if (result != MEND_OK) {
        return result;
    }
    pthread_mutex_lock(&mutex);
    result = mend_get_usage(heap, outside, &usage);
    outsides[device] = result == MEND_OK ? *outside : outsides[device];
    pthread_mutex_unlock(&mutex);
    return result;
}

static mend_result reset_accumulated(int device)
{
    look now = LOOK_INIT;
    mend_result result = look_at(device, &now);
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
    mend_available room = MEND_AVAILABLE_INIT;
    mend_result result = mend_torch_heap(device, &heap);
    if (result == MEND_OK) {
        result = mend_get_available(heap, stream, &room);
    }
    if (result == MEND_OK) {
        *size_bytes =
            room.now_bytes > room.after_waiting_bytes ? room.now_bytes : room.after_waiting_bytes;
    }
    return result;
}
