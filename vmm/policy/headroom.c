/* Headroom: memory that is created for a request although idle chunks could be moved. */
#include "policy/policy.h"

#include <assert.h>

#include "policy/constants.h"

void mend_headroom_note_request(mend_heap *heap, uint64_t size_bytes)
{
    mend_headroom *headroom = &heap->budget.headroom;
    uint64_t live = mend_heap_awake_bytes(heap) + size_bytes;
    uint64_t allocated = MEND_HEAP_SUM(heap, allocated_bytes);
    assert(allocated >= headroom->window_start_bytes);
    if (live <= heap->config.limit_bytes) { /* a larger request cannot succeed */
        mend_raise_u64(&headroom->most_live_bytes, live);
    }
    if ((allocated - headroom->window_start_bytes) / LIMITS_OF_WINDOW >= heap->config.limit_bytes) {
        headroom->window_start_bytes = allocated;
        headroom->was_refused = false;
    }
}

void mend_headroom_note_move(mend_heap *heap)
{
    heap->budget.headroom.moves++;
}

/* What may be created beyond the headroom, because moves have cost as much already. Not without
 * bound: where memory is idle late and in pieces, moves come with each request, whatever is
 * created. */
static uint64_t most_paid_bytes(const mend_heap *heap)
{
    return heap->budget.headroom.most_live_bytes / PAID_OF_LIVE;
}

static uint64_t paid_bytes(const mend_heap *heap)
{
    uint64_t usual = mend_budget_usual_chunk(heap, MEND_ZONE_LARGE);
    return mend_min_u64(heap->budget.headroom.moves * (usual / MOVES_OF_CREATION),
                        most_paid_bytes(heap));
}

/* So much more may be reserved in any case. */
static uint64_t with_headroom(uint64_t live_bytes)
{
    return live_bytes + live_bytes / 100 * HEADROOM_PERCENT;
}

/* The last part of the limit is for requests that lack memory. */
static bool leaves_enough(const mend_heap *heap, uint64_t create_bytes)
{
    uint64_t kept = mend_budget_limit(heap) / 100 * FULL_PERCENT;
    return mend_budget_room_bytes(heap) >= create_bytes + kept;
}

/* What is created now can be moved later, so it takes nothing from a later request: only what live
 * blocks trap does. So moves pay as long as the program has not used nearly all of the limit; and
 * not where it wants the least memory. */
static bool may_pay(const mend_heap *heap)
{
    return heap->config.tightness < MEND_TIGHTNESS_LEVELS && !mend_budget_is_nearly_used(heap);
}

bool mend_headroom_allows(const mend_heap *heap, uint64_t create_bytes)
{
    const mend_headroom *headroom = &heap->budget.headroom;
    uint64_t wanted = heap->chunks.reserved_bytes + create_bytes;
    assert(wanted > 0); /* there are chunks to move */
    if (headroom->was_refused || !leaves_enough(heap, create_bytes) ||
        mend_budget_pressure(heap) == MEND_PRESSURE_CRITICAL) {
        return false;
    }
    uint64_t paid = may_pay(heap) ? paid_bytes(heap) : 0;
    return wanted <= with_headroom(headroom->most_live_bytes) + paid;
}

bool mend_headroom_is_spent(const mend_heap *heap, uint64_t size_bytes)
{
    const uint64_t limit = mend_budget_limit(heap);
    const uint64_t live = heap->budget.headroom.most_live_bytes;
    const uint64_t wanted = heap->chunks.reserved_bytes + size_bytes;
    const bool may_create = mend_budget_room_bytes(heap) >= size_bytes &&
                            wanted <= with_headroom(live) + most_paid_bytes(heap);
    return !may_create && !mend_budget_is_nearly_used(heap) &&
           live <= limit - limit / 100 * CLOSE_PERCENT;
}

void mend_headroom_note_refusal(mend_heap *heap)
{
    heap->budget.headroom.was_refused = true;
}

void mend_headroom_forget(mend_heap *heap)
{
    heap->budget.headroom.most_live_bytes = mend_heap_awake_bytes(heap);
}
