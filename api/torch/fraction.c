/* The memory fraction: the most that Mend may hold, together with the memory of pools that have an
 * allocator of the program's (foreign memory). Mend's limit is the rest after such pools. */
#include <pthread.h>
#include <stdbool.h>

#include "mend/mend_frameworks.h"
#include "mend/mend_torch.h"
#include "torch/heaps.h"

typedef struct share {
    uint64_t allowed_bytes; /* 0: no fraction below 1 is set */
    uint64_t foreign_bytes;
    uint64_t limit_bytes; /* of Mend's, as it was set here last */
} share;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static share shares[MEND_TORCH_DEVICES];

/* Locks, so that the figures stay those of the share. Not after a failure. */
static mend_result lock_share(int device, mend_pool **heap, mend_stats *stats)
{
    mend_result result = mend_torch_heap(device, heap);
    if (result != MEND_OK) {
        return result;
    }
    pthread_mutex_lock(&mutex);
    result = mend_get_stats(*heap, stats);
    if (result != MEND_OK) {
        pthread_mutex_unlock(&mutex);
    }
    return result;
}

/* The limit in bytes of a fraction below 1. A limit of 0 would mean no limit. */
static uint64_t limit_of(double fraction, uint64_t device_bytes)
{
    double bytes = fraction * (double)device_bytes;
    return (uint64_t)bytes + (bytes < 1);
}

/* Whether the limit is the one that was set here, and not mend_set_limit's or a new pool's. */
static bool is_ours(const share *of, const mend_stats *stats)
{
    return of->allowed_bytes != 0 && stats->limit_bytes == of->limit_bytes;
}

static uint64_t left_of(const share *of)
{
    return of->allowed_bytes > of->foreign_bytes ? of->allowed_bytes - of->foreign_bytes : 0;
}

static mend_result set_limit(share *of, mend_pool *heap)
{
    uint64_t left = left_of(of);
    of->limit_bytes = left + (left == 0);
    return mend_set_limit(heap, of->limit_bytes);
}

mend_result mend_torch_set_fraction(int device, double fraction)
{
    mend_pool *heap;
    mend_stats stats = MEND_STATS_INIT;
    if (!(fraction >= 0 && fraction <= 1)) { /* also for NaN */
        return mend_set_last_error(MEND_ERROR_INVALID_ARGUMENT, "a fraction is from 0 to 1");
    }
    mend_result result = lock_share(device, &heap, &stats);
    if (result == MEND_OK) {
        share *of = &shares[device];
        of->allowed_bytes = fraction < 1 ? limit_of(fraction, stats.device_bytes) : 0;
        result = fraction < 1 ? set_limit(of, heap) : mend_set_limit(heap, 0);
        pthread_mutex_unlock(&mutex);
    }
    return result;
}

/* The limit is in bytes. The fraction that was set is the nearest with few digits. */
static double fraction_of(uint64_t bytes, uint64_t device_bytes)
{
    const double exact = (double)bytes / (double)device_bytes;
    const double near = (double)(uint64_t)(exact * 1e6 + 0.5) / 1e6;
    return limit_of(near, device_bytes) == bytes ? near : exact;
}

mend_result mend_torch_get_allowed(int device, mend_torch_allowed *allowed)
{
    mend_pool *heap;
    mend_stats stats = MEND_STATS_INIT;
    mend_result result = lock_share(device, &heap, &stats);
    if (result == MEND_OK) {
        const share *of = &shares[device];
        bool ours = is_ours(of, &stats);
        const uint64_t bytes = ours ? of->allowed_bytes : stats.limit_bytes;
        *allowed = (mend_torch_allowed){.bytes = bytes,
                                        .foreign_bytes = ours ? of->foreign_bytes : 0,
                                        .device_bytes = stats.device_bytes,
                                        .fraction = fraction_of(bytes, stats.device_bytes),
                                        .all_foreign_bytes = of->foreign_bytes,
                                        .is_fraction = ours};
        pthread_mutex_unlock(&mutex);
    }
    return result;
}

/* ---- foreign memory -------------------------------------------------------------------------- */

static mend_result exceeded(void)
{
    return mend_set_last_error(MEND_ERROR_OUT_OF_MEMORY,
                               "the memory fraction leaves no memory beside Mend's for pools with "
                               "an allocator of the program's");
}

mend_result mend_torch_foreign_room(int device, uint64_t size_bytes)
{
    mend_pool *heap;
    mend_stats stats = MEND_STATS_INIT;
    mend_result result = lock_share(device, &heap, &stats);
    if (result != MEND_OK) {
        return result;
    }
    bool ours = is_ours(&shares[device], &stats);
    uint64_t left = left_of(&shares[device]);
    pthread_mutex_unlock(&mutex);
    if (!ours) {
        return MEND_OK;
    }
    if (size_bytes > left) {
        return exceeded();
    }
    uint64_t keep_bytes = left - size_bytes;
    if (stats.reserved_bytes > keep_bytes) {
        (void)mend_trim(heap, keep_bytes, MEND_TRIM_WAIT, NULL); /* its remaining memory counts */
        result = mend_get_stats(heap, &stats);
    }
    bool is_over = result == MEND_OK && stats.reserved_bytes > keep_bytes;
    return is_over ? exceeded() : result;
}

mend_result mend_torch_foreign_add(int device, uint64_t size_bytes)
{
    mend_pool *heap;
    mend_stats stats = MEND_STATS_INIT;
    mend_result result = lock_share(device, &heap, &stats);
    if (result != MEND_OK) {
        return result;
    }
    share *of = &shares[device];
    if (is_ours(of, &stats) && size_bytes > left_of(of)) {
        result = exceeded();
    } else {
        of->foreign_bytes += size_bytes;
    }
    if (result == MEND_OK && is_ours(of, &stats)) {
        (void)set_limit(of, heap);
        result = mend_get_stats(heap, &stats);
        if (result == MEND_OK && stats.reserved_bytes > left_of(of)) {
            of->foreign_bytes -= size_bytes;
            (void)set_limit(of, heap);
            result = exceeded();
        }
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

void mend_torch_foreign_remove(int device, uint64_t size_bytes)
{
    mend_pool *heap;
    mend_stats stats = MEND_STATS_INIT;
    if (device < 0 || device >= MEND_TORCH_DEVICES) {
        return;
    }
    const bool has_pool = mend_torch_heap(device, &heap) == MEND_OK; /* it went without one, too */
    share *of = &shares[device];
    pthread_mutex_lock(&mutex);
    of->foreign_bytes -= size_bytes < of->foreign_bytes ? size_bytes : of->foreign_bytes;
    if (has_pool && mend_get_stats(heap, &stats) == MEND_OK && is_ours(of, &stats)) {
        (void)set_limit(of, heap);
    }
    pthread_mutex_unlock(&mutex);
}
