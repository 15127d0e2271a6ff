/* How high the pressure is, and how much may be created to avoid moves, by heaps made up by hand.
 */
#include "policy/policy.h"

#include "tests/support/test.h"

/* A percent of it is a round number. */
#define LIMIT_BYTES (100 * MEND_MIB)
#define PERCENT(n)  ((n)*MEND_MIB)

enum { HIGH = MEND_PRESSURE_HIGH, CRITICAL = MEND_PRESSURE_CRITICAL };

static void use(mend_heap *heap, uint64_t reserved_bytes, uint64_t empty_bytes, uint64_t live_bytes)
{
    heap->chunks.reserved_bytes = reserved_bytes;
    heap->chunks.empty_bytes = empty_bytes; /* of these, in empty chunks */
    heap->counters.live_bytes = live_bytes;
}

static void use_live(mend_heap *heap, uint64_t bytes)
{
    use(heap, bytes, 0, bytes);
}

static void allocate(mend_heap *heap, uint64_t bytes)
{
    heap->counters.zone[MEND_ZONE_LARGE].allocated_bytes += bytes;
}

static int pressure_behind(mend_heap *heap, uint64_t allocated_bytes)
{
    allocate(heap, allocated_bytes);
    mend_budget_note_use(heap);
    return (int)mend_budget_pressure(heap);
}

static mend_heap heap_with_limit(uint64_t limit_bytes)
{
    mend_heap heap = {.config = {.limit_bytes = limit_bytes}};
    heap.device.granularity_bytes = MEND_GRANULE_BYTES;
    mend_tightness_apply(&heap, 0);
    return heap;
}

MEND_TEST(policy_budget, what_the_window_before_trapped_counts_while_much_is_used_again)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    use(&heap, PERCENT(98), PERCENT(5), PERCENT(90));
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, 0));
    use(&heap, PERCENT(98), PERCENT(60), PERCENT(38));
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, 2 * LIMIT_BYTES - 1));
    EXPECT_INT_EQ(HIGH, pressure_behind(&heap, 1)); /* a window ends */
    use(&heap, PERCENT(98), PERCENT(13), PERCENT(85));
    EXPECT_INT_EQ(CRITICAL, pressure_behind(&heap, 0));
    EXPECT_INT_EQ(HIGH, pressure_behind(&heap, 2 * LIMIT_BYTES)); /* this one trapped nothing */
}

/* As with a limit of that size; what a context and libraries hold changes nothing. */
MEND_TEST(policy_budget, sizes_of_chunks_follow_what_the_device_can_give)
{
    mend_heap heap = heap_with_limit(32 * MEND_GIB);
    EXPECT_U64_EQ(64 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
    heap.budget.attainable = (mend_attainable){.is_known = true, .bytes = 29 * MEND_GIB};
    EXPECT_U64_EQ(64 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
    heap.budget.attainable.bytes = 16 * MEND_GIB;
    EXPECT_U64_EQ(32 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
    heap.budget.attainable.bytes = 64 * MEND_GIB;
    EXPECT_U64_EQ(64 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
}

static mend_heap heap_that_moved(uint64_t chunks)
{
    mend_heap heap = heap_with_limit(100 * MEND_GIB);
    use_live(&heap, 10 * MEND_GIB);
    mend_headroom_note_request(&heap, 0);
    mend_headroom_note_moves(&heap, chunks);
    return heap;
}

MEND_TEST(policy_budget, moves_that_creation_avoids_pay_as_those_that_were_made)
{
    mend_heap heap = heap_that_moved(8);
    EXPECT_FALSE(mend_headroom_allows(&heap, MEND_GIB, 0));
    EXPECT_TRUE(mend_headroom_allows(&heap, MEND_GIB, 8));
    EXPECT_FALSE(mend_headroom_allows(&heap, 2 * MEND_GIB, 8));
    EXPECT_FALSE(mend_headroom_allows(&heap, 6 * MEND_GIB, 1000));
    heap.budget.peaks.used_bytes[1] = 95 * MEND_GIB;
    EXPECT_FALSE(mend_headroom_allows(&heap, MEND_GIB, 8));
}

MEND_TEST(policy_budget, headroom_is_spent_where_neither_the_limit_nor_moves_allow_more)
{
    mend_heap heap = heap_that_moved(0);
    use(&heap, 14 * MEND_GIB, 4 * MEND_GIB, 10 * MEND_GIB);
    EXPECT_FALSE(mend_headroom_is_spent(&heap, MEND_GIB)); /* moves may pay for it yet */
    EXPECT_TRUE(mend_headroom_is_spent(&heap, 2 * MEND_GIB));
    heap.config.limit_bytes = 14 * MEND_GIB + MEND_GIB / 2;
    EXPECT_TRUE(mend_headroom_is_spent(&heap, MEND_GIB));
    heap.budget.peaks.used_bytes[0] = 14 * MEND_GIB;
    EXPECT_FALSE(mend_headroom_is_spent(&heap, MEND_GIB)); /* blocks lie closely instead */
}
