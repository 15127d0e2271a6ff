/* Which empty chunks a plan takes for a need, on heaps made by hand. */
#include "policy/pick.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/hand_heap.h"
#include "tests/support/test.h"

enum { SECOND = 2 }; /* a stream; requests are on the first */

/* What a plan of its own has picked, "4 2", or with the page of what is mapped "2@10". */
static const char *picked(hand_heap *h, const mend_plan *plan)
{
    h->text[0] = '\0';
    for (size_t i = 0; i < plan->picks.count; i++) {
        const mend_chunk *at = plan->picks.chunks[i];
        size_t length = strlen(h->text);
        snprintf(h->text + length, sizeof(h->text) - length, "%s%llu", length > 0 ? " " : "",
                 (unsigned long long)(at->size_bytes / HAND_PAGE));
        length = strlen(h->text);
        if (at->address != 0) {
            snprintf(h->text + length, sizeof(h->text) - length, "@%llu",
                     (unsigned long long)((at->address - HAND_START) / HAND_PAGE));
        }
    }
    return h->text;
}

/* Picks for so many pages, and says how many are still missing. */
static void expect_picks(hand_heap *h, uint64_t need_pages, const char *chunks,
                         uint64_t missing_pages)
{
    mend_plan plan = {0};
    mend_request request = hand_request(need_pages);
    uint64_t missing = mend_pick_chunks(&h->heap, &request, &plan, need_pages * HAND_PAGE);
    EXPECT_U64_EQ(missing_pages * HAND_PAGE, missing);
    EXPECT_STR_EQ(chunks, picked(h, &plan));
    mend_plan_clear(&plan);
}

MEND_TEST(policy_pick, the_largest_not_above_the_need_come_first)
{
    hand_heap h;
    hand_open(&h);
    for (uint64_t pages = 1; pages <= 8; pages *= 2) {
        hand_unmapped_chunk(&h, pages);
    }
    expect_picks(&h, 1, "1", 0);
    expect_picks(&h, 3, "2 1", 0);
    expect_picks(&h, 7, "4 2 1", 0);
    expect_picks(&h, 9, "8 1", 0);
    expect_picks(&h, 15, "8 4 2 1", 0);
    expect_picks(&h, 16, "8 4 2 1", 1);
    hand_close(&h);
}

MEND_TEST(policy_pick, the_smallest_that_covers_the_rest_comes_last)
{
    hand_heap h;
    hand_open(&h);
    hand_unmapped_chunk(&h, 16);
    hand_unmapped_chunk(&h, 8);
    hand_unmapped_chunk(&h, 4);
    expect_picks(&h, 1, "4", 0);
    expect_picks(&h, 5, "4 8", 0);
    expect_picks(&h, 13, "8 4 16", 0);
    hand_close(&h);
}

/* Once all was in use, a chunk is no cover where more than a page of it would be wasted. */
MEND_TEST(policy_pick, a_cover_wastes_little_where_all_was_in_use)
{
    hand_heap h;
    hand_open(&h);
    hand_unmapped_chunk(&h, 8);
    hand_unmapped_chunk(&h, 4);
    h.heap.config.limit_bytes = h.heap.chunks.reserved_bytes;
    h.heap.budget.peaks.used_bytes[0] = h.heap.config.limit_bytes;
    expect_picks(&h, 3, "4", 0);
    expect_picks(&h, 2, "", 2);
    expect_picks(&h, 11, "8 4", 0);
    expect_picks(&h, 6, "4", 2);
    hand_close(&h);
}

MEND_TEST(policy_pick, what_another_stream_freed_is_left)
{
    hand_heap h;
    hand_open_as(&h, "2.2 | 10: 2.");
    expect_picks(&h, 4, "2@10", 2);
    hand_pass(&h, SECOND);
    expect_picks(&h, 4, "2@10 2@0", 0);
    hand_close(&h);
}

/* "2. 2. 2. | 2.": while there is room, large runs stay; the last chunk of a run goes first. */
static void open_with_runs(hand_heap *h)
{
    hand_open_as(h, "2. | 2. | 2. | 10: 2.");
}

MEND_TEST(policy_pick, the_smallest_run_is_broken_first_and_from_its_end)
{
    hand_heap h;
    open_with_runs(&h);
    expect_picks(&h, 2, "2@10", 0);
    expect_picks(&h, 4, "2@10 2@4", 0);
    expect_picks(&h, 8, "2@10 2@4 2@2 2@0", 0);
    hand_unmapped_chunk(&h, 2);
    expect_picks(&h, 4, "2 2@10", 0); /* one that is mapped nowhere breaks none */
    hand_close(&h);
}

MEND_TEST(policy_pick, the_oldest_goes_first_when_memory_is_short)
{
    hand_heap h;
    open_with_runs(&h);
    h.heap.config.limit_bytes = h.heap.chunks.reserved_bytes;
    expect_picks(&h, 4, "2@0 2@2", 0);
    hand_close(&h);
}

MEND_TEST(policy_pick, one_chunk_holds_the_request_or_none_does)
{
    static const struct {
        uint64_t pages, largest_pages;
        const char *chunk;
    } rows[] = {{1, 8, "2"}, {3, 8, "4"}, {4, 4, "4"}, {5, 8, ""}, {3, 3, ""}};
    hand_heap h;
    hand_open(&h);
    hand_unmapped_chunk(&h, 4);
    hand_unmapped_chunk(&h, 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_plan plan = {0};
        mend_request request = hand_request(rows[i].pages);
        bool is_picked = mend_pick_one(&h.heap, &request, &plan, rows[i].largest_pages * HAND_PAGE);
        EXPECT_INT_EQ(rows[i].chunk[0] != '\0', is_picked);
        EXPECT_STR_EQ(rows[i].chunk, picked(&h, &plan));
        mend_plan_clear(&plan);
    }
    hand_close(&h);
}
