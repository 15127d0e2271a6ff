#include "heap/scarcity.h"

#include <assert.h>

#include "heap/attainable.h"
#include "heap/swap.h"

/* Room is ample while so much of the limit is not reserved, unless the pool is told otherwise. The
 * front of what this and the figures below cost and gain is in docs/benchmarks.md. */
enum { AMPLE_ROOM_PERCENT = 95 };

/* Memory is tight once all but so much of the limit was in use; or all but NEAR_PERCENT, and
 * TRAPPED_PERCENT of it trapped beside live blocks. */
enum { FULL_PERCENT = 2, NEAR_PERCENT = 10, TRAPPED_PERCENT = 2 };

/* A window lasts until so many times the limit was allocated: longer than a step of a program. */
enum { LIMITS_OF_WINDOW = 4 };

static uint64_t percent_of(uint64_t bytes, uint64_t percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

/* The limit, less what is kept for swaps. */
static uint64_t limit_of_requests(const mend_heap *heap)
{
    uint64_t limit = mend_attainable_limit(heap);
    uint64_t kept = mend_swap_kept_bytes(heap);
    return limit > kept ? limit - kept : 0;
}

uint64_t mend_heap_room_bytes(const mend_heap *heap)
{
    uint64_t limit = limit_of_requests(heap);
    uint64_t reserved = heap->chunks.reserved_bytes;
    return limit > reserved ? limit - reserved : 0;
}

uint64_t mend_heap_lacking_bytes(const mend_heap *heap, uint64_t create_bytes)
{
    uint64_t limit = limit_of_requests(heap);
    uint64_t wanted = heap->chunks.reserved_bytes + create_bytes;
    assert(wanted > limit);
    return wanted - limit;
}

bool mend_heap_is_roomy(const mend_heap *heap)
{
    return mend_heap_room_bytes(heap) >= mend_attainable_limit(heap) / 2;
}

static bool is_near(const mend_heap *heap, uint64_t used_bytes)
{
    uint64_t limit = mend_attainable_limit(heap);
    return used_bytes >= limit - percent_of(limit, NEAR_PERCENT);
}

mend_scarcity mend_heap_scarcity(const mend_heap *heap)
{
    const mend_usage_peaks *peaks = &heap->usage_peaks;
    uint64_t limit = mend_attainable_limit(heap);
    uint64_t wanted = heap->config.ample_percent;
    uint64_t ample_bytes = percent_of(limit, wanted != 0 ? wanted : AMPLE_ROOM_PERCENT);
    if (mend_heap_room_bytes(heap) > ample_bytes) {
        return MEND_AMPLE;
    }
    uint64_t used = mend_max_u64(peaks->used_bytes[0], peaks->used_bytes[1]);
    uint64_t trapped = mend_max_u64(peaks->trapped_bytes[0], peaks->trapped_bytes[1]);
    bool is_full = used >= limit - percent_of(limit, FULL_PERCENT);
    bool traps_much = is_near(heap, used) && trapped >= percent_of(limit, TRAPPED_PERCENT);
    return is_full || traps_much ? MEND_TIGHT : MEND_SCARCE;
}

void mend_scarcity_note(mend_heap *heap)
{
    mend_usage_peaks *peaks = &heap->usage_peaks;
    uint64_t used = heap->chunks.reserved_bytes - heap->chunks.whole_bytes;
    uint64_t allocated = MEND_HEAP_SUM(heap, allocated_bytes);
    if ((allocated - peaks->window_start_bytes) / LIMITS_OF_WINDOW >= heap->config.limit_bytes) {
        *peaks = (mend_usage_peaks){
            .used_bytes = {0, peaks->used_bytes[0]},
            .trapped_bytes = {0, peaks->trapped_bytes[0]},
            .window_start_bytes = allocated,
        };
    }
    peaks->used_bytes[0] = mend_max_u64(peaks->used_bytes[0], used);
    if (is_near(heap, used)) {
        uint64_t trapped = used - heap->counters.live_bytes;
        peaks->trapped_bytes[0] = mend_max_u64(peaks->trapped_bytes[0], trapped);
    }
}
