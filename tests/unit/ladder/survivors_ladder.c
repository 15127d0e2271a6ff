/* A block that begins in the free end of a chunk begins there where it is aligned. */
#include "tests/support/kit.h"

#define QUARTER (256 * MEND_KIB)

static void configure(mend_world *w)
{
    w->pool_config.limit_bytes = 2 * MEND_MIB;
    w->placement.chunk_bytes = MEND_MIB;
    w->pool_config.front_cache = -1;
}

/* The end is larger than what the memory that may be created lacks. */
MEND_TEST(survivors_ladder, a_part_of_an_end_is_aligned)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, configure));
    const mend_stream stream = w.streams[0];
    kit_free(&w, kit_alloc(&w, 2 * MEND_MIB, stream), stream);
    void *first = kit_alloc(&w, 3 * QUARTER, stream);
    void *end = kit_alloc(&w, QUARTER, stream);
    void *second = kit_alloc(&w, MEND_MIB, stream);
    kit_free(&w, end, stream);
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 2 * MEND_MIB + QUARTER));
    void *block = kit_alloc_aligned(&w, QUARTER + 512, 64 * MEND_KIB, stream);
    EXPECT_U64_EQ(1, mend_world_stats(&w).placed_by_alias);
    EXPECT_U64_EQ(0, (uintptr_t)block % (64 * MEND_KIB));
    kit_write(&w, stream, block, QUARTER + 512);
    kit_verify(&w, stream, block, QUARTER + 512);
    EXPECT_TRUE(mend_world_check(&w));
    kit_free(&w, block, stream);
    kit_free(&w, first, stream);
    kit_free(&w, second, stream);
    kit_close(&w);
}
