/* Under high pressure bytes count: what is created, and where in an open page a block begins. */
#include "tests/support/kit.h"

#define PAGE (64 * MEND_KIB)

/* Of a page, and so near to the limit of 64 MiB that the pressure is high. */
#define PAGE_PARTS(n)        (PAGE / 32 * (n))
#define MOST_OF_LOW_PRESSURE (6 * MEND_MIB)
#define TENTH_OF_ALL         (7 * MEND_MIB)

/* What a request lets grow. */
typedef struct growth {
    uint64_t bytes;
    uint64_t chunks;
} growth;

static growth grow_by(mend_world *w, uint64_t bytes)
{
    mend_stats before = mend_world_stats(w);
    kit_alloc(w, bytes, NULL);
    mend_stats after = mend_world_stats(w);
    return (growth){after.reserved_bytes - before.reserved_bytes, after.chunks - before.chunks};
}

static void expect_growth(mend_world *w, uint64_t request_bytes, uint64_t bytes, uint64_t chunks)
{
    growth is = grow_by(w, request_bytes);
    EXPECT_U64_EQ(bytes, is.bytes);
    EXPECT_U64_EQ(chunks, is.chunks);
}

/* A world in which so much is reserved and live, and nothing free. */
static bool open_with(mend_world *w, uint64_t live_bytes)
{
    if (!kit_open_default(w)) {
        return false;
    }
    kit_alloc(w, live_bytes, NULL);
    return !mend_test_has_failed();
}

MEND_TEST(pool_high_pressure, under_low_pressure_requests_below_a_usual_chunk_share_one)
{
    mend_world w;
    ASSERT_TRUE(open_with(&w, 1 * MEND_MIB));
    expect_growth(&w, 1 * MEND_MIB - PAGE, 1 * MEND_MIB, 1);
    kit_close(&w);
}

MEND_TEST(pool_high_pressure, under_low_pressure_chunks_are_exact_from_a_usual_one_on)
{
    mend_world w;
    ASSERT_TRUE(open_with(&w, MOST_OF_LOW_PRESSURE - 2 * MEND_MIB));
    expect_growth(&w, 1 * MEND_MIB, 1 * MEND_MIB, 1);
    expect_growth(&w, 1024 * MEND_KIB + 1024, 1088 * MEND_KIB, 2); /* no tail apart */
    kit_close(&w);
}

/* Several share a chunk of 128 MiB, and what one request lacks is created in chunks of 256 MiB. */
MEND_TEST(pool_high_pressure, on_a_large_device_under_low_pressure_chunks_are_of_128_or_256_mib)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.memory_bytes = 128 * MEND_GIB;
    w.sim_config.content = MEND_SIM_CONTENT_NONE;
    w.placement.chunk_bytes = 0;
    ASSERT_TRUE(kit_open(&w));
    expect_growth(&w, 64 * MEND_MIB - PAGE, 128 * MEND_MIB, 1);
    expect_growth(&w, 700 * MEND_MIB + PAGE, 636 * MEND_MIB, 3); /* behind what the first left */
    kit_close(&w);
}

MEND_TEST(pool_high_pressure, pressure_is_low_as_long_as_the_placement_says)
{
    mend_world w;
    mend_world_init(&w);
    w.placement.low_pressure_percent = 50;
    ASSERT_TRUE(kit_open(&w));
    kit_alloc(&w, TENTH_OF_ALL, NULL);
    expect_growth(&w, 3 * PAGE - 1024, 1 * MEND_MIB, 1);
    kit_close(&w);
    mend_world_init(&w);
    w.placement.low_pressure_percent = 100;
    ASSERT_TRUE(kit_open(&w));
    expect_growth(&w, 24 * PAGE + 1024, 25 * PAGE, 3);
    kit_close(&w);
}

MEND_TEST(pool_high_pressure, the_last_page_is_a_chunk_of_its_own)
{
    mend_world w;
    ASSERT_TRUE(open_with(&w, TENTH_OF_ALL));
    expect_growth(&w, 3 * PAGE - 1024, 3 * PAGE, 2);
    kit_close(&w);
    ASSERT_TRUE(open_with(&w, TENTH_OF_ALL));
    expect_growth(&w, 24 * PAGE + 1024, 25 * PAGE, 3); /* a usual one, eight pages, and one */
    kit_close(&w);
}

MEND_TEST(pool_high_pressure, whole_pages_have_no_tail)
{
    mend_world w;
    ASSERT_TRUE(open_with(&w, TENTH_OF_ALL));
    expect_growth(&w, 24 * PAGE, 24 * PAGE, 2);
    expect_growth(&w, 3 * PAGE, 3 * PAGE, 1);
    expect_growth(&w, PAGE - 1024, PAGE, 1);
    kit_close(&w);
}

/* A page of 64 KiB would be next to nothing of 1 GiB: 256 KiB are the smallest that is created. */
MEND_TEST(pool_high_pressure, pages_grow_with_the_limit)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.memory_bytes = 1 * MEND_GIB;
    w.placement.low_pressure_percent = 100;
    ASSERT_TRUE(kit_open(&w));
    expect_growth(&w, 3 * PAGE, 4 * PAGE, 1);
    kit_close(&w);
    ASSERT_TRUE(kit_open(&w));
    expect_growth(&w, 13 * PAGE, 16 * PAGE, 2);
    kit_close(&w);
}

/* ---- a block that closes a page -----------------------------------------------------------------
 */

/* A world under high pressure with a block of `parts` sixteenths of a page behind ten pages: the
 * rest of its last page is open. */
static bool open_page(mend_world *w, uint64_t parts, uint64_t *end)
{
    if (!open_with(w, TENTH_OF_ALL)) {
        return false;
    }
    uint64_t bytes = 10 * PAGE + PAGE_PARTS(parts);
    *end = (uint64_t)(uintptr_t)kit_alloc(w, bytes, NULL) + bytes;
    return !mend_test_has_failed();
}

/* Another open page in the same world: a block aligned to pages does not begin in one. */
static uint64_t open_another(mend_world *w, uint64_t parts)
{
    uint64_t bytes = 20 * PAGE + PAGE_PARTS(parts);
    void *pointer = kit_alloc_aligned(w, bytes, PAGE, NULL);
    return (uint64_t)(uintptr_t)pointer + bytes;
}

static uint64_t address_of(mend_world *w, uint64_t bytes)
{
    return (uint64_t)(uintptr_t)kit_alloc(w, bytes, NULL);
}

MEND_TEST(pool_high_pressure, a_block_that_ends_with_a_page_begins_in_an_open_one)
{
    mend_world w;
    uint64_t end;
    ASSERT_TRUE(open_page(&w, 16, &end));
    mend_stats before = mend_world_stats(&w);
    EXPECT_U64_EQ(end + PAGE_PARTS(3), address_of(&w, 3 * PAGE + PAGE_PARTS(13)));
    mend_stats after = mend_world_stats(&w);
    EXPECT_U64_EQ(3 * PAGE, after.reserved_bytes - before.reserved_bytes);
    EXPECT_U64_EQ(before.placed_by_extension + 1, after.placed_by_extension);
    EXPECT_U64_EQ(PAGE_PARTS(3), after.free_partial_bytes);
    kit_close(&w);
}

MEND_TEST(pool_high_pressure, small_blocks_use_the_gap)
{
    mend_world w;
    uint64_t end;
    ASSERT_TRUE(open_page(&w, 16, &end));
    EXPECT_U64_EQ(end + PAGE_PARTS(3), address_of(&w, 3 * PAGE + PAGE_PARTS(13)));
    EXPECT_U64_EQ(end, address_of(&w, PAGE_PARTS(3)));
    EXPECT_U64_EQ(0, mend_world_stats(&w).free_bytes);
    kit_close(&w);
}

/* From an eighth of a page on it is too much: the block begins at once, and leaves a page open. */
MEND_TEST(pool_high_pressure, a_gap_is_less_than_an_eighth_of_a_page)
{
    mend_world w;
    uint64_t end;
    ASSERT_TRUE(open_page(&w, 16, &end));
    EXPECT_U64_EQ(end, address_of(&w, 3 * PAGE + PAGE_PARTS(12)));
    kit_close(&w);
}

MEND_TEST(pool_high_pressure, the_smallest_gap_is_chosen)
{
    mend_world w;
    uint64_t end;
    ASSERT_TRUE(open_page(&w, 16, &end));
    EXPECT_TRUE(open_another(&w, 14) != end);
    EXPECT_U64_EQ(end + PAGE_PARTS(1), address_of(&w, 3 * PAGE + PAGE_PARTS(15)));
    kit_close(&w);
}

/* Where an alignment does not let a block begin behind the gap, it begins before. */
MEND_TEST(pool_high_pressure, a_block_behind_a_gap_is_aligned)
{
    mend_world w;
    uint64_t end;
    void *pointer;
    ASSERT_TRUE(open_page(&w, 16, &end));
    pointer = kit_alloc_aligned(&w, 3 * PAGE + PAGE_PARTS(14), PAGE_PARTS(8), NULL);
    EXPECT_U64_EQ(end, (uint64_t)(uintptr_t)pointer);
    kit_close(&w);
}

MEND_TEST(pool_high_pressure, under_low_pressure_no_gap_is_left)
{
    mend_world w;
    uint64_t bytes = 10 * PAGE + PAGE_PARTS(16);
    ASSERT_TRUE(kit_open_default(&w));
    uint64_t end = address_of(&w, bytes) + bytes;
    EXPECT_U64_EQ(end, address_of(&w, 3 * PAGE + PAGE_PARTS(13)));
    kit_close(&w);
}
