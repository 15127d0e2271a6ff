/* Spans and runs of a heap made by hand: what a chunk that comes or goes, a take, a free and a
 * claim make of them. */
#include <stdlib.h>

#include "layout/ready.h"
#include "tests/support/hand_heap.h"

enum { NONE = MEND_STREAM_UNKNOWN, FIRST = 1, SECOND = 2 };

static mend_zone *zone_of(hand_heap *h)
{
    return &h->heap.zones[MEND_ZONE_LARGE];
}

static mend_run *run_at(hand_heap *h, uint64_t page)
{
    return mend_layout_run_at(zone_of(h), hand_address(page));
}

/* Does what a text says: "c4+2" lays out a chunk of two pages at the fourth, "t" takes them; "f4+1"
 * frees what begins at the fourth, by the first stream or, by 0, by none; "p" is the time at which
 * a stream has passed, and what is free is tidied. */
static void play(hand_heap *h, const char *text)
{
    char *end = NULL;
    for (; *text != '\0'; text = end + (*end == ' ')) {
        uint64_t page = strtoull(text + 1, &end, 10);
        uint64_t pages = *end == '+' ? strtoull(end + 1, &end, 10) : 0;
        if (*text == 'c') {
            hand_chunk(h, page, pages);
        } else if (*text == 't') {
            hand_take(h, page, pages);
        } else if (*text == 'f') {
            hand_free(h, page, (uint32_t)pages);
        } else {
            hand_pass(h, (uint32_t)page);
            mend_layout_tidy(&h->heap, run_at(h, 0));
        }
    }
}

MEND_TEST(layout_spans, what_comes_goes_and_waits)
{
    static const struct {
        const char *heap, *play, *spans, *runs;
    } rows[] = {
        {"", "c0+4", "4.", "4+"},
        {"", "c0+4 c6+1", "4. | 1.", "1+ 4+"},
        {"", "c0+4 c6+1 c4+2", "7.", "7+"}, /* side by side they are one run */
        {"10.", "t0+3", "3# 7.", "7+"},     /* a take leaves the rest of its run */
        {"10.", "t4+2", "4. 2# 4.", "4 4+"},
        {"10.", "t7+3", "7. 3#", "7"},
        {"10.", "t0+10", "10#", ""},
        {"10.", "t0+10 f0+0", "10.", "10+"},
        {"10.", "t4+2 f4+0", "10.", "10+"},
        {"2# 2# 2#", "f0+0 f4+0", "2. 2# 2.", "2 2+"},
        {"2# 2# 2#", "f0+0 f4+0 f2+0", "6.", "6+"}, /* a free joins both sides */
        {"2.1 3.2", "", "2. 3.", "5+"}, /* what waits for different work is one run of two spans */
        {"2.1 3.2", "p1", "2. 3.", "5+"},
        {"2.1 3.2", "p1 p2", "5.", "5+"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hand_heap h;
        hand_open_as(&h, rows[i].heap);
        play(&h, rows[i].play);
        hand_expect(&h, rows[i].spans, rows[i].runs);
        hand_close(&h);
    }
}

HAND_TEST(layout_spans, a_chunk_that_leaves_cuts_its_segment_and_takes_its_waits_along, "")
{
    mend_waits waits = {0};
    mend_waits none = {0};
    mend_chunk *chunk = hand_chunk(h, 0, 3);
    mend_chunk *middle = hand_chunk(h, 3, 2);
    play(h, "c5+3 t1+1 f1+1");
    mend_layout_detach(&h->heap, middle, &none);
    hand_expect(h, "1. 1. 1. | 3.", "3+ 3+");
    EXPECT_U64_EQ(0, none.first.epoch);
    EXPECT_U64_EQ(0, middle->address);
    EXPECT_U64_EQ(6 * HAND_PAGE, zone_of(h)->free_bytes);
    mend_layout_detach(&h->heap, chunk, &waits);
    EXPECT_U64_EQ(HAND_EPOCH, waits.first.epoch);
    EXPECT_U64_EQ(FIRST, waits.first.stream);
    mend_layout_attach(&h->heap, chunk, MEND_ZONE_LARGE, hand_address(8), &waits);
    hand_expect(h, "3. 3.", "6+"); /* one run of two that wait for different work */
}

HAND_TEST(layout_spans, a_block_over_an_edge_lives_in_both_chunks, "")
{
    mend_chunk *left = hand_chunk(h, 0, 4);
    mend_chunk *right = hand_chunk(h, 4, 4);
    hand_take(h, 3, 3);
    EXPECT_U64_EQ(1 * HAND_PAGE, left->live_bytes);
    EXPECT_U64_EQ(2 * HAND_PAGE, right->live_bytes);
    EXPECT_U64_EQ(0, h->heap.chunks.empty_bytes);
    hand_free(h, 3, NONE);
    EXPECT_U64_EQ(8 * HAND_PAGE, h->heap.chunks.empty_bytes);
    EXPECT_TRUE(mend_chunk_is_empty(left) && mend_chunk_is_empty(right));
}

HAND_TEST(layout_spans, a_block_waits_for_all_that_its_memory_waits_for, "2.1 2.2 2.")
{
    mend_wait_env env = mend_heap_wait_env(&h->heap);
    mend_span *block = hand_take(h, 1, 2); /* of both */
    EXPECT_STR_EQ("1. 2# 1. 2.", hand_spans(h));
    hand_pass(h, FIRST);
    EXPECT_FALSE(mend_waits_settle(env, &block->waits));
    hand_pass(h, SECOND);
    EXPECT_TRUE(mend_waits_settle(env, &block->waits));
}

HAND_TEST(layout_spans, what_is_claimed_is_not_found, "10.")
{
    mend_span *claimed =
        mend_layout_claim_part(&h->heap, run_at(h, 2), hand_address(2), 3 * HAND_PAGE);
    hand_expect(h, "2. 3? 5.", "2 5+");
    EXPECT_U64_EQ(10 * HAND_PAGE, zone_of(h)->free_bytes);
    play(h, "t5+1 f5+0"); /* joins what lies behind, and not the claimed one */
    EXPECT_STR_EQ("2. 3? 5.", hand_spans(h));
    mend_layout_end_claim(&h->heap, claimed);
    EXPECT_STR_EQ("10.", hand_spans(h));
    /* A claimed end that is cut ends the segment. */
    mend_layout_cut(&h->heap,
                    mend_layout_claim_part(&h->heap, run_at(h, 6), hand_address(6), 4 * HAND_PAGE));
    hand_expect(h, "6.", "6+");
    EXPECT_U64_EQ(6 * HAND_PAGE, zone_of(h)->free_bytes);
}

HAND_TEST(layout_spans, memory_is_ready_for_the_stream_that_freed_it, "2.1 2.2 2.")
{
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
    mend_run *run = run_at(h, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_INT_EQ(rows[i].is_ready,
                      mend_layout_is_ready(&h->heap, run, hand_address(rows[i].page),
                                           rows[i].pages * HAND_PAGE, rows[i].stream, false));
    }
    hand_pass(h, FIRST);
    EXPECT_TRUE(mend_layout_is_ready(&h->heap, run, hand_address(0), 6 * HAND_PAGE, SECOND, false));
}
