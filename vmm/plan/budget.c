/*
 * The budget of a pool: the limit, its rest, the sizes of chunks, and the pressure. The pressure
 * decides between driver time, while it is low, and bytes, near the limit.
 */
#include "plan/policy.h"

#include <assert.h>

#include "plan/constants.h"

static const mend_placement levels[MEND_STRATEGY_LEVELS] = {
#define X(level, chunks, chunk_bytes, headroom)                                                    \
    [(level)-1] = {.chunks_of_limit = (chunks),                                                    \
                   .largest_chunk_bytes = (chunk_bytes),                                           \
                   .headroom_percent = (headroom)},
    MEND_STRATEGY(X)
#undef X
};

static uint64_t room_under(const mend_heap *heap, uint64_t limit)
{
    const uint64_t taken = heap->chunks.reserved_bytes;
    return limit > taken ? limit - taken : 0;
}

static uint64_t limit_for(const mend_heap *heap, const mend_request *request)
{
    const uint64_t limit = mend_budget_hard_limit(heap);
    return request->keeps_soft_limit ? mend_min_u64(limit, heap->config.soft_limit_bytes) : limit;
}

uint64_t mend_budget_room_bytes(const mend_heap *heap, const mend_request *request)
{
    return room_under(heap, limit_for(heap, request));
}

uint64_t mend_budget_lacking_bytes(const mend_heap *heap, const mend_request *request,
                                   uint64_t create_bytes)
{
    const uint64_t limit = limit_for(heap, request);
    const uint64_t wanted = heap->chunks.reserved_bytes + create_bytes;
    assert(wanted > limit);
    return wanted - limit;
}

bool mend_budget_is_pressed(const mend_heap *heap)
{
    const uint64_t limit = mend_budget_hard_limit(heap);
    const uint64_t low_pressure_percent = heap->config.placement.low_pressure_percent;
    return room_under(heap, limit) <= mend_percent_of(limit, low_pressure_percent);
}

/* Whether so many windows have passed since so much was allocated: then what was noted no longer
 * counts. */
static bool have_passed(const mend_heap *heap, uint64_t windows, uint64_t since_bytes)
{
    const uint64_t allocated = MEND_HEAP_SUM(heap, allocated_bytes);
    assert(allocated >= since_bytes);
    return (allocated - since_bytes) / (windows * LIMITS_OF_WINDOW) >= heap->config.limit_bytes;
}

void mend_budget_note_use(mend_heap *heap)
{
    mend_usage_peaks *peaks = &heap->budget.peaks;
    assert(mend_chunks_empty_bytes(&heap->chunks) <= heap->chunks.reserved_bytes);
    const uint64_t used = heap->chunks.reserved_bytes - mend_chunks_empty_bytes(&heap->chunks);
    assert(mend_heap_awake_bytes(heap) <= used);
    if (have_passed(heap, 1, peaks->window_start_bytes)) {
        *peaks = (mend_usage_peaks){.window_start_bytes = MEND_HEAP_SUM(heap, allocated_bytes)};
    }
    mend_raise_u64(&peaks->used_bytes, used);
    const uint64_t limit = mend_budget_hard_limit(heap);
    if (used >= limit - limit / SPARE_PART) {
        mend_raise_u64(&peaks->trapped_bytes, used - mend_heap_awake_bytes(heap));
    }
}

void mend_budget_note_lack(mend_heap *heap, uint64_t create_bytes)
{
    assert(create_bytes > 0);
    if (heap->shortage.refused_bytes == 0 || create_bytes <= heap->shortage.refused_bytes) {
        heap->shortage.refused_bytes = create_bytes;
    }
}

bool mend_budget_lacks_device_memory(const mend_heap *heap, uint64_t create_bytes)
{
    const uint64_t limit = mend_budget_limit_of_chunks(heap);
    return create_bytes <= room_under(heap, limit) && mend_budget_hard_limit(heap) < limit;
}

/* ---- sizes of chunks and pages ------------------------------------------------------------- */

void mend_budget_note_emptying(mend_heap *heap)
{
    heap->budget.emptyings = have_passed(heap, EMPTYINGS, heap->budget.emptied_at_bytes)
                                 ? 1
                                 : heap->budget.emptyings + 1;
    heap->budget.emptied_at_bytes = MEND_HEAP_SUM(heap, allocated_bytes);
}

bool mend_budget_is_emptied(const mend_heap *heap)
{
    const uint64_t limit = mend_budget_hard_limit(heap);
    return heap->budget.emptyings >= EMPTYINGS &&
           !have_passed(heap, EMPTYINGS, heap->budget.emptied_at_bytes) &&
           heap->chunks.reserved_bytes <= limit - limit / SPARE_PART;
}

/* Of the device's memory, if that is much less than the limit. Memory of contexts and libraries,
 * beside a pool that has the device for itself, makes no chunk smaller. */
static uint64_t part_of_limit(const mend_heap *heap)
{
    const mend_placement *placement = &heap->config.placement;
    uint64_t hard = mend_budget_hard_limit(heap);
    uint64_t limit = mend_min_u64(heap->config.limit_bytes, hard + hard / BESIDE_A_POOL);
    uint64_t part = limit / placement->chunks_of_limit + 1;
    part *= heap->counters.sleeps != 0 ? LARGER : 1;
    if (mend_budget_is_emptied(heap)) {
        const uint64_t of_few_calls = limit / levels[0].chunks_of_limit + 1;
        return mend_min_u64(mend_power_of_two_floor(of_few_calls), EMPTIED_CHUNK_BYTES);
    }
    return mend_min_u64(mend_power_of_two_floor(part), placement->largest_chunk_bytes);
}

uint64_t mend_budget_usual_chunk(const mend_heap *heap, int zone)
{
    const mend_placement *placement = &heap->config.placement;
    bool is_small = zone == MEND_ZONE_SMALL;
    uint64_t bytes = is_small ? placement->small_chunk_bytes : placement->chunk_bytes;
    if (bytes == 0) {
        bytes = part_of_limit(heap);
        bytes = is_small ? mend_min_u64(bytes, SMALL_CHUNK_BYTES) : bytes;
    }
    assert(bytes > 0);
    return mend_align_up(bytes, heap->device.granularity_bytes);
}

uint64_t mend_budget_lone_chunk(const mend_heap *heap, const mend_request *request)
{
    uint64_t usual = mend_budget_usual_chunk(heap, MEND_ZONE_LARGE);
    if (heap->config.placement.chunk_bytes != 0) {
        return usual;
    }
    if (request->home != 0) {
        return LARGER * (LARGER * usual);
    }
    const bool is_small_pool = usual < SMALL_CHUNK_BYTES; /* free pages are much of its limit */
    const bool are_larger =
        mend_budget_is_pressed(heap)
            ? !is_small_pool && request->size_bytes >= LARGE_REQUEST * usual
            : !is_small_pool || request->size_bytes >= SPARE_PART * SMALL_CHUNK_BYTES;
    return are_larger ? LARGER * usual : usual;
}

uint64_t mend_budget_share(const mend_heap *heap, const mend_request *request)
{
    uint64_t bytes = 0;
    if (request->home == 0) {
        return UINT64_MAX;
    }
    const mend_chunk *at = mend_chunk_below(&heap->chunks, UINT64_MAX);
    for (int looks = 0; at != NULL && looks < CHUNKS_COMPARED;
         at = mend_chunk_previous(at), looks++) {
        const bool is_own = at->sleep_tag == request->home && at->zone == request->zone;
        bytes += is_own && at->live_bytes > 0 ? at->size_bytes : 0;
    }
    const uint64_t page = heap->device.granularity_bytes;
    return mend_max_u64(mend_power_of_two_floor(bytes / SPARE_PART + 1), page);
}

/* While pressure is high this is a part of a usual chunk, if that is more (PAGES_OF_CHUNK). */
uint64_t mend_budget_page(const mend_heap *heap, bool is_pressed)
{
    const uint64_t page = heap->device.granularity_bytes;
    return is_pressed ? mend_max_u64(part_of_limit(heap) / PAGES_OF_CHUNK, page) : page;
}

uint64_t mend_budget_waste_allowed(const mend_heap *heap, const mend_request *request)
{
    const uint64_t much_bytes = mend_percent_of(mend_budget_hard_limit(heap), TRAPPED_PERCENT);
    const bool keeps_empty = request->zone == MEND_ZONE_LARGE && !request->may_break &&
                             heap->budget.peaks.trapped_bytes >= much_bytes &&
                             mend_budget_is_pressed(heap);
    return keeps_empty
               ? mend_max_u64(heap->device.granularity_bytes, request->size_bytes / SPARE_PART)
               : UINT64_MAX;
}

/* ---- strategy -------------------------------------------------------------------------------- */

void mend_strategy_apply(mend_heap *heap, int strategy)
{
    int level = strategy != 0 ? strategy : (1 + MEND_STRATEGY_LEVELS) / 2;
    assert(level >= 1 && level <= MEND_STRATEGY_LEVELS);
    heap->config.placement = levels[level - 1];
    heap->config.placement.low_pressure_percent = LOW_PRESSURE_PERCENT;
    heap->config.placement.unfenced_bytes = UNFENCED_BYTES;
    /* Two of them fit into a chunk, also where a simulated device has small pages. */
    uint64_t half = mend_budget_usual_chunk(heap, MEND_ZONE_SMALL) / 2;
    heap->config.placement.small_request_bytes =
        mend_max_u64(mend_min_u64(half, SMALL_REQUEST_BYTES), MEND_GRANULE_BYTES);
}

/* ---- headroom -------------------------------------------------------------------------------- */

void mend_headroom_note_request(mend_heap *heap, uint64_t size_bytes)
{
    mend_headroom *headroom = &heap->budget.headroom;
    uint64_t live = mend_heap_awake_bytes(heap) + size_bytes;
    if (live <= heap->config.limit_bytes) { /* a larger request cannot succeed */
        mend_raise_u64(&headroom->most_live_bytes, live);
    }
    if (have_passed(heap, 1, headroom->window_start_bytes)) {
        headroom->window_start_bytes = MEND_HEAP_SUM(heap, allocated_bytes);
        headroom->was_refused = false;
    }
}

/* New chunks can be moved later, so they take nothing from a later request. Only memory trapped by
 * live blocks does. Not where addresses are few: a chunk that moves leaves its own. */
bool mend_headroom_allows(const mend_heap *heap, uint64_t create_bytes)
{
    const uint64_t live = heap->budget.headroom.most_live_bytes;
    const uint64_t limit = mend_budget_hard_limit(heap);
    const bool used_all =
        heap->budget.peaks.used_bytes >= limit - mend_percent_of(limit, NEAR_PERCENT);
    const uint64_t percent = used_all ? levels[MEND_STRATEGY_LEVELS - 1].headroom_percent
                                      : heap->config.placement.headroom_percent;
    assert(heap->chunks.reserved_bytes > 0); /* there are chunks to move */
    return !heap->budget.headroom.was_refused && !mend_space_has_few(&heap->space) &&
           heap->chunks.reserved_bytes + create_bytes <= live + mend_percent_of(live, percent);
}

void mend_headroom_note_refusal(mend_heap *heap)
{
    heap->budget.headroom.was_refused = true;
}

void mend_headroom_forget(mend_heap *heap)
{
    heap->budget.headroom.most_live_bytes = mend_heap_awake_bytes(heap);
}
