/* Near the limit memory counts more than calls: creations are exact. Far from it the smallest run
 * is taken; policy_fit.c has which chunks stay empty near the limit. */
#include "tests/support/kit.h"

enum { BLOCKS = 13 };

/* A pool with 39 MiB reserved, of 64 or of 512, in which an empty chunk of 1 MiB lies between
 * live blocks, and elsewhere half a chunk beside a whole one. */
typedef struct fit_world {
    mend_world w;
    void *blocks[BLOCKS];
    void *more[2];
} fit_world;

static bool open_fit_world(fit_world *f, uint64_t device_bytes)
{
    if (!kit_open_with(&f->w, device_bytes, NULL)) {
        return false;
    }
    for (int i = 0; i < BLOCKS; i++) {
        f->blocks[i] = kit_alloc(&f->w, 3 * MEND_MIB, NULL);
    }
    kit_free(&f->w, f->blocks[4], NULL);
    f->more[0] = kit_alloc(&f->w, 2 * MEND_MIB, NULL);
    kit_free(&f->w, f->blocks[8], NULL);
    f->more[1] = kit_alloc(&f->w, 1536 * MEND_KIB, NULL);
    mend_stats stats = mend_world_stats(&f->w);
    EXPECT_U64_EQ(39 * MEND_MIB, stats.reserved_bytes);
    EXPECT_U64_EQ(2 * MEND_MIB, stats.free_empty_bytes);
    EXPECT_U64_EQ(512 * MEND_KIB, stats.free_partial_bytes);
    return !mend_test_has_failed();
}

static uint64_t whole_bytes_after_half_a_chunk(fit_world *f)
{
    kit_alloc(&f->w, 512 * MEND_KIB, NULL);
    mend_world_check(&f->w);
    return mend_world_stats(&f->w).free_empty_bytes;
}

MEND_TEST(pool_fit, under_low_pressure_the_smallest_run_is_taken)
{
    fit_world f;
    ASSERT_TRUE(open_fit_world(&f, 512 * MEND_MIB));
    EXPECT_U64_EQ(1 * MEND_MIB, whole_bytes_after_half_a_chunk(&f));
    kit_close(&f.w);
}

MEND_TEST(pool_fit, near_the_limit_creations_are_exact_with_a_tail_of_their_own)
{
    fit_world f;
    ASSERT_TRUE(open_fit_world(&f, 64 * MEND_MIB));
    mend_stats before = mend_world_stats(&f.w);
    while (before.free_bytes > 0 && !mend_test_has_failed()) {
        kit_alloc(&f.w, 512 * MEND_KIB, NULL);
        before = mend_world_stats(&f.w);
    }
    kit_alloc(&f.w, 200 * MEND_KIB, NULL);
    mend_stats after = mend_world_stats(&f.w);
    EXPECT_U64_EQ(256 * MEND_KIB, after.reserved_bytes - before.reserved_bytes);
    EXPECT_U64_EQ(before.chunks + 2, after.chunks); /* three pages, and the last one alone */
    kit_close(&f.w);
}

MEND_TEST(pool_fit, under_low_pressure_creations_are_usual_chunks)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    kit_alloc(&w, 100 * MEND_KIB, NULL);
    EXPECT_U64_EQ(1 * MEND_MIB, mend_world_stats(&w).reserved_bytes);
    kit_close(&w);
}
