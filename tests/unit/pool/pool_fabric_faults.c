/* Fabric handles that the driver refuses, and the validation of exports. */

#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/unit/check/found.h"
#include "tests/unit/pool/share_rig.h"

KIT_RIG_EACH(pool_fabric_faults, a_driver_that_refuses_later_ends_new_exports_alone, int, i, 2,
             share_rig, r, share_rig_open(r, true) && share_rig_fill(r), share_rig_close(r))
{
    const int answers[] = {MEND_DRIVER_NOT_PERMITTED, MEND_DRIVER_NOT_SUPPORTED};
    mend_result result;
    kit_fail(&r->from, "create", 0, 1, answers[i]);
    void *later = kit_alloc(&r->from, 4 * CHUNK, r->from.streams[0]);
    EXPECT_ERROR(NOT_SUPPORTED, share_try_export(r->from.pool, later, &r->ticket));
    kit_expect_words(i == 0 ? "NOT_PERMITTED" : "NOT_SUPPORTED");
    EXPECT_TRUE(share_imports(r, &result));
    EXPECT_OK(share_try_export(r->from.pool, r->block, &r->ticket));
    EXPECT_STATS(&r->from, driver_failures, 1);
    EXPECT_TRUE(mend_world_check(&r->from));
}

SHARED_TEST(pool_fabric_faults, the_audit_reads_each_field_of_an_export, true)
{
    static const char counts[] = "a chunk has not the exports that it counts";
    static const char exports[] = "the exports are not the blocks that are marked";
    mend_export_token token;
    EXPECT_OK(share_token(r->from.pool, r->block, &token, BY_FILE));
    mend_heap *heap = &r->from.pool->heap;
    mend_chunk *chunk = mend_chunk_at(&heap->chunks, (uint64_t)(uintptr_t)r->block);
    mend_span *span = mend_heap_block_at(heap, (uint64_t)(uintptr_t)r->block);
    EXPECT_FOUND(chunk->exports[MEND_EXPORT_BY_FABRIC], 2, counts);
    EXPECT_FOUND(chunk->exports[MEND_EXPORT_BY_FILE], 2, counts);
    EXPECT_FOUND(chunk->memory.has_fabric, false, exports);
    EXPECT_FOUND(chunk->file, -2, exports);
    EXPECT_FOUND(span->is_exported, false, exports);
    EXPECT_FOUND(heap->chunks.exported_bytes, 1, "chunks");
}

/* Both creations are refused: then the fabric handles are not the reason. */
SHARED_TEST(pool_fabric_faults, a_refusal_of_all_memory_takes_no_fabric_handles_away, true)
{
    void *pointer = NULL;
    kit_fail(&r->from, "create", 0, 1000, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_TRUE(mend_alloc(r->from.pool, 4 * CHUNK, r->from.streams[0], &pointer) != MEND_OK);
    mend_sim_clear_faults(r->from.sim);
    void *block = kit_alloc(&r->from, 4 * CHUNK, r->from.streams[0]);
    EXPECT_OK(share_try_export(r->from.pool, block, &r->ticket));
}
