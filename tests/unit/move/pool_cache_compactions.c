/* The front cache where a compaction fails: nothing is cached beside a chunk that misses its
 * mapping. */
#include "lab/heap/explain.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
#define BLOCK (128 * MEND_KIB)
enum { BLOCKS_OF_CHUNK = 8, CHUNKS = 2, BLOCKS = CHUNKS * BLOCKS_OF_CHUNK };

typedef struct rig {
    mend_world w;
    void *blocks[BLOCKS]; /* side by side, in two full chunks */
} rig;

static void alloc(rig *r, int block)
{
    r->blocks[block] = kit_alloc_written(&r->w, BLOCK, r->w.streams[0]);
}

/* Returns where it was. */
static void *release(rig *r, int block)
{
    void *pointer = r->blocks[block];
    kit_free(&r->w, pointer, r->w.streams[0]);
    r->blocks[block] = NULL;
    return pointer;
}

static bool open_rig(rig *r)
{
    *r = (rig){.blocks = {NULL}};
    if (!kit_open_default(&r->w)) {
        return false;
    }
    kit_free(&r->w, kit_alloc(&r->w, CHUNKS * CHUNK, r->w.streams[0]), r->w.streams[0]);
    for (int i = 0; i < BLOCKS; i++) {
        alloc(r, i);
    }
    return !mend_test_has_failed();
}

static void close_rig(rig *r)
{
    kit_release_row(&r->w, r->blocks, BLOCKS, BLOCK, r->w.streams[0]);
    kit_close(&r->w);
}

static uint64_t cached(rig *r)
{
    return mend_world_stats(&r->w).cached_blocks;
}

/* The driver refuses the mapping of the next chunk that is compacted. */
static void defrag_without_restoring(rig *r, uint64_t clusters)
{
    kit_fail(&r->w, "map", clusters, UINT64_MAX, 999);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_defrag(r->w.pool, NULL, NULL));
    mend_sim_clear_faults(r->w.sim);
    mend_world_check(&r->w);
}

#define CACHE_COMPACTIONS_TEST(suite, name) KIT_CASE(suite, name, rig, r, open_rig(r), close_rig(r))

/* Two free blocks, the first of them cached, end where a chunk begins that misses its mapping. */
CACHE_COMPACTIONS_TEST(pool_cache_compactions,
                       what_misses_its_mapping_is_not_usable_behind_a_cached_block)
{
    mend_explanation explanation;
    for (int i = BLOCKS_OF_CHUNK + 2; i < 2 * BLOCKS_OF_CHUNK; i++) {
        release(r, i);
    }
    defrag_without_restoring(r, 1);
    release(r, BLOCKS_OF_CHUNK);
    release(r, BLOCKS_OF_CHUNK - 1);
    EXPECT_U64_EQ(0, cached(r));
    release(r, BLOCKS_OF_CHUNK - 2);
    EXPECT_U64_EQ(1, cached(r));
    EXPECT_RESULT(MEND_OK, mend_pool_explain(r->w.pool, r->w.streams[0], &explanation));
    EXPECT_U64_EQ(2 * BLOCK, explanation.usable_bytes);
    EXPECT_RESULT(MEND_OK, mend_defrag(r->w.pool, NULL, NULL));
}
