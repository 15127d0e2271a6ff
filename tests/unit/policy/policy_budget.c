/* How high the pressure is, by heaps made up by hand: what is reserved, in use and trapped. */
#include "policy/budget.h"
#include "policy/tightness.h"

#include "tests/support/test.h"

/* A percent of it is a round number. */
#define LIMIT_BYTES (100 * MEND_MIB)
#define PERCENT(n)  ((n)*MEND_MIB)

/* So many bytes allocated end a window. */
#define WINDOW_BYTES (4 * LIMIT_BYTES)

typedef struct usage {
    uint64_t reserved_bytes;
    uint64_t empty_bytes; /* of these, in empty chunks */
    uint64_t live_bytes;
} usage;

static void use(mend_heap *heap, usage is)
{
    heap->chunks.reserved_bytes = is.reserved_bytes;
    heap->chunks.empty_bytes = is.empty_bytes;
    heap->counters.live_bytes = is.live_bytes;
}

/* All of it live, and nothing else reserved. */
static usage live(uint64_t bytes)
{
    return (usage){.reserved_bytes = bytes, .live_bytes = bytes};
}

/* After so much more was allocated. */
static void note_behind(mend_heap *heap, uint64_t allocated_bytes)
{
    heap->counters.zone[MEND_ZONE_LARGE].allocated_bytes += allocated_bytes;
    mend_budget_note_use(heap);
}

static mend_pressure noted(mend_heap *heap, usage is)
{
    use(heap, is);
    mend_budget_note_use(heap);
    return mend_budget_pressure(heap);
}

static mend_heap heap_with_limit(uint64_t limit_bytes)
{
    mend_heap heap = {.config = {.limit_bytes = limit_bytes}};
    heap.device.granularity_bytes = MEND_GRANULE_BYTES;
    mend_tightness_apply(&heap, 0);
    return heap;
}

MEND_TEST(policy_budget, pressure_is_low_while_less_than_a_twentieth_is_reserved)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    EXPECT_INT_EQ(MEND_PRESSURE_LOW, noted(&heap, (usage){0}));
    EXPECT_INT_EQ(MEND_PRESSURE_LOW, noted(&heap, (usage){.reserved_bytes = PERCENT(5) - 1}));
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, (usage){.reserved_bytes = PERCENT(5)}));
}

MEND_TEST(policy_budget, pressure_is_low_as_long_as_the_placement_says)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    heap.config.placement.low_pressure_percent = 60;
    EXPECT_INT_EQ(MEND_PRESSURE_LOW, noted(&heap, (usage){.reserved_bytes = PERCENT(40) - 1}));
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, (usage){.reserved_bytes = PERCENT(40)}));
    heap.config.placement.low_pressure_percent = 100;
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, (usage){0}));
}

/* Whatever was in use before: what is not reserved can be had without breaking anything. */
MEND_TEST(policy_budget, pressure_is_low_again_once_memory_was_given_back)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, noted(&heap, live(LIMIT_BYTES)));
    EXPECT_INT_EQ(MEND_PRESSURE_LOW, noted(&heap, (usage){.reserved_bytes = PERCENT(5) - 1}));
}

MEND_TEST(policy_budget, pressure_is_critical_once_all_but_a_fiftieth_was_in_use)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, live(PERCENT(98) - 1)));
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, noted(&heap, live(PERCENT(98))));
}

MEND_TEST(policy_budget, empty_chunks_are_not_in_use)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    usage is = {.reserved_bytes = LIMIT_BYTES, .empty_bytes = PERCENT(11)};
    is.live_bytes = PERCENT(89);
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, is));
    is.empty_bytes = PERCENT(2);
    is.live_bytes = PERCENT(98);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, noted(&heap, is));
}

MEND_TEST(policy_budget, pressure_is_critical_near_the_limit_beside_much_that_is_trapped)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    usage is = {.reserved_bytes = LIMIT_BYTES, .empty_bytes = PERCENT(10)};
    is.live_bytes = PERCENT(88) + 1;
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, is));
    is.live_bytes = PERCENT(88);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, noted(&heap, is));
}

/* What lies beside live blocks while there is room enough says nothing. */
MEND_TEST(policy_budget, what_is_trapped_counts_near_the_limit_only)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    usage far = {.reserved_bytes = PERCENT(90) - 1, .live_bytes = PERCENT(10)};
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, far));
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, live(PERCENT(95))));
}

MEND_TEST(policy_budget, remembers_a_peak_for_the_rest_of_its_window_and_the_next)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, noted(&heap, live(LIMIT_BYTES)));
    use(&heap, live(PERCENT(50)));
    note_behind(&heap, WINDOW_BYTES - 1);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, mend_budget_pressure(&heap));
    EXPECT_U64_EQ(LIMIT_BYTES, heap.budget.peaks.used_bytes[0]);
    note_behind(&heap, 1); /* the next one begins */
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, mend_budget_pressure(&heap));
    EXPECT_U64_EQ(PERCENT(50), heap.budget.peaks.used_bytes[0]);
    note_behind(&heap, WINDOW_BYTES - 1);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, mend_budget_pressure(&heap));
    note_behind(&heap, 1);
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, mend_budget_pressure(&heap));
}

MEND_TEST(policy_budget, forgets_what_was_trapped_as_well)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    usage is = {.reserved_bytes = PERCENT(92), .live_bytes = PERCENT(89)};
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, noted(&heap, is));
    use(&heap, live(PERCENT(92)));
    note_behind(&heap, WINDOW_BYTES);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, mend_budget_pressure(&heap));
    note_behind(&heap, WINDOW_BYTES);
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, mend_budget_pressure(&heap));
}

MEND_TEST(policy_budget, the_most_of_a_window_counts)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    use(&heap, live(PERCENT(99)));
    note_behind(&heap, 1);
    use(&heap, live(PERCENT(20)));
    note_behind(&heap, 1);
    EXPECT_U64_EQ(PERCENT(99), heap.budget.peaks.used_bytes[0]);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, mend_budget_pressure(&heap));
}

MEND_TEST(policy_budget, follows_the_limit)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, live(PERCENT(60))));
    heap.config.limit_bytes = PERCENT(61);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, mend_budget_pressure(&heap));
    heap.config.limit_bytes = PERCENT(30); /* below what is in use */
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, mend_budget_pressure(&heap));
    EXPECT_U64_EQ(0, mend_budget_room_bytes(&heap));
    heap.config.limit_bytes = LIMIT_BYTES;
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, mend_budget_pressure(&heap));
    heap.config.limit_bytes = 20 * LIMIT_BYTES;
    EXPECT_INT_EQ(MEND_PRESSURE_LOW, mend_budget_pressure(&heap));
    EXPECT_U64_EQ(PERCENT(1940), mend_budget_room_bytes(&heap));
}

MEND_TEST(policy_budget, goes_by_what_the_device_can_give)
{
    mend_heap heap = heap_with_limit(LIMIT_BYTES);
    EXPECT_INT_EQ(MEND_PRESSURE_HIGH, noted(&heap, live(PERCENT(89))));
    heap.budget.attainable.is_known = true;
    heap.budget.attainable.bytes = PERCENT(90);
    EXPECT_INT_EQ(MEND_PRESSURE_CRITICAL, mend_budget_pressure(&heap));
    EXPECT_U64_EQ(PERCENT(1), mend_budget_room_bytes(&heap));
    EXPECT_U64_EQ(PERCENT(2), mend_budget_lacking_bytes(&heap, PERCENT(3)));
    heap.budget.attainable.bytes = PERCENT(200); /* the limit holds all the same */
    EXPECT_U64_EQ(PERCENT(11), mend_budget_room_bytes(&heap));
}
