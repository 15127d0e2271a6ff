/*
 * Bridges: a large block over several free runs and the unmapped addresses between them. Only those
 * need chunks, so that the runs stay where they are. Changes nothing in the heap, except that idle
 * free spans are joined.
 */
#include "plan/policy.h"

#include "plan/constants.h"

/* Takes the place if all of it is free and ready, and less of it is unmapped than of the best. */
static void try_place(mend_heap *heap, const mend_request *request, uint64_t address,
                      mend_bridge *best)
{
    const uint64_t page = heap->device.granularity_bytes;
    mend_bridge place = {.address = address, .end = address + request->size_bytes};
    for (uint64_t at = address; at < place.end;) {
        mend_run *run = mend_layout_run_at(&heap->zones[request->zone], at);
        uint64_t next =
            run != NULL ? mend_run_end(run) : at + mend_space_free_from(&heap->space, at);
        if (run == NULL && next >= place.end) {
            place.end = mend_align_up(place.end, page);
        }
        next = mend_min_u64(next, place.end);
        place.missing_bytes += run == NULL ? next - at : 0;
        if (next == at || place.missing_bytes >= best->missing_bytes ||
            (run != NULL && (!mend_layout_suits(heap, request, run, at, next) ||
                             !mend_layout_is_ready(heap, run, at, next - at, request->stream,
                                                   request->behind_wait)))) {
            return;
        }
        at = next;
    }
    *best = place;
}

bool mend_bridge_find(mend_heap *heap, const mend_request *request, uint64_t moved_bytes,
                      mend_bridge *bridge)
{
    const mend_zone *zone = &heap->zones[request->zone];
    *bridge = (mend_bridge){.missing_bytes = moved_bytes};
    mend_run *run = mend_layout_growing_below(zone, request->size_bytes);
    for (int tries = 0; run != NULL && tries < SEARCH_TRIES; tries++) {
        try_place(heap, request, mend_align_up(run->address, request->alignment_bytes), bridge);
        run = mend_layout_growing_smaller(run);
    }
    return bridge->address != 0;
}

bool mend_bridge_plan(mend_heap *heap, const mend_request *request, const mend_bridge *bridge,
                      mend_plan *plan)
{
    const mend_zone *zone = &heap->zones[request->zone];
    const mend_run *run = mend_layout_run_at(zone, bridge->address);
    uint64_t at = bridge->address;
    *plan = (mend_plan){.base_address = run != NULL ? run->address : at};
    plan->base_bytes = bridge->end - plan->base_address;
    for (; at < bridge->end && run != NULL; run = mend_layout_run_at(zone, at)) {
        at = mend_run_end(run);
    }
    const uint64_t room_bytes = mend_space_free_from(&heap->space, at);
    plan->fixed_address = at;
    if (at >= bridge->end || room_bytes == 0) {
        return false;
    }
    const uint64_t need_bytes = mend_min_u64(room_bytes, bridge->end - at);
    return mend_pick_chunks(heap, request, plan, need_bytes) == 0 &&
           plan->picked_bytes <= room_bytes && !plan->lacks_host_memory;
}
