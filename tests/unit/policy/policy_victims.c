/* Which partly used chunk a compaction empties, on heaps made by hand: what it costs, what it
 * gains, which is the best, and why a pass stops. */
#include "policy/victims.h"

#include <stdlib.h>

#include "tests/support/hand_heap.h"
#include "tests/support/test.h"

enum { CHUNK_PAGES = 8, FIRST = 1 };

/* Three chunks, apart from each other, with one, three and five live pages at their beginnings. */
static void open_three(hand_heap *h, mend_chunk *chunks[3])
{
    hand_open(h);
    for (uint64_t i = 0; i < 3; i++) {
        chunks[i] = hand_chunk(h, 10 * i, CHUNK_PAGES);
        hand_take(h, 10 * i, 1 + 2 * i);
    }
}

static mend_compact_pass begin_pass(hand_heap *h, mend_compact_limits limits)
{
    mend_compact_pass pass = {.heap = &h->heap, .limits = limits};
    EXPECT_TRUE(mend_victims_find(&pass));
    return pass;
}

static void expect_chosen(mend_compact_pass *pass, const mend_chunk *chunk, mend_defrag_stop stop)
{
    EXPECT_PTR_EQ(chunk, mend_victims_choose(pass, UINT64_MAX, 0));
    if (chunk == NULL) {
        EXPECT_INT_EQ(stop, pass->stop);
    }
}

static void end_pass(hand_heap *h, mend_compact_pass *pass)
{
    free(pass->candidates);
    hand_close(h);
}

/* ---- measured -----------------------------------------------------------------------------------
 */

MEND_TEST(policy_victims, neighbouring_live_pages_are_one_cluster)
{
    static const struct {
        uint64_t page[3], pages[3];
        size_t clusters;
        uint64_t used_pages;
    } rows[] = {
        {{3}, {2}, 1, 2},
        {{1, 3}, {1, 1}, 2, 2},
        {{1, 2}, {1, 3}, 1, 4},
        {{0, 4, 7}, {1, 2, 1}, 3, 4},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hand_heap h;
        hand_open(&h);
        mend_chunk *chunk = hand_chunk(&h, 0, CHUNK_PAGES);
        for (int j = 0; j < 3 && rows[i].pages[j] > 0; j++) {
            hand_take(&h, rows[i].page[j], rows[i].pages[j]);
        }
        mend_cluster clusters[CHUNK_PAGES];
        mend_compact_size size;
        mend_victims_measure(&h.heap, chunk, clusters, &size);
        EXPECT_U64_EQ(rows[i].clusters, size.clusters);
        EXPECT_U64_EQ(rows[i].used_pages * HAND_PAGE, size.used_bytes);
        EXPECT_U64_EQ(rows[i].used_pages * HAND_PAGE, size.copied_bytes);
        EXPECT_U64_EQ((CHUNK_PAGES - rows[i].used_pages) * HAND_PAGE, size.gained_bytes);
        EXPECT_U64_EQ(hand_address(rows[i].page[0]), clusters[0].address);
        hand_close(&h);
    }
}

/* A page that a block touches is needed; its live bytes alone are copied. */
MEND_TEST(policy_victims, a_block_needs_each_page_that_it_touches)
{
    hand_heap h;
    hand_open(&h);
    mend_chunk *chunk = hand_chunk(&h, 0, CHUNK_PAGES);
    mend_run *run = mend_layout_run_at(&h.heap.zones[MEND_ZONE_LARGE], hand_address(0));
    mend_layout_take(&h.heap, run, hand_address(3) - 512, 1024);
    mend_compact_size size;
    mend_victims_measure(&h.heap, chunk, NULL, &size);
    EXPECT_U64_EQ(1, size.clusters);
    EXPECT_U64_EQ(2 * HAND_PAGE, size.used_bytes);
    EXPECT_U64_EQ(1024, size.copied_bytes);
    EXPECT_U64_EQ((CHUNK_PAGES - 2) * HAND_PAGE, size.gained_bytes);
    hand_close(&h);
}

MEND_TEST(policy_victims, only_what_lies_in_the_chunk_counts)
{
    hand_heap h;
    hand_open(&h);
    hand_chunk(&h, 0, CHUNK_PAGES);
    mend_chunk *right = hand_chunk(&h, CHUNK_PAGES, CHUNK_PAGES);
    hand_take(&h, CHUNK_PAGES - 2, 3);
    mend_compact_size size;
    mend_victims_measure(&h.heap, right, NULL, &size);
    EXPECT_U64_EQ(HAND_PAGE, size.used_bytes);
    EXPECT_U64_EQ(HAND_PAGE, size.copied_bytes);
    hand_close(&h);
}

/* ---- chosen -------------------------------------------------------------------------------------
 */

MEND_TEST(policy_victims, the_one_that_copies_least_for_what_it_gains_comes_first)
{
    hand_heap h;
    mend_chunk *chunks[3];
    open_three(&h, chunks);
    mend_compact_pass pass = begin_pass(&h, (mend_compact_limits){0});
    EXPECT_U64_EQ(3, pass.candidate_count);
    expect_chosen(&pass, chunks[0], MEND_DEFRAG_DONE);
    expect_chosen(&pass, chunks[1], MEND_DEFRAG_DONE);
    expect_chosen(&pass, chunks[2], MEND_DEFRAG_DONE);
    expect_chosen(&pass, NULL, MEND_DEFRAG_DONE);
    end_pass(&h, &pass);
}

MEND_TEST(policy_victims, full_empty_and_busy_chunks_are_none)
{
    hand_heap h;
    hand_open(&h);
    hand_chunk(&h, 0, CHUNK_PAGES); /* empty */
    hand_chunk(&h, 10, CHUNK_PAGES);
    hand_take(&h, 10, CHUNK_PAGES); /* full */
    mend_chunk *busy = hand_chunk(&h, 20, CHUNK_PAGES);
    hand_take(&h, 20, 1);
    hand_take(&h, 21, 1);
    hand_free(&h, 21, FIRST); /* what is free in it is not idle */
    EXPECT_FALSE(mend_victims_may_move(&h.heap, busy));
    mend_compact_pass pass = begin_pass(&h, (mend_compact_limits){0});
    EXPECT_U64_EQ(0, pass.candidate_count);
    free(pass.candidates);
    hand_pass(&h, FIRST);
    pass = begin_pass(&h, (mend_compact_limits){0});
    EXPECT_U64_EQ(1, pass.candidate_count);
    expect_chosen(&pass, busy, MEND_DEFRAG_DONE);
    end_pass(&h, &pass);
}

MEND_TEST(policy_victims, one_that_became_empty_meanwhile_is_passed_over)
{
    hand_heap h;
    mend_chunk *chunks[3];
    open_three(&h, chunks);
    mend_compact_pass pass = begin_pass(&h, (mend_compact_limits){0});
    hand_free(&h, 0, MEND_STREAM_UNKNOWN);
    expect_chosen(&pass, chunks[1], MEND_DEFRAG_DONE);
    end_pass(&h, &pass);
}

MEND_TEST(policy_victims, each_limit_ends_a_pass_by_its_name)
{
    enum { CALLS_OF_ONE = 11 }; /* of a compaction with one cluster */
    static const struct {
        mend_compact_limits limits;
        int chosen;
        mend_defrag_stop stop;
    } rows[] = {
        {{.copied_bytes = HAND_PAGE}, 1, MEND_DEFRAG_BYTES},
        {{.copied_bytes = HAND_PAGE - 1}, 0, MEND_DEFRAG_BYTES},
        {{.driver_calls = CALLS_OF_ONE}, 3, MEND_DEFRAG_DONE},
        {{.driver_calls = CALLS_OF_ONE - 1}, 0, MEND_DEFRAG_CALLS},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hand_heap h;
        mend_chunk *chunks[3];
        open_three(&h, chunks);
        mend_compact_pass pass = begin_pass(&h, rows[i].limits);
        for (int j = 0; j < rows[i].chosen; j++) {
            expect_chosen(&pass, chunks[j], MEND_DEFRAG_DONE);
        }
        expect_chosen(&pass, NULL, rows[i].stop);
        end_pass(&h, &pass);
    }
}

MEND_TEST(policy_victims, time_and_room_end_a_pass_as_well)
{
    hand_heap h;
    mend_chunk *chunks[3];
    open_three(&h, chunks);
    mend_compact_pass pass = begin_pass(&h, (mend_compact_limits){.duration_ns = 100});
    EXPECT_PTR_EQ(NULL, mend_victims_choose(&pass, UINT64_MAX, 101));
    EXPECT_INT_EQ(MEND_DEFRAG_TIME, pass.stop);
    h.heap.config.limit_bytes = h.heap.chunks.reserved_bytes; /* no page to copy to */
    EXPECT_PTR_EQ(NULL, mend_victims_choose(&pass, UINT64_MAX, 100));
    EXPECT_INT_EQ(MEND_DEFRAG_NO_ROOM, pass.stop);
    h.heap.config.limit_bytes += HAND_PAGE; /* enough for the first alone */
    EXPECT_PTR_EQ(chunks[0], mend_victims_choose(&pass, UINT64_MAX, 100));
    EXPECT_PTR_EQ(NULL, mend_victims_choose(&pass, UINT64_MAX, 100));
    EXPECT_INT_EQ(MEND_DEFRAG_NO_ROOM, pass.stop);
    end_pass(&h, &pass);
}
