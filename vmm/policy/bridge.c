/*
 * Bridges: a large block over several free runs, and over the unmapped addresses between and beside
 * them. Only those need chunks, so that the runs stay where they are. Changes nothing in the heap,
 * except that idle free spans are joined.
 */
#include "policy/policy.h"

#include "policy/constants.h"

static bool is_ready(mend_heap *heap, const mend_request *request, mend_run *run, uint64_t address,
                     uint64_t end)
{
    return mend_layout_is_ready(heap, run, address, end - address, request->stream,
                                request->behind_wait);
}

/* How far the addresses from here on are free, up to `end`: in ready runs, or unmapped. Those that
 * are unmapped are counted. */
static uint64_t reach_up(mend_heap *heap, const mend_request *request, uint64_t address,
                         uint64_t end, uint64_t *unmapped_bytes)
{
    *unmapped_bytes = 0;
    for (int steps = 0; address < end && steps < SPANS_OF_STRETCH; steps++) {
        mend_run *run = mend_layout_run_at(&heap->zones[request->zone], address);
        uint64_t unmapped = run == NULL ? mend_space_free_from(&heap->space, address) : 0;
        uint64_t next = mend_min_u64(run != NULL ? mend_run_end(run) : address + unmapped, end);
        if (next == address || (run != NULL && !is_ready(heap, request, run, address, next))) {
            break;
        }
        *unmapped_bytes += run == NULL ? next - address : 0;
        address = next;
    }
    return address;
}

/* The same for the addresses before, down to `least`. */
static uint64_t reach_down(mend_heap *heap, const mend_request *request, uint64_t address,
                           uint64_t least)
{
    for (int steps = 0; address > least && steps < SPANS_OF_STRETCH; steps++) {
        mend_run *run = mend_layout_run_at(&heap->zones[request->zone], address - 1);
        uint64_t unmapped = run == NULL ? mend_space_free_before(&heap->space, address) : 0;
        uint64_t next = mend_max_u64(run != NULL ? run->address : address - unmapped, least);
        if (next == address || (run != NULL && !is_ready(heap, request, run, next, address))) {
            break;
        }
        address = next;
    }
    return address;
}

/* Takes the place if all of it is free, and less of it unmapped. */
static void try_place(mend_heap *heap, const mend_request *request, uint64_t address,
                      mend_bridge *best)
{
    const mend_zone *zone = &heap->zones[request->zone];
    const uint64_t page = heap->device.granularity_bytes;
    mend_bridge bridge = {
        .address = address, .from = address, .end = address + request->size_bytes};
    if (mend_layout_run_at(zone, bridge.from) == NULL) {
        bridge.from = mend_align_down(bridge.from, page);
    }
    if (mend_layout_run_at(zone, bridge.end - 1) == NULL) {
        bridge.end = mend_align_up(bridge.end, page);
    }
    if (reach_up(heap, request, bridge.from, bridge.end, &bridge.missing_bytes) == bridge.end &&
        bridge.missing_bytes < best->missing_bytes) {
        *best = bridge;
    }
}

/* Where a place needs least, an end of it is one of a run or of the free addresses around. */
static void try_places_at(mend_heap *heap, const mend_request *request, mend_run *run,
                          mend_bridge *best)
{
    const uint64_t size_bytes = request->size_bytes;
    const uint64_t alignment = request->alignment_bytes;
    const uint64_t end = mend_run_end(run);
    uint64_t unmapped;
    assert(run->size_bytes < size_bytes);
    if (!is_ready(heap, request, run, run->address, end)) {
        return;
    }
    uint64_t high = reach_up(heap, request, end, run->address + size_bytes, &unmapped);
    uint64_t low = reach_down(heap, request, run->address, end - size_bytes);
    if (high - low >= size_bytes) {
        try_place(heap, request, mend_align_up(low, alignment), best);
        try_place(heap, request, mend_align_up(run->address, alignment), best);
        try_place(heap, request, mend_align_down(high - size_bytes, alignment), best);
        try_place(heap, request, mend_align_down(end - size_bytes, alignment), best);
    }
}

bool mend_bridge_find(mend_heap *heap, const mend_request *request, uint64_t moved_bytes,
                      mend_bridge *bridge)
{
    const mend_sizes *runs = &heap->zones[request->zone].runs_by_size;
    const uint64_t least = mend_max_u64(request->size_bytes / PART_OF_REQUEST, MEND_GRANULE_BYTES);
    *bridge = (mend_bridge){.missing_bytes = moved_bytes / BRIDGE_OF_MOVES};
    assert(request->zone == MEND_ZONE_LARGE);
    if (!mend_headroom_is_spent(heap, moved_bytes)) {
        return false;
    }
    mend_run *run = mend_sizes_at_least(runs, least);
    for (int tries = 0;
         run != NULL && run->size_bytes < request->size_bytes && tries < SEARCH_TRIES; tries++) {
        try_places_at(heap, request, run, bridge);
        run = mend_sizes_next(runs, run);
    }
    return bridge->address != 0;
}

/* The first unmapped addresses of the bridge; no bytes: there are none, or it is no longer free. */
static mend_range_gap first_gap(const mend_heap *heap, const mend_request *request,
                                const mend_bridge *bridge)
{
    uint64_t at = bridge->from;
    const mend_run *run;
    while (at < bridge->end &&
           (run = mend_layout_run_at(&heap->zones[request->zone], at)) != NULL) {
        at = mend_run_end(run);
    }
    const uint64_t left_bytes = bridge->end - mend_min_u64(at, bridge->end);
    return (mend_range_gap){at, mend_min_u64(mend_space_free_from(&heap->space, at), left_bytes)};
}

bool mend_bridge_plan(mend_heap *heap, const mend_request *request, const mend_bridge *bridge,
                      mend_plan *plan)
{
    const mend_range_gap gap = first_gap(heap, request, bridge);
    const uint64_t gap_end = gap.address + gap.size_bytes;
    const uint64_t room_bytes =
        gap_end == bridge->end ? mend_space_free_from(&heap->space, gap_end) : 0;
    const mend_run *first = mend_layout_run_at(&heap->zones[request->zone], bridge->from);
    const uint64_t from = first != NULL ? first->address : bridge->from;
    *plan = (mend_plan){
        .fixed_address = gap.address, .base_address = from, .base_bytes = bridge->end - from};
    return gap.size_bytes > 0 && mend_pick_chunks(heap, request, plan, gap.size_bytes) == 0 &&
           plan->picked_bytes - gap.size_bytes <= room_bytes && !plan->lacks_host_memory;
}
