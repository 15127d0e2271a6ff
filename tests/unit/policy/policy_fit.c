/* Where in mapped free memory a request goes, on heaps made by hand: the smallest run that fits,
 * what a stream may use, and which empty chunks stay whole when memory is short. */
#include "policy/fit.h"

#include "tests/support/hand_heap.h"
#include "tests/support/test.h"

enum { SECOND = 2 }; /* a stream; requests are on the first */

/* The page that a request gets, -1: none. */
static long long page_of(mend_fit fit)
{
    return fit.run != NULL ? (long long)((fit.address - HAND_START) / HAND_PAGE) : -1;
}

static long long fit_pages(hand_heap *h, uint64_t pages)
{
    mend_request request = hand_request(pages);
    return page_of(mend_fit_find(&h->heap, &request, MEND_ZONE_LARGE, UINT64_MAX));
}

/* Nothing can be created any more; and then all of it was in use before. */
static void be_short_of_memory(hand_heap *h)
{
    h->heap.config.limit_bytes = h->heap.chunks.reserved_bytes;
}

static void have_been_full(hand_heap *h)
{
    be_short_of_memory(h);
    h->heap.budget.peaks.used_bytes[0] = h->heap.config.limit_bytes;
}

MEND_TEST(policy_fit, the_smallest_run_that_fits_is_taken_and_of_equals_the_first)
{
    static const long long expected[] = {[1] = 7, [2] = 0, [3] = 3, [4] = 20, [5] = -1};
    hand_heap h;
    hand_open_as(&h, "2. 1# 3. 1# 1. | 10: 2. | 20: 4.");
    EXPECT_STR_EQ("2. 1# 3. 1# 1. | 2. | 4.", hand_spans(&h));
    for (uint64_t pages = 1; pages < sizeof(expected) / sizeof(expected[0]); pages++) {
        EXPECT_INT_EQ(expected[pages], fit_pages(&h, pages));
    }
    hand_close(&h);
}

MEND_TEST(policy_fit, a_run_above_the_bound_is_left)
{
    hand_heap h;
    hand_open_as(&h, "6.");
    mend_request request = hand_request(2);
    uint64_t size_bytes = 6 * HAND_PAGE;
    EXPECT_INT_EQ(0, page_of(mend_fit_find(&h.heap, &request, MEND_ZONE_LARGE, size_bytes)));
    EXPECT_INT_EQ(-1, page_of(mend_fit_find(&h.heap, &request, MEND_ZONE_LARGE, size_bytes - 1)));
    hand_close(&h);
}

MEND_TEST(policy_fit, a_run_must_hold_the_request_where_it_is_aligned)
{
    hand_heap h;
    hand_open_as(&h, "1# 2. | 10: 1# 7.");
    EXPECT_STR_EQ("1# 2. | 1# 7.", hand_spans(&h));
    mend_request request = hand_request(2);
    request.alignment_bytes = 4 * HAND_PAGE;
    EXPECT_INT_EQ(12, page_of(mend_fit_find(&h.heap, &request, MEND_ZONE_LARGE, UINT64_MAX)));
    hand_close(&h);
}

MEND_TEST(policy_fit, memory_of_another_stream_is_passed_over)
{
    hand_heap h;
    hand_open_as(&h, "2.2 | 10: 4.");
    EXPECT_INT_EQ(10, fit_pages(&h, 2));
    hand_pass(&h, SECOND);
    EXPECT_INT_EQ(0, fit_pages(&h, 2));
    hand_close(&h);
}

MEND_TEST(policy_fit, the_end_of_a_run_serves_where_another_stream_freed_its_start)
{
    hand_heap h;
    hand_open_as(&h, "2.2 4.1");
    EXPECT_INT_EQ(3, fit_pages(&h, 3));
    EXPECT_INT_EQ(-1, fit_pages(&h, 5));
    hand_close(&h);
}

/* The search at every place finds what lies between memory of another stream. */
MEND_TEST(policy_fit, anywhere_is_also_behind_what_another_stream_freed)
{
    hand_heap h;
    hand_open_as(&h, "2.2 4.1 2.2");
    mend_request request = hand_request(3);
    EXPECT_INT_EQ(-1, fit_pages(&h, 3));
    EXPECT_INT_EQ(2, page_of(mend_fit_find_anywhere(&h.heap, &request, MEND_ZONE_LARGE)));
    request = hand_request(5);
    EXPECT_INT_EQ(-1, page_of(mend_fit_find_anywhere(&h.heap, &request, MEND_ZONE_LARGE)));
    hand_close(&h);
}

/* An empty chunk of two pages, alone, and three free pages beside a block. */
static void open_with_empty_chunk(hand_heap *h)
{
    hand_open_as(h, "2. | 10: 2# 3.");
    EXPECT_STR_EQ("2. | 2# 3.", hand_spans(h));
}

MEND_TEST(policy_fit, an_empty_chunk_is_kept_when_memory_is_short)
{
    hand_heap h;
    open_with_empty_chunk(&h);
    h.heap.config.limit_bytes = 2 * h.heap.chunks.reserved_bytes;
    EXPECT_INT_EQ(0, fit_pages(&h, 2)); /* half of the limit is left */
    h.heap.config.limit_bytes -= 2;
    EXPECT_INT_EQ(12, fit_pages(&h, 2));
    be_short_of_memory(&h);
    EXPECT_INT_EQ(12, fit_pages(&h, 2));
    hand_take(&h, 12, 3);
    EXPECT_INT_EQ(0, fit_pages(&h, 1)); /* rather than nothing */
    hand_close(&h);
}

/* A larger run serves larger requests, which would move chunks; near the limit only the chunk
 * counts. */
MEND_TEST(policy_fit, a_run_above_two_such_blocks_is_not_broken_to_spare_a_chunk)
{
    hand_heap h;
    hand_open_as(&h, "2. | 10: 2# 5.");
    be_short_of_memory(&h);
    EXPECT_INT_EQ(0, fit_pages(&h, 2));
    have_been_full(&h);
    EXPECT_INT_EQ(12, fit_pages(&h, 2));
    hand_close(&h);
    hand_open_as(&h, "2. | 10: 2# 4.");
    be_short_of_memory(&h);
    EXPECT_INT_EQ(12, fit_pages(&h, 2));
    hand_close(&h);
}

/* Once all was in use, one page of an empty chunk may be left beside a block, and no more. */
MEND_TEST(policy_fit, an_empty_chunk_is_not_broken_where_all_was_in_use)
{
    hand_heap h;
    hand_open_as(&h, "4.");
    have_been_full(&h);
    EXPECT_INT_EQ(0, fit_pages(&h, 4));
    EXPECT_INT_EQ(0, fit_pages(&h, 3));
    EXPECT_INT_EQ(-1, fit_pages(&h, 2));
    mend_request request = hand_request(2);
    request.may_break = true;
    EXPECT_INT_EQ(0, page_of(mend_fit_find(&h.heap, &request, MEND_ZONE_LARGE, UINT64_MAX)));
    hand_close(&h);
}
