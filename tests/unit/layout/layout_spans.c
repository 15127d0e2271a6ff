/* Spans and runs of a heap made by hand: what a chunk that comes or goes, a take, a free and a
 * claim make of them. */
#include "tests/support/hand_heap.h"
#include "tests/support/test.h"

enum { NONE = MEND_STREAM_UNKNOWN, FIRST = 1, SECOND = 2 };

/* ---- chunks come and go -------------------------------------------------------------------------
 */

MEND_TEST(layout_spans, chunks_side_by_side_are_one_run)
{
    hand_heap h;
    hand_open(&h);
    hand_chunk(&h, 0, 4);
    hand_expect(&h, "4.", "4+");
    hand_chunk(&h, 6, 1); /* apart */
    hand_expect(&h, "4. | 1.", "1+ 4+");
    hand_chunk(&h, 4, 2); /* in between */
    hand_expect(&h, "7.", "7+");
    hand_close(&h);
}

MEND_TEST(layout_spans, a_chunk_that_leaves_cuts_its_segment)
{
    hand_heap h;
    hand_open(&h);
    hand_chunk(&h, 0, 3);
    mend_chunk *middle = hand_chunk(&h, 3, 2);
    hand_chunk(&h, 5, 4);
    mend_waits waits = {0};
    mend_layout_detach(&h.heap, middle, &waits);
    hand_expect(&h, "3. | 4.", "3+ 4+");
    EXPECT_U64_EQ(0, middle->address);
    EXPECT_U64_EQ(7 * HAND_PAGE, h.heap.zones[MEND_ZONE_LARGE].free_bytes);
    hand_close(&h);
}

MEND_TEST(layout_spans, a_chunk_that_leaves_takes_its_waits_along)
{
    hand_heap h;
    hand_open(&h);
    mend_chunk *chunk = hand_chunk(&h, 0, 3);
    hand_chunk(&h, 3, 3);
    hand_take(&h, 1, 1);
    hand_free(&h, 1, FIRST);
    mend_waits waits = {0};
    mend_layout_detach(&h.heap, chunk, &waits);
    EXPECT_U64_EQ(HAND_EPOCH, waits.first.epoch);
    EXPECT_U64_EQ(FIRST, waits.first.stream);
    EXPECT_STR_EQ("3.", hand_spans(&h));
    mend_layout_attach(&h.heap, chunk, MEND_ZONE_LARGE, hand_address(6), &waits);
    EXPECT_STR_EQ("3. 3.", hand_spans(&h)); /* one run of two that wait for different work */
    EXPECT_STR_EQ("6+", hand_runs(&h));
    hand_close(&h);
}

/* ---- taken and freed ----------------------------------------------------------------------------
 */

MEND_TEST(layout_spans, a_take_leaves_the_rest_of_its_run)
{
    static const struct {
        uint64_t page, pages;
        const char *spans, *runs;
    } rows[] = {
        {0, 3, "3# 7.", "7+"},
        {4, 2, "4. 2# 4.", "4 4+"},
        {7, 3, "7. 3#", "7"},
        {0, 10, "10#", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hand_heap h;
        hand_open(&h);
        mend_chunk *chunk = hand_chunk(&h, 0, 10);
        hand_take(&h, rows[i].page, rows[i].pages);
        hand_expect(&h, rows[i].spans, rows[i].runs);
        EXPECT_U64_EQ(rows[i].pages * HAND_PAGE, chunk->live_bytes);
        hand_free(&h, rows[i].page, NONE);
        hand_expect(&h, "10.", "10+");
        EXPECT_TRUE(mend_chunk_is_empty(chunk));
        hand_close(&h);
    }
}

MEND_TEST(layout_spans, a_block_over_an_edge_lives_in_both_chunks)
{
    hand_heap h;
    hand_open(&h);
    mend_chunk *left = hand_chunk(&h, 0, 4);
    mend_chunk *right = hand_chunk(&h, 4, 4);
    hand_take(&h, 3, 3);
    EXPECT_U64_EQ(1 * HAND_PAGE, left->live_bytes);
    EXPECT_U64_EQ(2 * HAND_PAGE, right->live_bytes);
    EXPECT_U64_EQ(0, h.heap.chunks.empty_bytes);
    hand_free(&h, 3, NONE);
    EXPECT_U64_EQ(8 * HAND_PAGE, h.heap.chunks.empty_bytes);
    hand_close(&h);
}

/* The middle one of three is freed last, and joins its neighbours. */
MEND_TEST(layout_spans, a_free_joins_both_sides)
{
    hand_heap h;
    hand_open_as(&h, "2# 2# 2#");
    hand_free(&h, 0, NONE);
    hand_free(&h, 4, NONE);
    hand_expect(&h, "2. 2# 2.", "2 2+");
    hand_free(&h, 2, NONE);
    hand_expect(&h, "6.", "6+");
    hand_close(&h);
}

/* ---- what waits ---------------------------------------------------------------------------------
 */

MEND_TEST(layout_spans, what_waits_for_different_work_is_one_run_of_two_spans)
{
    hand_heap h;
    hand_open_as(&h, "2.1 3.2");
    hand_expect(&h, "2. 3.", "5+");
    mend_run *run = mend_layout_run_at(&h.heap.zones[MEND_ZONE_LARGE], hand_address(0));
    hand_pass(&h, FIRST);
    mend_layout_tidy(&h.heap, run);
    EXPECT_STR_EQ("2. 3.", hand_spans(&h));
    hand_pass(&h, SECOND);
    mend_layout_tidy(&h.heap, run);
    EXPECT_STR_EQ("5.", hand_spans(&h));
    hand_close(&h);
}

MEND_TEST(layout_spans, a_block_waits_for_all_that_its_memory_waits_for)
{
    hand_heap h;
    hand_open_as(&h, "2.1 2.2 2.");
    mend_wait_env env = mend_heap_wait_env(&h.heap);
    mend_span *block = hand_take(&h, 1, 2); /* of both */
    EXPECT_STR_EQ("1. 2# 1. 2.", hand_spans(&h));
    hand_pass(&h, FIRST);
    EXPECT_FALSE(mend_waits_settle(env, &block->waits));
    hand_pass(&h, SECOND);
    EXPECT_TRUE(mend_waits_settle(env, &block->waits));
    hand_close(&h);
}

/* ---- claimed ------------------------------------------------------------------------------------
 */

MEND_TEST(layout_spans, what_is_claimed_is_not_found)
{
    hand_heap h;
    hand_open_as(&h, "10.");
    mend_zone *zone = &h.heap.zones[MEND_ZONE_LARGE];
    mend_span *claimed = mend_layout_claim_part(&h.heap, mend_layout_run_at(zone, hand_address(2)),
                                                hand_address(2), 3 * HAND_PAGE);
    hand_expect(&h, "2. 3? 5.", "2 5+");
    EXPECT_U64_EQ(10 * HAND_PAGE, zone->free_bytes);
    hand_take(&h, 5, 1);
    hand_free(&h, 5, NONE); /* joins what lies behind, and not the claimed one */
    EXPECT_STR_EQ("2. 3? 5.", hand_spans(&h));
    mend_layout_end_claim(&h.heap, claimed);
    EXPECT_STR_EQ("10.", hand_spans(&h));
    hand_close(&h);
}

MEND_TEST(layout_spans, a_claimed_end_that_is_cut_ends_the_segment)
{
    hand_heap h;
    hand_open_as(&h, "10.");
    mend_zone *zone = &h.heap.zones[MEND_ZONE_LARGE];
    mend_layout_cut(&h.heap,
                    mend_layout_claim_part(&h.heap, mend_layout_run_at(zone, hand_address(6)),
                                           hand_address(6), 4 * HAND_PAGE));
    hand_expect(&h, "6.", "6+");
    EXPECT_U64_EQ(6 * HAND_PAGE, zone->free_bytes);
    hand_close(&h);
}
