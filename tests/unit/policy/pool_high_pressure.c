/* Under high pressure bytes count: what is created, and where in an open page a block begins. */
#include "tests/support/kit.h"
#include "tests/support/rig.h"

/* A page, a part of it; and so near to the limit of 64 MiB that the pressure is high. */
#define PAGE          (64 * MEND_KIB)
#define PAGE_PARTS(n) (PAGE / 32 * (n))
#define TENTH_OF_ALL  (7 * MEND_MIB)

/* So much is live, and nothing free. 0: as by default. */
static bool open_world(mend_world *w, uint64_t memory_bytes, uint64_t low_percent,
                       uint64_t live_bytes)
{
    mend_world_init(w);
    if (memory_bytes > 0) {
        w->sim_config.memory_bytes = memory_bytes;
        w->sim_config.content = MEND_SIM_CONTENT_NONE;
    }
    if (low_percent > 0) {
        w->placement.low_pressure_percent = low_percent;
    }
    if (memory_bytes > MEND_GIB) {
        w->placement.chunk_bytes = 0; /* as the limit has it */
    }
    bool is_open = kit_open(w);
    if (is_open && live_bytes > 0) {
        kit_alloc(w, live_bytes, NULL);
    }
    return is_open;
}

MEND_TEST(pool_high_pressure, what_a_request_lets_grow)
{
    static const struct {
        uint64_t memory_bytes, low_percent, live_bytes, size_bytes, bytes, chunks;
    } rows[] = {
        /* under low pressure chunks are usual ones up to their size, and exact from there on */
        {0, 0, MEND_MIB, MEND_MIB - PAGE, MEND_MIB, 1},
        {0, 0, 4 * MEND_MIB, MEND_MIB, MEND_MIB, 1},
        {0, 0, 5 * MEND_MIB, MEND_MIB + 1024, MEND_MIB + PAGE, 2}, /* no tail apart */
        {0, 50, TENTH_OF_ALL, 3 * PAGE - 1024, MEND_MIB, 1},
        /* of a large device: of 128 MiB, and of 256 behind what the first left */
        {128 * MEND_GIB, 0, 0, 64 * MEND_MIB - PAGE, 128 * MEND_MIB, 1},
        {128 * MEND_GIB, 0, 64 * MEND_MIB - PAGE, 700 * MEND_MIB + PAGE, 636 * MEND_MIB, 3},
        /* under high pressure the last page is a chunk of its own, and whole pages have no tail */
        {0, 100, TENTH_OF_ALL, 24 * PAGE + 1024, 25 * PAGE, 3},
        {0, 0, TENTH_OF_ALL, 24 * PAGE + 1024, 25 * PAGE, 3},
        {0, 0, TENTH_OF_ALL, 3 * PAGE - 1024, 3 * PAGE, 2},
        {0, 0, TENTH_OF_ALL, 24 * PAGE, 24 * PAGE, 2},
        {0, 0, TENTH_OF_ALL, 3 * PAGE, 3 * PAGE, 1},
        {0, 0, TENTH_OF_ALL, PAGE - 1024, PAGE, 1},
        /* a page of 64 KiB would be next to nothing of 1 GiB: 256 KiB are the smallest there */
        {MEND_GIB, 100, 0, 3 * PAGE, 4 * PAGE, 1},
        {MEND_GIB, 100, 0, 13 * PAGE, 16 * PAGE, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_world w;
        ASSERT_TRUE(open_world(&w, rows[i].memory_bytes, rows[i].low_percent, rows[i].live_bytes));
        mend_stats before = mend_world_stats(&w);
        kit_alloc(&w, rows[i].size_bytes, NULL);
        mend_stats after = mend_world_stats(&w);
        EXPECT_U64_EQ(rows[i].bytes, after.reserved_bytes - before.reserved_bytes);
        EXPECT_U64_EQ(rows[i].chunks, after.chunks - before.chunks);
        kit_close(&w);
    }
}

/* Half a page is open behind a block, and so many parts behind another one, where there is one. A
 * block that ends with a page begins in an open one, behind the smallest gap. */
MEND_TEST(pool_high_pressure, a_block_closes_a_page)
{
    static const struct {
        uint64_t live_bytes, other_parts, parts, alignment_bytes, gap_parts;
    } rows[] = {
        {TENTH_OF_ALL, 0, 13, 512, 3},
        {TENTH_OF_ALL, 0, 12, 512, 0}, /* from an eighth on a gap is too much */
        {TENTH_OF_ALL, 14, 15, 512, 1},
        {TENTH_OF_ALL, 0, 14, PAGE_PARTS(8), 0}, /* none is aligned so behind the gap */
        {0, 0, 13, 512, 0},                      /* under low pressure there is none */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_world w;
        ASSERT_TRUE(open_world(&w, 0, 0, rows[i].live_bytes));
        char *end =
            (char *)kit_alloc(&w, 10 * PAGE + PAGE_PARTS(16), NULL) + 10 * PAGE + PAGE_PARTS(16);
        if (rows[i].other_parts > 0) { /* a block aligned to pages does not begin in one */
            kit_alloc_aligned(&w, 20 * PAGE + PAGE_PARTS(rows[i].other_parts), PAGE, NULL);
        }
        void *block = kit_alloc_aligned(&w, 3 * PAGE + PAGE_PARTS(rows[i].parts),
                                        rows[i].alignment_bytes, NULL);
        EXPECT_PTR_EQ(end + PAGE_PARTS(rows[i].gap_parts), block);
        if (rows[i].gap_parts == 3) { /* small blocks use it */
            EXPECT_U64_EQ(PAGE_PARTS(3), mend_world_stats(&w).free_partial_bytes);
            EXPECT_PTR_EQ(end, kit_alloc(&w, PAGE_PARTS(3), NULL));
            EXPECT_U64_EQ(0, mend_world_stats(&w).free_bytes);
        }
        kit_close(&w);
    }
}
