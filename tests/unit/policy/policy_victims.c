/* Which partly used chunk a compaction empties, on heaps made by hand: what it costs, what it
 * gains, which is the best, and why a pass stops. */
#include "policy/victims.h"

#include <stdlib.h>

#include "tests/support/hand_heap.h"
#include "tests/support/rig.h"
#include "tests/support/test.h"

enum { CHUNK_PAGES = 8, FIRST = 1 };

/* Three chunks, apart from each other, with one, three and five live pages at their beginnings; and
 * a pass over them. */
typedef struct rig {
    hand_heap h;
    mend_chunk *chunks[3];
    mend_compact_pass pass;
} rig;

static void begin_pass(rig *r, mend_compact_limits limits)
{
    free(r->pass.candidates);
    r->pass = (mend_compact_pass){.heap = &r->h.heap, .limits = limits};
    EXPECT_TRUE(mend_victims_find(&r->pass));
}

static bool open_rig(rig *r, mend_compact_limits limits)
{
    hand_open(&r->h);
    r->pass.candidates = NULL;
    for (uint64_t i = 0; i < 3; i++) {
        r->chunks[i] = hand_chunk(&r->h, 10 * i, CHUNK_PAGES);
        hand_take(&r->h, 10 * i, 1 + 2 * i);
    }
    begin_pass(r, limits);
    return true;
}

static void close_rig(rig *r)
{
    free(r->pass.candidates);
    hand_close(&r->h);
}

#define VICTIMS_TEST(suite, name)                                                                  \
    RIG_TEST(suite, name, rig, r, open_rig(r, (mend_compact_limits){0}), close_rig(r))

/* Chosen is a chunk, or none for a reason. */
static void expect_chosen(rig *r, uint64_t now_ns, const mend_chunk *chunk, mend_defrag_stop stop)
{
    EXPECT_PTR_EQ(chunk, mend_victims_choose(&r->pass, UINT64_MAX, now_ns));
    EXPECT_INT_EQ(chunk == NULL ? stop : r->pass.stop, r->pass.stop);
}

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
        mend_cluster clusters[CHUNK_PAGES];
        mend_compact_size size;
        hand_open(&h);
        mend_chunk *chunk = hand_chunk(&h, 0, CHUNK_PAGES);
        for (int j = 0; j < 3 && rows[i].pages[j] > 0; j++) {
            hand_take(&h, rows[i].page[j], rows[i].pages[j]);
        }
        mend_victims_measure(&h.heap, chunk, clusters, &size);
        EXPECT_U64_EQ(rows[i].clusters, size.clusters);
        EXPECT_U64_EQ(rows[i].used_pages * HAND_PAGE, size.used_bytes);
        EXPECT_U64_EQ(rows[i].used_pages * HAND_PAGE, size.copied_bytes);
        EXPECT_U64_EQ((CHUNK_PAGES - rows[i].used_pages) * HAND_PAGE, size.gained_bytes);
        EXPECT_U64_EQ(hand_address(rows[i].page[0]), clusters[0].address);
        hand_close(&h);
    }
}

/* A page that a block touches is needed; its live bytes alone are copied, and only what lies in the
 * chunk counts. */
HAND_TEST(policy_victims, a_block_needs_each_page_that_it_touches, "")
{
    mend_compact_size size;
    mend_chunk *left = hand_chunk(h, 0, CHUNK_PAGES);
    mend_chunk *right = hand_chunk(h, CHUNK_PAGES, CHUNK_PAGES);
    mend_run *run = mend_layout_run_at(&h->heap.zones[MEND_ZONE_LARGE], hand_address(0));
    mend_layout_take(&h->heap, run, hand_address(3) - 512, 1024);
    mend_victims_measure(&h->heap, left, NULL, &size);
    EXPECT_U64_EQ(1, size.clusters);
    EXPECT_U64_EQ(2 * HAND_PAGE, size.used_bytes);
    EXPECT_U64_EQ(1024, size.copied_bytes);
    EXPECT_U64_EQ((CHUNK_PAGES - 2) * HAND_PAGE, size.gained_bytes);
    hand_take(h, CHUNK_PAGES - 2, 3);
    mend_victims_measure(&h->heap, right, NULL, &size);
    EXPECT_U64_EQ(HAND_PAGE, size.used_bytes);
    EXPECT_U64_EQ(HAND_PAGE, size.copied_bytes);
}

VICTIMS_TEST(policy_victims, the_one_that_copies_least_for_what_it_gains_comes_first)
{
    EXPECT_U64_EQ(3, r->pass.candidate_count);
    for (int i = 0; i < 3; i++) {
        expect_chosen(r, 0, r->chunks[i], MEND_DEFRAG_DONE);
    }
    expect_chosen(r, 0, NULL, MEND_DEFRAG_DONE);
    begin_pass(r, (mend_compact_limits){0});
    hand_free(&r->h, 0, MEND_STREAM_UNKNOWN); /* one that became empty meanwhile */
    expect_chosen(r, 0, r->chunks[1], MEND_DEFRAG_DONE);
}

VICTIMS_TEST(policy_victims, full_empty_and_busy_chunks_are_none)
{
    hand_free(&r->h, 0, MEND_STREAM_UNKNOWN); /* empty */
    hand_take(&r->h, 13, CHUNK_PAGES - 3);    /* full */
    hand_free(&r->h, 20, FIRST);              /* what is free in it is not idle */
    hand_take(&r->h, 27, 1);
    EXPECT_FALSE(mend_victims_may_move(&r->h.heap, r->chunks[2]));
    begin_pass(r, (mend_compact_limits){0});
    EXPECT_U64_EQ(0, r->pass.candidate_count);
    hand_pass(&r->h, FIRST);
    begin_pass(r, (mend_compact_limits){0});
    EXPECT_U64_EQ(1, r->pass.candidate_count);
    expect_chosen(r, 0, r->chunks[2], MEND_DEFRAG_DONE);
}

MEND_TEST(policy_victims, each_limit_ends_a_pass_by_its_name)
{
    enum { CALLS_OF_ONE = 11 }; /* of a compaction with one cluster */
    static const struct {
        mend_compact_limits limits;
        uint64_t now_ns;
        int chosen;
        mend_defrag_stop stop;
    } rows[] = {
        {{.copied_bytes = HAND_PAGE}, 0, 1, MEND_DEFRAG_BYTES},
        {{.copied_bytes = HAND_PAGE - 1}, 0, 0, MEND_DEFRAG_BYTES},
        {{.driver_calls = CALLS_OF_ONE}, 0, 3, MEND_DEFRAG_DONE},
        {{.driver_calls = CALLS_OF_ONE - 1}, 0, 0, MEND_DEFRAG_CALLS},
        {{.duration_ns = 100}, 100, 3, MEND_DEFRAG_DONE},
        {{.duration_ns = 100}, 101, 0, MEND_DEFRAG_TIME},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig r;
        open_rig(&r, rows[i].limits);
        for (int j = 0; j < rows[i].chosen; j++) {
            expect_chosen(&r, rows[i].now_ns, r.chunks[j], MEND_DEFRAG_DONE);
        }
        expect_chosen(&r, rows[i].now_ns, NULL, rows[i].stop);
        close_rig(&r);
    }
}

VICTIMS_TEST(policy_victims, room_ends_a_pass_as_well)
{
    r->h.heap.config.limit_bytes = r->h.heap.chunks.reserved_bytes; /* no page to copy to */
    expect_chosen(r, 0, NULL, MEND_DEFRAG_NO_ROOM);
    r->h.heap.config.limit_bytes += HAND_PAGE; /* enough for the first alone */
    expect_chosen(r, 0, r->chunks[0], MEND_DEFRAG_DONE);
    expect_chosen(r, 0, NULL, MEND_DEFRAG_NO_ROOM);
}
