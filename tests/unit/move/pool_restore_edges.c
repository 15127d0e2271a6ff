/* A block that reaches over the edge of a chunk which a compaction could not map again: what it
 * leaves when it is freed is free memory outside of that chunk, and nobody's inside. */
#include "pool/pool.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
#define PART  (128 * MEND_KIB) /* of the block, in each of two chunks */

/* Which chunk is compacted: the one that holds the beginning of the block, or its end. */
typedef enum side { COMPACTED_BEFORE, COMPACTED_BEHIND, SIDES } side;

typedef struct rig {
    mend_world w;
    void *block; /* over the edge; all else beside it in these chunks is free or `rest` */
    void *rest;  /* fills what the chunk that is not compacted has left */
} rig;

static void refuse_maps(rig *r, uint64_t after_calls)
{
    kit_fail(&r->w, "map", after_calls, UINT64_MAX, 999);
}

/* Two chunks side by side, the block over their edge; a pass of compactions loses the mapping of
 * one. */
static bool open_rig(rig *r, side which)
{
    *r = (rig){.block = NULL};
    if (!kit_open_with(&r->w, 8 * CHUNK, NULL)) {
        return false;
    }
    kit_free(&r->w, kit_alloc(&r->w, 2 * CHUNK, NULL), NULL);
    void *before = kit_alloc(&r->w, CHUNK - PART, NULL);
    r->block = kit_alloc(&r->w, 2 * PART, NULL);
    void *behind = kit_alloc(&r->w, CHUNK - PART, NULL);
    EXPECT_TRUE((char *)r->block == (char *)before + CHUNK - PART);
    EXPECT_TRUE((char *)behind == (char *)r->block + 2 * PART);
    kit_free(&r->w, which == COMPACTED_BEFORE ? before : behind, NULL);
    r->rest = which == COMPACTED_BEFORE ? behind : before;
    refuse_maps(r, 1); /* the first one is of the copy */
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_defrag(r->w.pool, NULL, NULL));
    EXPECT_U64_EQ(1, mend_world_stats(&r->w).unmapped_blocks);
    mend_world_check(&r->w);
    return true;
}

static void close_rig(rig *r)
{
    mend_sim_clear_faults(r->w.sim);
    EXPECT_RESULT(MEND_OK, mend_trim(r->w.pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).reserved_bytes);
    kit_close(&r->w);
}

/* All that lay in these chunks is freed, in either order. */
static void free_both(rig *r, int block_first)
{
    kit_free(&r->w, block_first ? r->block : r->rest, NULL);
    mend_world_check(&r->w);
    kit_free(&r->w, block_first ? r->rest : r->block, NULL);
    mend_world_check(&r->w);
}

/* A move that the driver refuses puts the chunk beside the lost one back to its place. */
MEND_TEST(pool_restore_edges, a_chunk_that_comes_back_is_a_neighbour_again)
{
    for (int i = 0; i < SIDES; i++) {
        rig r;
        void *none = NULL;
        ASSERT_TRUE(open_rig(&r, (side)i));
        free_both(&r, 0);
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(r.w.pool, 2 * CHUNK, NULL, &none));
        mend_sim_clear_faults(r.w.sim);
        EXPECT_RESULT(MEND_OK, mend_trim(r.w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
        EXPECT_U64_EQ(1, r.w.pool->heap.zones[MEND_ZONE_LARGE].segment_ends.count);
        close_rig(&r);
    }
}
