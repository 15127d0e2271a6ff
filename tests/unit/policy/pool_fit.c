/* Near the limit memory counts more than calls: chunks stay whole, creations are exact. */
#include "tests/support/kit.h"

enum { BLOCKS = 13 };

/* A pool with 39 MiB reserved, of 64 or of 512, in which a whole chunk of 1 MiB lies free between
 * live blocks, and elsewhere half a chunk beside a whole one. */
typedef struct fit_world {
    mend_world w;
    void *blocks[BLOCKS];
    void *more[2];
} fit_world;

static bool open_fit_world(fit_world *f, uint64_t device_bytes)
{
    mend_world_init(&f->w);
    f->w.sim_config.memory_bytes = device_bytes;
    if (!kit_open(&f->w)) {
        return false;
    }
    mend_pool *pool = f->w.pool;
    for (int i = 0; i < BLOCKS; i++) {
        EXPECT_RESULT(MEND_OK, mend_alloc(pool, 3 * MEND_MIB, NULL, &f->blocks[i]));
    }
    EXPECT_RESULT(MEND_OK, mend_free(pool, f->blocks[4], NULL));
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, 2 * MEND_MIB, NULL, &f->more[0]));
    EXPECT_RESULT(MEND_OK, mend_free(pool, f->blocks[8], NULL));
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, 1536 * MEND_KIB, NULL, &f->more[1]));
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

MEND_TEST(pool_fit, near_the_limit_a_whole_chunk_is_spared)
{
    fit_world f;
    ASSERT_TRUE(open_fit_world(&f, 64 * MEND_MIB));
    EXPECT_U64_EQ(2 * MEND_MIB, whole_bytes_after_half_a_chunk(&f));
    kit_close(&f.w);
}

MEND_TEST(pool_fit, while_memory_is_ample_the_tightest_run_is_taken)
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
    while (before.free_bytes > 0) {
        void *taken;
        ASSERT_RESULT(MEND_OK, mend_alloc(f.w.pool, 512 * MEND_KIB, NULL, &taken));
        before = mend_world_stats(&f.w);
    }
    void *pointer;
    ASSERT_RESULT(MEND_OK, mend_alloc(f.w.pool, 200 * MEND_KIB, NULL, &pointer));
    mend_stats after = mend_world_stats(&f.w);
    EXPECT_U64_EQ(256 * MEND_KIB, after.reserved_bytes - before.reserved_bytes);
    EXPECT_U64_EQ(before.chunks + 2, after.chunks); /* three pages, and the last one alone */
    kit_close(&f.w);
}

MEND_TEST(pool_fit, while_memory_is_ample_creations_are_usual_chunks)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    void *pointer;
    ASSERT_RESULT(MEND_OK, mend_alloc(w.pool, 100 * MEND_KIB, NULL, &pointer));
    EXPECT_U64_EQ(1 * MEND_MIB, mend_world_stats(&w).reserved_bytes);
    kit_close(&w);
}
