/* mend_defrag while others free what was to be moved: what they have changed is left alone. */
#include <string.h>

#include "pool/pool.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
#define BLOCK (512 * MEND_KIB)
enum { CHUNKS = 4 };

/* Full to the limit: chunks of which half is live, and an empty one. What is free in the last
 * of the others touches none of what is free before it. */
typedef struct rig {
    mend_world w;
    void *blocks[CHUNKS]; /* the live ones */
    const char *call;     /* in the first such call of the driver the next ones are freed */
    bool frees[CHUNKS];
} rig;

static bool open_rig(rig *r)
{
    void *halves[CHUNKS][2];
    *r = (rig){.call = ""};
    if (!kit_open_with(&r->w, (CHUNKS + 1) * CHUNK, NULL)) {
        return false;
    }
    kit_free(&r->w, kit_alloc(&r->w, (CHUNKS + 1) * CHUNK, NULL), NULL);
    for (int i = 0; i < CHUNKS; i++) {
        halves[i][0] = kit_alloc(&r->w, BLOCK, NULL);
        halves[i][1] = kit_alloc(&r->w, BLOCK, NULL);
    }
    for (int i = 0; i < CHUNKS; i++) {
        int live = i < CHUNKS - 1;
        r->blocks[i] = halves[i][live];
        kit_free(&r->w, halves[i][1 - live], NULL);
    }
    mend_stats stats = mend_world_stats(&r->w);
    EXPECT_U64_EQ((CHUNKS + 1) * CHUNK, stats.reserved_bytes);
    EXPECT_U64_EQ(CHUNK, stats.free_empty_bytes);
    return mend_world_check(&r->w);
}

static void close_rig(rig *r)
{
    for (int i = 0; i < CHUNKS; i++) {
        kit_free(&r->w, r->blocks[i], NULL);
    }
    kit_close(&r->w);
}

/* As another thread would, while the driver is busy and the pool can be used. */
static void free_meanwhile(void *context, const char *call, int is_after)
{
    rig *r = context;
    if (is_after || strcmp(call, r->call) != 0) {
        return;
    }
    r->call = "";
    for (int i = 0; i < CHUNKS; i++) {
        if (r->frees[i]) {
            kit_free(&r->w, r->blocks[i], NULL);
            r->blocks[i] = NULL;
        }
    }
}

static mend_defrag_report defrag(rig *r)
{
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    mend_sim_set_call_observer(r->w.sim, free_meanwhile, r);
    EXPECT_RESULT(MEND_OK, mend_defrag(r->w.pool, NULL, &report));
    mend_sim_set_call_observer(r->w.sim, NULL, NULL);
    mend_world_check(&r->w);
    return report;
}

/* Room for the first compaction is made by unmapping the free chunk: then its block is gone. */
MEND_TEST(pool_defrag_meanwhile, a_chunk_that_is_emptied_while_room_is_made_for_it_is_not_compacted)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    r.call = "unmap";
    memset(r.frees, true, sizeof(r.frees));
    mend_defrag_report report = defrag(&r);
    EXPECT_U64_EQ(0, report.compactions);
    EXPECT_U64_EQ(CHUNKS * CHUNK, mend_world_stats(&r.w).free_empty_bytes);
    close_rig(&r);
}

/* The last chunk is emptied during the first compaction, and given back to make room for the third.
 */
MEND_TEST(pool_defrag_meanwhile, a_chunk_that_is_gone_is_not_looked_for)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    r.call = "create";
    r.frees[CHUNKS - 1] = true;
    mend_defrag_report report = defrag(&r);
    EXPECT_U64_EQ(CHUNKS - 1, report.compactions);
    EXPECT_INT_EQ(MEND_DEFRAG_DONE, report.stop);
    EXPECT_U64_EQ((CHUNKS - 1) * BLOCK, report.copied_bytes);
    EXPECT_PTR_EQ(NULL, mend_chunk_numbered(&r.w.pool->heap.chunks, UINT64_MAX));
    close_rig(&r);
}
