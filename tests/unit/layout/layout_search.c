/* Searches in the layout of a heap made by hand: runs by size, by growth and by address; blocks and
 * spans by any address inside of them; and whether memory is ready for a stream. */
#include "layout/ready.h"
#include "tests/support/hand_heap.h"
#include "tests/support/test.h"

static mend_zone *open_three_segments(hand_heap *h)
{
    hand_open_as(h, "2. 1# 3. 1# 1. | 10: 2. 2# | 20: 4.");
    EXPECT_STR_EQ("2. 1# 3. 1# 1. | 2. 2# | 4.", hand_spans(h));
    return &h->heap.zones[MEND_ZONE_LARGE];
}

/* The page of a run, or -1. */
static long long page_of(const mend_run *run)
{
    return run != NULL ? (long long)((run->address - HAND_START) / HAND_PAGE) : -1;
}

MEND_TEST(layout_search, runs_come_in_the_order_of_size_and_address)
{
    hand_heap h;
    mend_zone *zone = open_three_segments(&h);
    EXPECT_STR_EQ("1+ 2 2 3 4+", hand_runs(&h));
    static const struct {
        uint64_t bytes;
        long long page;
    } rows[] = {{MEND_GRANULE_BYTES, 7}, {HAND_PAGE + 1, 0},  {2 * HAND_PAGE, 0},
                {2 * HAND_PAGE + 1, 3},  {4 * HAND_PAGE, 20}, {4 * HAND_PAGE + 1, -1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_INT_EQ(rows[i].page,
                      page_of(mend_sizes_at_least(&zone->runs_by_size, rows[i].bytes)));
    }
    hand_close(&h);
}

MEND_TEST(layout_search, runs_that_can_grow_end_their_segment)
{
    hand_heap h;
    mend_zone *zone = open_three_segments(&h);
    mend_run *run = mend_layout_growing_below(zone, 4 * HAND_PAGE);
    EXPECT_INT_EQ(7, page_of(run)); /* below four pages: not that of four, nor one before a block */
    EXPECT_INT_EQ(-1, page_of(mend_layout_growing_smaller(run)));
    run = mend_layout_growing_below(zone, 4 * HAND_PAGE + 1);
    EXPECT_INT_EQ(20, page_of(run));
    EXPECT_INT_EQ(7, page_of(mend_layout_growing_smaller(run)));
    EXPECT_INT_EQ(-1, page_of(mend_layout_growing_below(zone, HAND_PAGE)));
    hand_close(&h);
}

MEND_TEST(layout_search, a_run_is_found_by_any_address)
{
    hand_heap h;
    mend_zone *zone = open_three_segments(&h);
    static const struct {
        uint64_t page;
        long long at, from;
    } rows[] = {{0, 0, 0},   {1, 0, 0},    {2, -1, 3},   {5, 3, 3},    {6, -1, 7},
                {8, -1, 10}, {12, -1, 20}, {19, -1, 20}, {23, 20, 20}, {24, -1, -1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t address = hand_address(rows[i].page);
        EXPECT_INT_EQ(rows[i].at, page_of(mend_layout_run_at(zone, address)));
        EXPECT_INT_EQ(rows[i].from, page_of(mend_layout_run_from(zone, address)));
    }
    hand_close(&h);
}

/* In the middle of each page: the page at which its span begins, -1: not mapped; and is it live. */
MEND_TEST(layout_search, a_span_is_found_by_any_address)
{
    hand_heap h;
    open_three_segments(&h);
    static const int begins[] = {0,  0,  2,  3,  3,  3,  6,  7,  -1, -1, 10, 10, 12,
                                 12, -1, -1, -1, -1, -1, -1, 20, 20, 20, 20, -1};
    static const bool lives[] = {[2] = true, [6] = true, [12] = true, [13] = true, [24] = false};
    for (uint64_t page = 0; page < sizeof(begins) / sizeof(begins[0]); page++) {
        uint64_t address = hand_address(page) + HAND_PAGE / 2;
        const mend_span *span = mend_heap_span_at(&h.heap, address);
        const mend_span *block = mend_heap_block_at(&h.heap, address);
        EXPECT_INT_EQ(begins[page],
                      span != NULL ? (long long)((span->address - HAND_START) / HAND_PAGE) : -1);
        EXPECT_PTR_EQ(lives[page] ? span : NULL, block);
    }
    hand_close(&h);
}

MEND_TEST(layout_search, memory_is_ready_for_the_stream_that_freed_it)
{
    enum { FIRST = 1, SECOND = 2 };
    hand_heap h;
    hand_open_as(&h, "2.1 2.2 2.");
    mend_run *run = mend_layout_run_at(&h.heap.zones[MEND_ZONE_LARGE], hand_address(0));
    static const struct {
        uint64_t page, pages;
        uint32_t stream;
        bool is_ready;
    } rows[] = {{0, 2, FIRST, true},
                {0, 3, FIRST, false},
                {2, 4, SECOND, true},
                {1, 3, SECOND, false},
                {4, 2, MEND_STREAM_UNKNOWN, true},
                {3, 3, MEND_STREAM_UNKNOWN, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_INT_EQ(rows[i].is_ready,
                      mend_layout_is_ready(&h.heap, run, hand_address(rows[i].page),
                                           rows[i].pages * HAND_PAGE, rows[i].stream, false));
    }
    hand_pass(&h, FIRST);
    EXPECT_TRUE(mend_layout_is_ready(&h.heap, run, hand_address(0), 6 * HAND_PAGE, SECOND, false));
    hand_close(&h);
}
