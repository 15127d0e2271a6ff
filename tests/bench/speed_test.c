/* The benchmarks leave nothing behind, fail when an allocation does, and count right. */
#include <stdlib.h>

#include "base/align.h"
#include "speed/crew.h"
#include "speed/crowd.h"
#include "speed/library.h"
#include "tests/support/test.h"

static speed_heap *mend_heap(size_t lanes)
{
    return speed_load(SPEED_MEND) ? speed_heap_create(SPEED_MEND, lanes) : NULL;
}

static mend_stats stats_of(const speed_heap *heap)
{
    const speed_lane *lane = speed_heap_lane(heap, 0);
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_RESULT(MEND_OK, lane->library->mend_get_stats(lane->pool, &stats));
    return stats;
}

MEND_TEST(speed, lanes_of_mend_have_streams_of_their_own)
{
    speed_heap *heap = mend_heap(2);
    ASSERT_TRUE(heap != NULL);
    const speed_lane *first = speed_heap_lane(heap, 0);
    const speed_lane *second = speed_heap_lane(heap, 1);
    EXPECT_TRUE(first->stream != second->stream);
    EXPECT_PTR_EQ(first->pool, second->pool);
    void *block = first->alloc(first, 512);
    EXPECT_TRUE(block != NULL);
    first->free(first, block);
    EXPECT_TRUE(first->alloc(first, (size_t)1 << 50) == NULL);
    speed_heap_destroy(heap);
}

MEND_TEST(speed, a_crew_makes_the_calls_it_says_and_leaves_nothing)
{
    static const speed_work works[] = {{4096, 4096, 2000}, {512, 1 << 20, 2000}};
    for (size_t i = 0; i < 2; i++) {
        speed_heap *heap = mend_heap(3);
        ASSERT_TRUE(heap != NULL);
        speed_figures figures = {0};
        EXPECT_TRUE(speed_crew_run(heap, 3, &works[i], &figures));
        mend_stats stats = stats_of(heap);
        EXPECT_U64_EQ(0, stats.live_blocks);
        EXPECT_U64_EQ(stats.frees, stats.allocations);
        /* Two passes of three threads, warming up and clearing away beside. */
        EXPECT_TRUE(stats.allocations + stats.frees >= 2 * 3 * 2000);
        EXPECT_TRUE(i == 0 || stats.peak_live_blocks > 200);
        EXPECT_TRUE(figures.seconds > 0 && figures.cpu_ns > 0);
        EXPECT_TRUE(figures.p50_ns > 0 && figures.p50_ns <= figures.p99_ns);
        EXPECT_TRUE(figures.p99_ns <= figures.p999_ns && figures.p999_ns <= figures.max_ns);
        speed_heap_destroy(heap);
    }
}

MEND_TEST(speed, a_crew_whose_allocations_fail_says_so)
{
    static const speed_work work = {(size_t)1 << 50, (size_t)1 << 50, 10};
    speed_heap *heap = mend_heap(2);
    ASSERT_TRUE(heap != NULL);
    speed_figures figures = {0};
    EXPECT_FALSE(speed_crew_run(heap, 2, &work, &figures));
    speed_heap_destroy(heap);
}

MEND_TEST(speed, a_crowd_has_as_many_blocks_and_holes_as_it_says)
{
    speed_heap *heap = mend_heap(1);
    ASSERT_TRUE(heap != NULL);
    speed_crowd crowd;
    ASSERT_TRUE(speed_crowd_create(&crowd, speed_heap_lane(heap, 0), 4000));
    mend_stats stats = stats_of(heap);
    EXPECT_U64_EQ(4000, stats.live_blocks);
    EXPECT_U64_EQ(1000, stats.frees);
    speed_crowd_destroy(&crowd);
    EXPECT_U64_EQ(0, stats_of(heap).live_blocks);
    speed_crowd_figures figures = {0};
    EXPECT_TRUE(speed_crowd_measure(speed_heap_lane(heap, 0), 4000, &figures));
    EXPECT_U64_EQ(0, stats_of(heap).live_blocks);
    EXPECT_U64_EQ(5000 + 8000, stats_of(heap).allocations);
    EXPECT_TRUE(figures.fill_ns > 0 && figures.churn_ns > 0 && figures.drain_ns > 0);
    speed_heap_destroy(heap);
}

/* Mend keeps something for each block, and less than a kilobyte. */
MEND_TEST(speed, a_crowd_tells_what_is_kept_for_each_block)
{
    speed_heap *heap = mend_heap(1);
    ASSERT_TRUE(heap != NULL);
    speed_crowd_figures figures = {0};
    EXPECT_TRUE(speed_crowd_measure(speed_heap_lane(heap, 0), 20000, &figures));
    EXPECT_TRUE(figures.host_bytes > 16 && figures.host_bytes < 1024);
    speed_heap_destroy(heap);
}
