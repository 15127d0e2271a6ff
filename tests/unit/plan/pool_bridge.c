/*
 * Once the limit forbids creations, a large block lies over several free runs and the gaps between
 * them, so that only the gaps need chunks. Blocks of one chunk each fill the pool, side by side.
 */
#include "tests/support/kit.h"

enum { ROW = 16 };

typedef struct row {
    mend_world w;
    void *blocks[ROW];
} row;

static void release(row *r, int from, int end)
{
    kit_free_row(&r->w, &r->blocks[from], (size_t)(end - from), r->w.streams[0]);
}

/* Moves two chunks away, so that nothing is mapped at their places: nothing can be created then. */
static bool open_with_gaps(row *r, uint64_t limit_mib)
{
    if (!kit_open_allowing(&r->w, limit_mib * MEND_MIB, -1)) {
        return false;
    }
    kit_free(&r->w, kit_alloc(&r->w, ROW * MEND_MIB, r->w.streams[0]), r->w.streams[0]);
    kit_alloc_row(&r->w, r->blocks, ROW, MEND_MIB, r->w.streams[0]);
    release(r, 8, 9);
    release(r, 10, 11);
    EXPECT_RESULT(MEND_OK, mend_set_limit(r->w.pool, ROW * MEND_MIB));
    (void)kit_alloc(&r->w, 2 * MEND_MIB, r->w.streams[0]);
    EXPECT_U64_EQ(2, mend_world_stats(&r->w).chunks_moved);
    EXPECT_RESULT(MEND_OK, mend_trim(r->w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).retired_bytes);
    EXPECT_RESULT(MEND_OK, mend_set_limit(r->w.pool, limit_mib * MEND_MIB));
    return !mend_test_has_failed();
}

#define GAPS_TEST(name, limit_mib)                                                                 \
    KIT_CASE(pool_bridge, name, row, r, open_with_gaps(r, limit_mib), kit_close(&r->w))

static void *request(row *r, uint64_t mib)
{
    return kit_alloc(&r->w, mib * MEND_MIB, r->w.streams[0]);
}

/* The gap at block 8 needs one chunk, where the plan would move two. While creations are possible,
 * nothing is joined. */
KIT_RIG_EACH(pool_bridge, only_the_gap_between_runs_is_filled, int, has_room, 2, row, r,
             open_with_gaps(r, has_room ? 24 : 16), kit_close(&r->w))
{
    release(r, 6, 8);
    release(r, 9, 10);
    release(r, 12, 13);
    EXPECT_INT_EQ(!has_room, r->blocks[6] == request(r, 4));
    EXPECT_STATS(&r->w, chunks_moved, has_room ? 2 : 3, placed_by_extension, !has_room);
}

GAPS_TEST(what_another_stream_uses_is_no_part_of_it, 17)
{
    release(r, 6, 8);
    kit_use(&r->w, r->w.streams[1], r->blocks[9], MEND_MIB, 1000);
    kit_free(&r->w, r->blocks[9], r->w.streams[1]);
    release(r, 12, 14);
    EXPECT_TRUE(r->blocks[6] != request(r, 4));
    EXPECT_U64_EQ(6, mend_world_stats(&r->w).chunks_moved);
}

/* Either gap needs one chunk. */
GAPS_TEST(of_two_gaps_that_behind_the_larger_run_is_filled, 16)
{
    release(r, 5, 8);
    release(r, 9, 10);
    release(r, 11, 14);
    EXPECT_TRUE(r->blocks[5] == request(r, 5));
    EXPECT_U64_EQ(3, mend_world_stats(&r->w).chunks_moved);
}

/* The second half of block 9 stays, and has no tag: blocks with a tag lie in none of its memory. */
GAPS_TEST(memory_beside_other_sleep_tags_is_no_part_of_it, 16)
{
    release(r, 6, 8);
    release(r, 9, 10);
    release(r, 12, 14);
    void *stays = (char *)r->blocks[9] + MEND_MIB / 2;
    stays = kit_alloc_with(&r->w, MEND_MIB / 2, r->w.streams[0], .address = stays);
    KIT_THREAD(.sleep_tag = 1);
    EXPECT_TRUE(r->blocks[6] != kit_alloc(&r->w, 7 * MEND_MIB / 2, r->w.streams[0]));
    EXPECT_U64_EQ(6, mend_world_stats(&r->w).chunks_moved);
    EXPECT_OK(mend_set_alloc_options(NULL, NULL));
}
