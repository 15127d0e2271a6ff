/* Blocks that find no memory of the device, and get the host's, because the program lets them. */
#include "tests/unit/host/host_rig.h"

HOST_TEST(pool_host, a_pinned_block_is_in_place)
{
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    host_rig_overflow(r, MEND_MIB);
    EXPECT_OK(mend_pin(w->pool, r->there, MEND_MIB));
    kit_release(w, r->blocks[0], HOST_BLOCK, S(0));
    r->blocks[0] = NULL;
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, NULL, 0, &report));
    EXPECT_FIELDS(report, pinned_bytes, MEND_MIB, moved_bytes, 0);
    EXPECT_TRUE(host_rig_is_on_host(r, r->there));
    kit_release(w, r->there, MEND_MIB, S(0));
    mend_sim_advance(w->sim, 1000000);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    EXPECT_U64_EQ(MEND_MIB, mend_world_stats(w).host_bytes); /* the pin outlives the block */
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_unpin(w->pool, r->there, MEND_MIB));
    r->there = NULL;
    kit_expect_none(w, HOST_DEVICE, S(0), ""); /* a search ends what is left */
    EXPECT_STATS(w, host_bytes, 0);
}

HOST_TEST(pool_host, groups_and_captures_stay_on_the_device)
{
    mend_set_host_allowed(1);
    mend_group *group = kit_begin_group(w, S(0));
    kit_expect_none(w, MEND_MIB, S(0), "");
    kit_end_group(group, S(0));
    kit_begin_capture(w, S(1));
    kit_expect_none(w, MEND_MIB, S(1), "");
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(1)));
    mend_set_host_allowed(0);
    EXPECT_STATS(w, placed_on_host, 0);
}

HOST_TEST(pool_host, a_wait_brings_memory_back_that_was_freed_without_a_stream)
{
    for (int i = 0; i < 2; i++) {
        host_rig_overflow(r, HOST_LIMIT); /* the second one waits for the first one */
        EXPECT_TRUE(host_rig_is_on_host(r, r->there));
        kit_free(w, r->there, MEND_NO_STREAM);
        r->there = NULL;
    }
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, host_bytes, HOST_LIMIT);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_WAIT, NULL));
    EXPECT_STATS(w, host_bytes, 0);
}
