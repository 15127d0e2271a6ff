/*
 * What a program's tightness means to the policy: from the fewest driver calls (1) to the least
 * memory (5).
 */
#include "policy/policy.h"

#include <assert.h>

#include "policy/constants.h"

static const mend_placement levels[MEND_TIGHTNESS_LEVELS] = {
#define X(level, room_percent, chunks, chunk_bytes)                                                \
    [(level)-1] = {.low_pressure_percent = (room_percent),                                         \
                   .chunks_of_limit = (chunks),                                                    \
                   .largest_chunk_bytes = (chunk_bytes)},
    MEND_TIGHTNESS(X)
#undef X
};

/* Two of them fit into a chunk, also where a simulated device has small pages. */
static uint64_t small_request_of(const mend_heap *heap)
{
    uint64_t half = mend_budget_usual_chunk(heap, MEND_ZONE_SMALL) / 2;
    return mend_max_u64(mend_min_u64(half, SMALL_REQUEST_BYTES), MEND_GRANULE_BYTES);
}

void mend_tightness_apply(mend_heap *heap, int tightness)
{
    int level = tightness != 0 ? tightness : DEFAULT_TIGHTNESS;
    assert(level >= 1 && level <= MEND_TIGHTNESS_LEVELS);
    heap->config.placement = levels[level - 1];
    heap->config.placement.unfenced_bytes = UNFENCED_BYTES;
    heap->config.placement.small_request_bytes = small_request_of(heap);
}
