/* How high the pressure is, and how much may be created to avoid moves, by heaps made up by hand.
 */
#include "plan/policy.h"

#include "tests/support/test.h"

/* A percent of it is a round number. */
#define LIMIT_BYTES (100 * MEND_MIB)
#define PERCENT(n)  ((n)*MEND_MIB)

static void use(mend_heap *heap, uint64_t reserved_bytes, uint64_t empty_bytes, uint64_t live_bytes)
{
    heap->chunks.reserved_bytes = reserved_bytes;
    heap->chunks.empty_unmapped_bytes = empty_bytes; /* of these, in empty chunks */
    heap->counters.live_bytes = live_bytes;
}

static mend_heap heap_with_limit(uint64_t limit_bytes)
{
    mend_heap heap = {.config = {.limit_bytes = limit_bytes}};
    heap.device.granularity_bytes = MEND_GRANULE_BYTES;
    heap.space.refused_bytes = UINT64_MAX; /* of addresses: there are enough */
    mend_strategy_apply(&heap, 0);
    return heap;
}

/* With that used and that live, after so much more was allocated. */
static uint64_t waste_allowed(mend_heap *heap, uint64_t used_bytes, uint64_t live_bytes,
                              uint64_t allocated_bytes)
{
    const mend_request request = {.size_bytes = MEND_MIB, .zone = MEND_ZONE_LARGE};
    use(heap, PERCENT(98), PERCENT(98) - used_bytes, live_bytes);
    heap->zones[MEND_ZONE_LARGE].counters.allocated_bytes += allocated_bytes;
    mend_budget_note_use(heap);
    EXPECT_TRUE(mend_budget_is_pressed(heap));
    return mend_budget_waste_allowed(heap, &request);
}

/* In this window of allocations. Not while most is not reserved. */
MEND_TEST(policy_budget, once_much_is_trapped_a_quarter_of_a_block_may_be_wasted)
{
    mend_stream_state streams[MEND_STREAM_UNKNOWN + 1] = {0};
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    heap.streams.items = streams;
    EXPECT_U64_EQ(UINT64_MAX, waste_allowed(&heap, PERCENT(75) - 1, PERCENT(60), 0));
    EXPECT_U64_EQ(UINT64_MAX, waste_allowed(&heap, PERCENT(75), PERCENT(73) + 1, 0));
    EXPECT_U64_EQ(MEND_MIB / 4, waste_allowed(&heap, PERCENT(75), PERCENT(73), 0));
    EXPECT_U64_EQ(PERCENT(75), heap.budget.peaks.used_bytes);
    EXPECT_U64_EQ(MEND_MIB / 4, waste_allowed(&heap, PERCENT(40), PERCENT(40), 0));
    use(&heap, PERCENT(24), 0, PERCENT(24));
    EXPECT_U64_EQ(UINT64_MAX, mend_budget_waste_allowed(&heap, &(mend_request){
                                                                   .size_bytes = MEND_MIB,
                                                                   .zone = MEND_ZONE_LARGE,
                                                               }));
    EXPECT_U64_EQ(UINT64_MAX, waste_allowed(&heap, PERCENT(85), PERCENT(85), 2 * LIMIT_BYTES));
}

/* As with a limit of that size. Memory of a context and libraries changes nothing. */
MEND_TEST(policy_budget, sizes_of_chunks_follow_what_the_device_can_give)
{
    mend_heap heap = heap_with_limit(32 * MEND_GIB);
    EXPECT_U64_EQ(64 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
    heap.effective_limit = (mend_effective_limit){.is_known = true, .bytes = 29 * MEND_GIB};
    EXPECT_U64_EQ(64 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
    heap.effective_limit.bytes = 16 * MEND_GIB;
    EXPECT_U64_EQ(32 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
    heap.effective_limit.bytes = 64 * MEND_GIB;
    EXPECT_U64_EQ(64 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
}

/* Chunks are large again after a while without. */
MEND_TEST(policy_budget, emptyings_of_long_ago_do_not_count)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    for (int i = 0; i < 100; i++) {
        mend_budget_note_emptying(&heap);
    }
    EXPECT_TRUE(mend_budget_is_emptied(&heap));
    EXPECT_U64_EQ(MEND_MIB / 2, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
    heap.chunks.reserved_bytes = LIMIT_BYTES / 4 * 3;
    EXPECT_TRUE(mend_budget_is_emptied(&heap));
    heap.chunks.reserved_bytes++;
    EXPECT_FALSE(mend_budget_is_emptied(&heap)); /* near its limit */
    heap.chunks.reserved_bytes = 0;
    heap.zones[MEND_ZONE_LARGE].counters.allocated_bytes += 100 * LIMIT_BYTES;
    EXPECT_FALSE(mend_budget_is_emptied(&heap));
    mend_budget_note_emptying(&heap);
    EXPECT_FALSE(mend_budget_is_emptied(&heap));
}

/* 10 GiB are live and reserved. Bounds are twice that, and 4 % more. */
static mend_heap heap_with_peak(uint64_t limit_bytes)
{
    mend_heap heap = heap_with_limit(limit_bytes);
    use(&heap, 10 * MEND_GIB, 0, 10 * MEND_GIB);
    mend_headroom_note_request(&heap, 0);
    return heap;
}

MEND_TEST(policy_budget, twice_the_peak_may_be_reserved_to_avoid_moves)
{
    mend_heap heap = heap_with_peak(100 * MEND_GIB);
    EXPECT_TRUE(mend_headroom_allows(&heap, 10 * MEND_GIB));
    EXPECT_FALSE(mend_headroom_allows(&heap, 10 * MEND_GIB + MEND_MIB));
    mend_headroom_note_refusal(&heap);
    mend_headroom_note_request(&heap, 0);
    EXPECT_FALSE(mend_headroom_allows(&heap, MEND_GIB));
    heap.zones[MEND_ZONE_LARGE].counters.allocated_bytes += 200 * MEND_GIB; /* a window */
    mend_headroom_note_request(&heap, 0);
    EXPECT_TRUE(mend_headroom_allows(&heap, MEND_GIB)); /* the refusal is long ago */
}

MEND_TEST(policy_budget, a_little_is_created_to_avoid_moves_once_nearly_all_was_used)
{
    mend_heap heap = heap_with_peak(14 * MEND_GIB);
    EXPECT_TRUE(mend_headroom_allows(&heap, MEND_GIB));
    heap.budget.peaks.used_bytes = 13 * MEND_GIB;
    EXPECT_FALSE(mend_headroom_allows(&heap, MEND_GIB));
    EXPECT_TRUE(mend_headroom_allows(&heap, MEND_GIB / 4));
    heap = heap_with_peak(100 * MEND_GIB); /* or where a program wants the least memory */
    mend_strategy_apply(&heap, MEND_STRATEGY_LEVELS);
    EXPECT_TRUE(mend_headroom_allows(&heap, MEND_GIB / 4));
    EXPECT_FALSE(mend_headroom_allows(&heap, MEND_GIB / 2));
    heap = heap_with_peak(100 * MEND_GIB); /* nothing where addresses are few */
    heap.space.refused_bytes = 0;
    EXPECT_FALSE(mend_headroom_allows(&heap, MEND_GIB / 4));
    heap.space = (mend_space){.address_reservation_bytes = 1, .refused_bytes = UINT64_MAX};
    EXPECT_FALSE(mend_headroom_allows(&heap, MEND_GIB / 4));
}
