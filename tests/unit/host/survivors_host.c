/* Memory of the host that the driver does not take back, and its pages. */
#include "pool/pool.h"
#include "tests/unit/host/host_rig.h"

static const uint64_t tag = 1;

MEND_TEST(survivors_host, memory_that_was_not_taken_back_counts)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    EXPECT_RESULT(MEND_OK, mend_move(r.w.pool, MEND_MOVE_TO_HOST, &tag, 1, NULL));
    kit_fail(&r.w, "release", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_RESULT(MEND_OK, mend_move(r.w.pool, MEND_MOVE_TO_DEVICE, &tag, 1, NULL));
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    EXPECT_TRUE(mend_world_stats(&r.w).host_bytes > 0);
    EXPECT_U64_EQ(mend_world_ledger(&r.w).host_chunk_bytes, mend_world_stats(&r.w).host_bytes);
    mend_sim_clear_faults(r.w.sim);
    host_rig_close(&r);
}

/* A chunk that is not whole pages of the host has no place there. */
MEND_TEST(survivors_host, parts_of_its_pages_stay_on_the_device)
{
    host_rig r;
    ASSERT_TRUE(host_rig_open(&r));
    host_rig_fill(&r);
    const uint64_t page_bytes = r.w.pool->heap.device.host_page_bytes;
    r.w.pool->heap.device.host_page_bytes = HOST_LIMIT;
    (void)mend_move(r.w.pool, MEND_MOVE_TO_HOST, &tag, 1, NULL);
    EXPECT_INT_EQ(0, host_rig_count_on_host(&r));
    r.w.pool->heap.device.host_page_bytes = page_bytes;
    EXPECT_RESULT(MEND_OK, mend_move(r.w.pool, MEND_MOVE_TO_HOST, &tag, 1, NULL));
    EXPECT_INT_EQ(HOST_BLOCKS / 2, host_rig_count_on_host(&r));
    host_rig_close(&r);
}
