/* Chunks that move: memory that waits for streams keeps its waits, at the new place as at the
 * old. */
#include "tests/support/kit.h"

/* Blocks of one chunk each, side by side. */
static void allocate_row(mend_world *w, void **blocks, uint64_t count)
{
    kit_free(w, kit_alloc(w, count * MEND_MIB, S(0)), S(0));
    kit_alloc_row(w, blocks, count, MEND_MIB, S(0));
    EXPECT_U64_EQ((uintptr_t)blocks[0] + (count - 1) * MEND_MIB, (uintptr_t)blocks[count - 1]);
}

#define MOVES_TEST(suite, name, ...)                                                               \
    KIT_CASE(suite, name, mend_world, w, kit_open_allowing(w, __VA_ARGS__), kit_close(w))

MOVES_TEST(pool_moves, what_is_left_of_a_moved_chunk_waits_for_its_user, 5 * MEND_MIB, -1)
{
    void *row[4];
    allocate_row(w, row, 4);
    for (int i = 0; i < 4; i += 2) {
        kit_use(w, w->streams[0], row[i], MEND_MIB, 1000);
        kit_free(w, row[i], w->streams[0]);
    }
    (void)kit_alloc(w, MEND_MIB + MEND_MIB / 2, w->streams[0]);
    EXPECT_U64_EQ(2, mend_world_stats(w).chunks_moved);
    /* longer than those before it */
    kit_alloc_used(w, MEND_MIB / 2, w->streams[1], 5000);
}

/* All of the limit is reserved, and less is used: the rest serves the next request in place.
 */
MOVES_TEST(pool_moves, the_largest_runs_stay_whole, 16 * MEND_MIB, -1)
{
    static const int freed[] = {1, 2, 3, 5, 7, 9, 11, 13, 14};
    void *row[16];
    allocate_row(w, row, 16);
    for (size_t i = 0; i < sizeof(freed) / sizeof(*freed); i++) {
        kit_free(w, row[freed[i]], w->streams[0]);
    }
    (void)kit_alloc(w, 4 * MEND_MIB, w->streams[0]);
    EXPECT_PTR_EQ(row[1], kit_alloc(w, 3 * MEND_MIB, w->streams[0]));
    EXPECT_PTR_EQ(row[13], kit_alloc(w, 2 * MEND_MIB, w->streams[0]));
    EXPECT_U64_EQ(4, mend_world_stats(w).chunks_moved);
}

/* One of three blocks is replaced by one of another size, again and again. */
MOVES_TEST(pool_moves, a_program_that_would_move_chunks_for_ever_has_more_created_instead,
           512 * MEND_MIB, -1)
{
    enum { LIVE = 3, SIZES = 7, ROUNDS = 500 };
    void *blocks[LIVE] = {0};
    uint64_t moved[2] = {0};
    uint32_t random = 3;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        random = random * 1103515245 + 12345;
        void **block = &blocks[(random >> 16) % LIVE];
        if (*block != NULL) {
            kit_free(w, *block, w->streams[0]);
        }
        *block = kit_alloc(w, (MEND_MIB << (random >> 20) % SIZES) + (random >> 24) * 4096,
                           w->streams[0]);
        moved[i / ROUNDS] = mend_world_stats(w).chunks_moved;
    }
    EXPECT_U64_EQ(moved[0], moved[1]);
    EXPECT_TRUE(mend_world_stats(w).moves_avoided > 0);
}

MOVES_TEST(pool_moves, of_two_old_mappings_side_by_side_only_the_idle_one_is_unmapped, 4 * MEND_MIB,
           1)
{
    void *row[3];
    allocate_row(w, row, 3);
    kit_use(w, w->streams[0], row[0], MEND_MIB, 500);
    kit_free(w, row[0], w->streams[0]);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL)); /* records fences */
    kit_use(w, w->streams[1], row[1], MEND_MIB, 2000);
    kit_free(w, row[1], w->streams[1]);
    (void)kit_alloc(w, 3 * MEND_MIB, w->streams[0]);
    EXPECT_U64_EQ(2 * MEND_MIB, mend_world_stats(w).retired_bytes);
    mend_sim_advance(w->sim, 1000);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(w).retired_bytes);
}
