/* Where in mapped free memory a request goes, and which empty chunks a plan takes for a need, on
 * heaps made by hand. Requests are on the first stream. */
#include "policy/fit.h"
#include "policy/pick.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/hand_heap.h"

enum { SECOND = 2, NONE = -1 };

/* What is left: plenty, half of the limit, nearly that, nothing; or nothing, and all was in use. */
typedef enum left { PLENTY, HALF, BELOW_HALF, NOTHING, NEVER } left;

static void leave(hand_heap *h, left what)
{
    uint64_t reserved_bytes = h->heap.chunks.reserved_bytes;
    if (what == HALF || what == BELOW_HALF) {
        h->heap.config.limit_bytes = 2 * reserved_bytes - (what == HALF ? 0 : 2);
    } else if (what != PLENTY) {
        h->heap.config.limit_bytes = reserved_bytes;
    }
    h->heap.budget.peaks.used_bytes[0] = what == NEVER ? reserved_bytes : 0;
}

/* The page that a request gets, NONE: none. */
static long long page_of(mend_fit fit)
{
    return fit.run != NULL ? (long long)((fit.address - HAND_START) / HAND_PAGE) : NONE;
}

static long long fit_pages(hand_heap *h, const mend_request *request)
{
    return page_of(mend_fit_find(&h->heap, request, MEND_ZONE_LARGE, UINT64_MAX));
}

MEND_TEST(policy_fit, the_smallest_run_is_taken_that_the_stream_may_use_and_that_spares_chunks)
{
    static const char runs[] = "2. 1# 3. 1# 1. | 10: 2. | 20: 4.";
    static const char aligned[] = "1# 2. | 10: 1# 7.";
    static const char chunk[] = "2. | 10: 2# 3."; /* an empty one, and free pages beside a block */
    static const struct {
        const char *heap;
        uint64_t pages, alignment_pages;
        left left;
        bool may_break;
        long long page;
    } rows[] = {
        {runs, 1, 0, PLENTY, false, 7}, /* and of equals the first */
        {runs, 2, 0, PLENTY, false, 0},
        {runs, 3, 0, PLENTY, false, 3},
        {runs, 4, 0, PLENTY, false, 20},
        {runs, 5, 0, PLENTY, false, NONE},
        {aligned, 2, 4, PLENTY, false, 12},
        {"2.2 | 10: 4.", 2, 0, PLENTY, false, 10}, /* another stream freed the first */
        {"2.2 4.1", 3, 0, PLENTY, false, 3},       /* the end serves behind it */
        {"2.2 4.1", 5, 0, PLENTY, false, NONE},
        {"2.2 4.1 2.2", 3, 0, PLENTY, false, NONE},
        {chunk, 2, 0, HALF, false, 0},
        {chunk, 2, 0, BELOW_HALF, false, 12}, /* the chunk is kept when memory is short, */
        {chunk, 2, 0, NOTHING, false, 12},
        {"2. | 10: 5#", 1, 0, NOTHING, false, 0},    /* rather than nothing, */
        {"2. | 10: 2# 5.", 2, 0, NOTHING, false, 0}, /* but for no run above two such blocks, */
        {"2. | 10: 2# 5.", 2, 0, NEVER, false, 12},
        {"2. | 10: 2# 4.", 2, 0, NOTHING, false, 12},
        {"4.", 4, 0, NEVER, false, 0}, /* and once all was in use one page may be left */
        {"4.", 3, 0, NEVER, false, 0},
        {"4.", 2, 0, NEVER, false, NONE},
        {"4.", 2, 0, NEVER, true, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hand_heap h;
        hand_open_as(&h, rows[i].heap);
        leave(&h, rows[i].left);
        mend_request request = hand_request(rows[i].pages);
        request.may_break = rows[i].may_break;
        if (rows[i].alignment_pages > 0) {
            request.alignment_bytes = rows[i].alignment_pages * HAND_PAGE;
        }
        EXPECT_INT_EQ(rows[i].page, fit_pages(&h, &request));
        hand_close(&h);
    }
}

HAND_TEST(policy_fit, a_run_above_the_bound_is_left, "6.")
{
    mend_request request = hand_request(2);
    uint64_t size_bytes = 6 * HAND_PAGE;
    EXPECT_INT_EQ(0, page_of(mend_fit_find(&h->heap, &request, MEND_ZONE_LARGE, size_bytes)));
    EXPECT_INT_EQ(NONE,
                  page_of(mend_fit_find(&h->heap, &request, MEND_ZONE_LARGE, size_bytes - 1)));
}

/* The search at every place finds what lies between memory of another stream. */
HAND_TEST(policy_fit, anywhere_is_also_behind_what_another_stream_freed, "2.2 4.1 2.2")
{
    mend_request request = hand_request(3);
    EXPECT_INT_EQ(2, page_of(mend_fit_find_anywhere(&h->heap, &request, MEND_ZONE_LARGE)));
    request = hand_request(5);
    EXPECT_INT_EQ(NONE, page_of(mend_fit_find_anywhere(&h->heap, &request, MEND_ZONE_LARGE)));
    hand_pass(h, SECOND);
    EXPECT_INT_EQ(0, fit_pages(h, &request));
}

/* What a plan of its own has picked, "4 2", or with the page of what is mapped "2@10". */
static const char *picked(hand_heap *h, const mend_plan *plan)
{
    size_t used = 0;
    h->text[0] = '\0';
    for (size_t i = 0; i < plan->picks.count; i++) {
        const mend_chunk *at = plan->picks.chunks[i];
        const unsigned long long page = (at->address - HAND_START) / HAND_PAGE;
        used += (size_t)snprintf(h->text + used, sizeof(h->text) - used, "%s%llu", i > 0 ? " " : "",
                                 (unsigned long long)at->size_bytes / HAND_PAGE);
        if (at->address != 0) {
            used += (size_t)snprintf(h->text + used, sizeof(h->text) - used, "@%llu", page);
        }
    }
    return h->text;
}

MEND_TEST(policy_pick, chunks_for_a_need)
{
    static const uint64_t powers[4] = {1, 2, 4, 8};
    static const uint64_t large[4] = {16, 8, 4};
    static const uint64_t two[4] = {8, 4};
    static const uint64_t one[4] = {2};
    static const uint64_t none[4] = {0};
    static const char runs[] = "2. | 2. | 2. | 10: 2.";
    static const struct {
        const char *heap;
        const uint64_t *unmapped; /* chunks */
        left left;
        uint64_t need_pages;
        const char *chunks;
        uint64_t missing_pages;
    } rows[] = {
        {"", powers, PLENTY, 1, "1", 0}, /* the largest not above the need come first */
        {"", powers, PLENTY, 3, "2 1", 0},
        {"", powers, PLENTY, 7, "4 2 1", 0},
        {"", powers, PLENTY, 9, "8 1", 0},
        {"", powers, PLENTY, 15, "8 4 2 1", 0},
        {"", powers, PLENTY, 16, "8 4 2 1", 1},
        {"", large, PLENTY, 1, "4", 0}, /* the smallest that covers the rest comes last */
        {"", large, PLENTY, 5, "4 8", 0},
        {"", large, PLENTY, 13, "8 4 16", 0},
        {"", two, NEVER, 3, "4", 0}, /* and wastes no more than a page where all was in use */
        {"", two, NEVER, 2, "", 2},
        {"", two, NEVER, 11, "8 4", 0},
        {"", two, NEVER, 6, "4", 2},
        {runs, none, PLENTY, 2, "2@10", 0}, /* the smallest run is broken first, from its end */
        {runs, none, PLENTY, 4, "2@10 2@4", 0},
        {runs, none, PLENTY, 8, "2@10 2@4 2@2 2@0", 0},
        {runs, one, PLENTY, 4, "2 2@10", 0},    /* one that is mapped nowhere breaks none */
        {runs, none, NOTHING, 4, "2@0 2@2", 0}, /* the oldest goes first when memory is short */
        {"2.2 | 10: 2.", none, PLENTY, 4, "2@10", 2}, /* what another stream freed is left */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hand_heap h;
        hand_open_as(&h, rows[i].heap);
        for (int k = 0; k < 4 && rows[i].unmapped[k] > 0; k++) {
            hand_unmapped_chunk(&h, rows[i].unmapped[k]);
        }
        leave(&h, rows[i].left);
        mend_plan plan = {0};
        mend_request request = hand_request(rows[i].need_pages);
        uint64_t missing =
            mend_pick_chunks(&h.heap, &request, &plan, rows[i].need_pages * HAND_PAGE);
        EXPECT_U64_EQ(rows[i].missing_pages * HAND_PAGE, missing);
        EXPECT_STR_EQ(rows[i].chunks, picked(&h, &plan));
        mend_plan_clear(&plan);
        hand_close(&h);
    }
}

HAND_TEST(policy_pick, one_chunk_holds_the_request_or_none_does, "")
{
    static const struct {
        uint64_t pages, largest_pages;
        const char *chunk;
    } rows[] = {{1, 8, "2"}, {3, 8, "4"}, {4, 4, "4"}, {5, 8, ""}, {3, 3, ""}};
    hand_unmapped_chunk(h, 4);
    hand_unmapped_chunk(h, 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_plan plan = {0};
        mend_request request = hand_request(rows[i].pages);
        bool is_picked =
            mend_pick_one(&h->heap, &request, &plan, rows[i].largest_pages * HAND_PAGE);
        EXPECT_INT_EQ(rows[i].chunk[0] != '\0', is_picked);
        EXPECT_STR_EQ(rows[i].chunk, picked(h, &plan));
        mend_plan_clear(&plan);
    }
}
