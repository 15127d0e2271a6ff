/* compact_when_full: where allocations are quiet points, one that would run out of memory has live
 * blocks moved together first, no more than it needs. */
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
#define BLOCK (128 * MEND_KIB)
enum { BLOCKS_OF_CHUNK = 8, MOST_BLOCKS = 512 };

typedef struct rig {
    mend_world w;
    void *blocks[MOST_BLOCKS];
    int count;
} rig;

static bool open_rig(rig *r, uint64_t memory_bytes, int compact_when_full)
{
    *r = (rig){.count = 0};
    mend_world_init(&r->w);
    r->w.sim_config.memory_bytes = memory_bytes;
    r->w.pool_config.compact_when_full = compact_when_full;
    return kit_open(&r->w);
}

static mend_result try(rig *r, uint64_t size_bytes, void **block)
{
    mend_result result = mend_alloc(r->w.pool, size_bytes, NULL, block);
    if (result == MEND_OK) {
        kit_write(&r->w, NULL, *block, size_bytes);
    }
    mend_world_check(&r->w);
    return result;
}

/* Blocks in all chunks but one, which is kept to copy to; of these one in eight stays. */
static void fill_and_thin_out(rig *r)
{
    void *block;
    EXPECT_RESULT(MEND_OK, try(r, 15 * CHUNK, &block));
    kit_release(&r->w, block, 15 * CHUNK, NULL);
    while (r->count < 15 * BLOCKS_OF_CHUNK && try(r, BLOCK, &block) == MEND_OK) {
        r->blocks[r->count++] = block;
    }
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).compactions);
    for (int i = 0; i < r->count; i++) {
        if (i % BLOCKS_OF_CHUNK != 3) {
            kit_release(&r->w, r->blocks[i], BLOCK, NULL);
            r->blocks[i] = NULL;
        }
    }
}

static void close_rig(rig *r)
{
    kit_release_row(&r->w, r->blocks, r->count, BLOCK, NULL);
    kit_close(&r->w);
}

MEND_TEST(pool_quiet, a_request_is_served_that_would_have_failed)
{
    for (int quiet = 0; quiet <= 1; quiet++) {
        rig r;
        void *block;
        ASSERT_TRUE(open_rig(&r, 16 * CHUNK, quiet));
        fill_and_thin_out(&r);
        EXPECT_RESULT(quiet ? MEND_OK : MEND_ERROR_OUT_OF_MEMORY, try(&r, 8 * CHUNK, &block));
        mend_stats stats = mend_world_stats(&r.w);
        EXPECT_INT_EQ(quiet, stats.compactions > 0);
        if (quiet) {
            kit_release(&r.w, block, 8 * CHUNK, NULL);
        }
        close_rig(&r);
    }
}

/* A request for two chunks has no more chunks freed than it needs. */
MEND_TEST(pool_quiet, no_more_is_copied_than_the_request_needs)
{
    rig r;
    void *block;
    ASSERT_TRUE(open_rig(&r, 16 * CHUNK, 1));
    fill_and_thin_out(&r);
    EXPECT_RESULT(MEND_OK, try(&r, 2 * CHUNK, &block));
    mend_stats stats = mend_world_stats(&r.w);
    EXPECT_TRUE(stats.compactions >= 1 && stats.compactions <= 4);
    EXPECT_U64_EQ(stats.compactions * BLOCK, stats.copied_bytes);
    kit_release(&r.w, block, 2 * CHUNK, NULL);
    close_rig(&r);
}

MEND_TEST(pool_quiet, nothing_is_copied_for_a_hopeless_request)
{
    rig r;
    void *block;
    ASSERT_TRUE(open_rig(&r, 16 * CHUNK, 1));
    fill_and_thin_out(&r);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, try(&r, 16 * CHUNK, &block));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).compactions);
    close_rig(&r);
}

/* What is kept to copy to is the program's all the same, when nothing else is left. */
MEND_TEST(pool_quiet, the_whole_device_can_be_used)
{
    rig r;
    void *block;
    ASSERT_TRUE(open_rig(&r, 16 * CHUNK, 1));
    EXPECT_RESULT(MEND_OK, try(&r, 16 * CHUNK, &block));
    kit_release(&r.w, block, 16 * CHUNK, NULL);
    uint64_t bytes = 0;
    while (r.count < MOST_BLOCKS && try(&r, BLOCK, &block) == MEND_OK) {
        r.blocks[r.count++] = block;
        bytes += BLOCK;
    }
    EXPECT_U64_EQ(16 * CHUNK, bytes);
    close_rig(&r);
}

/* Again and again, each time with what the time before has freed. */
MEND_TEST(pool_quiet, many_rounds_keep_every_byte)
{
    rig r;
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    ASSERT_TRUE(open_rig(&r, 16 * CHUNK, 1));
    fill_and_thin_out(&r);
    void *large[16] = {NULL};
    uint64_t sizes[16] = {0};
    for (int i = 0; i < 300 && !mend_test_has_failed(); i++) {
        uint64_t k = mend_test_random_below(&random, 16);
        if (large[k] != NULL) {
            kit_release(&r.w, large[k], sizes[k], NULL);
            large[k] = NULL;
        }
        sizes[k] = 512 * (1 + mend_test_random_below(&random, 4 * CHUNK / 512));
        mend_result result = try(&r, sizes[k], &large[k]);
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
    }
    EXPECT_TRUE(mend_world_stats(&r.w).compactions > 0);
    for (int k = 0; k < 16; k++) {
        if (large[k] != NULL) {
            kit_release(&r.w, large[k], sizes[k], NULL);
        }
    }
    close_rig(&r);
}

/* While a graph is captured nothing moves, and the request ends as without compactions. */
MEND_TEST(pool_quiet, a_capture_is_left_alone)
{
    rig r;
    void *block;
    mend_stream stream;
    mend_group *group;
    ASSERT_TRUE(open_rig(&r, 16 * CHUNK, 1));
    fill_and_thin_out(&r);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(r.w.sim, &stream));
    EXPECT_RESULT(MEND_OK, mend_group_create(r.w.pool, &group));
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, stream));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(r.w.sim, stream, MEND_SIM_CAPTURE_RELAXED));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(r.w.pool, 8 * CHUNK, NULL, &block));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(r.w.pool, 8 * CHUNK, stream, &block));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(r.w.sim, stream, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r.w).compactions);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, MEND_NO_STREAM));
    EXPECT_RESULT(MEND_OK, try(&r, 8 * CHUNK, &block));
    kit_release(&r.w, block, 8 * CHUNK, NULL);
    close_rig(&r);
}
