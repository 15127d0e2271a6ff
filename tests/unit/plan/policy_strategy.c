/* The effect of each strategy on the sizes of chunks and on the pressure. */
#include "plan/policy.h"

#include "tests/support/test.h"

enum { LEVELS = MEND_STRATEGY_LEVELS };

static mend_heap heap_of(int strategy, uint64_t limit_bytes)
{
    mend_heap heap = {.config = {.limit_bytes = limit_bytes}};
    heap.device.granularity_bytes = 2 * MEND_MIB;
    mend_strategy_apply(&heap, strategy);
    return heap;
}

static uint64_t usual_mib(int strategy, uint64_t limit_bytes)
{
    mend_heap heap = heap_of(strategy, limit_bytes);
    return mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE) / MEND_MIB;
}

/* Chunks are a part of the limit up to a size. Of a usual chunk a quarter is created under high
 * pressure, if that is more than a page of the device. Pressure is low while more than half of the
 * limit is not reserved. */
MEND_TEST(policy_strategy, each_level_has_its_chunks_and_its_pressure)
{
    static const struct {
        uint64_t mib_of_tib, mib_of_16_gib, mib_of_gib;
    } rows[LEVELS] = {{512, 128, 8}, {256, 64, 4}, {128, 32, 2}, {32, 16, 2}, {8, 4, 2}};
    const uint64_t limit = 100 * MEND_GIB;
    for (int i = 0; i < LEVELS; i++) {
        EXPECT_U64_EQ(rows[i].mib_of_tib, usual_mib(i + 1, MEND_TIB));
        EXPECT_U64_EQ(rows[i].mib_of_16_gib, usual_mib(i + 1, 16 * MEND_GIB));
        EXPECT_U64_EQ(rows[i].mib_of_gib, usual_mib(i + 1, MEND_GIB));
        mend_heap heap = heap_of(i + 1, MEND_TIB);
        EXPECT_U64_EQ(8 * MEND_MIB, mend_budget_usual_chunk(&heap, MEND_ZONE_SMALL));
        EXPECT_U64_EQ(MEND_MIB, heap.config.placement.small_request_bytes);
        heap.chunks.reserved_bytes = MEND_TIB / 5 * 4;
        ASSERT_TRUE(mend_budget_is_pressed(&heap));
        EXPECT_U64_EQ(usual_mib(i + 1, MEND_TIB) / 4 * MEND_MIB, mend_budget_page(&heap, true));
        heap = heap_of(i + 1, limit);
        heap.chunks.reserved_bytes = limit / 2 - 1;
        EXPECT_FALSE(mend_budget_is_pressed(&heap));
        heap.chunks.reserved_bytes++;
        EXPECT_TRUE(mend_budget_is_pressed(&heap));
    }
}

/* The ends of requests trap memory in larger chunks: much of a small pool, and little beside a
 * large request. */
MEND_TEST(policy_strategy, chunks_of_one_request_are_larger_if_the_pool_or_the_request_is)
{
    static const struct {
        bool is_full;
        uint64_t limit_gib, request_mib, chunk_mib;
    } rows[] = {{false, 16, 2, 64},   {false, 4, 2, 16},    {false, 2, 31, 4},  {false, 2, 32, 8},
                {true, 16, 2047, 32}, {true, 16, 2048, 64}, {true, 4, 512, 16}, {true, 2, 1024, 4}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_heap heap = heap_of(0, rows[i].limit_gib * MEND_GIB);
        heap.chunks.reserved_bytes = rows[i].is_full ? heap.config.limit_bytes : 0;
        const mend_request request = {.size_bytes = rows[i].request_mib * MEND_MIB};
        EXPECT_U64_EQ(rows[i].chunk_mib * MEND_MIB, mend_budget_lone_chunk(&heap, &request));
    }
}

/* Each chunk costs calls at each sleep and wake. */
MEND_TEST(policy_strategy, chunks_are_larger_where_they_sleep)
{
    mend_heap heap = heap_of(0, 16 * MEND_GIB);
    const mend_request tagged = {.home = 1};
    const mend_request usual = {.home = 0};
    const uint64_t bytes = mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE);
    heap.chunks.reserved_bytes = 15 * MEND_GIB;
    EXPECT_U64_EQ(bytes, mend_budget_lone_chunk(&heap, &usual));
    EXPECT_U64_EQ(4 * bytes, mend_budget_lone_chunk(&heap, &tagged));
    heap.counters.sleeps = 1;
    EXPECT_U64_EQ(2 * bytes, mend_budget_usual_chunk(&heap, MEND_ZONE_LARGE));
}
