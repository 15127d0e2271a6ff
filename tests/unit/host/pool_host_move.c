/* Moves of live blocks to the host and back: same addresses, same bytes, all memory accounted for.
 */
#include "tests/unit/host/host_rig.h"

#define HOST_RIG_TEST(suite, name, opening)                                                        \
    KIT_RIG_TEST(suite, name, host_rig, opening, host_rig_close(r))

HOST_RIG_TEST(pool_host_move, blocks_that_share_a_chunk_move_together, host_rig_open(r))
{
    void *pair[2];
    const uint64_t tags[] = {1, 2};
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    for (int i = 0; i < 2; i++) {
        mend_set_sleep_tag(tags[i]);
        pair[i] = kit_alloc_written(w, MEND_MIB / 4, S(0));
    }
    mend_set_sleep_tag(0);
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_HOST, tags, 1, &report));
    EXPECT_FIELDS(report, shared_bytes, MEND_MIB / 4, stayed_bytes, MEND_MIB / 4);
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_HOST, tags, 2, &report));
    EXPECT_FIELDS(report, moved_bytes, MEND_MIB, copied_bytes, MEND_MIB / 2);
    EXPECT_TRUE(host_rig_is_on_host(r, pair[0]) && host_rig_is_on_host(r, pair[1]));
    kit_release(w, pair[0], MEND_MIB / 4, S(0));
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, &tags[1], 1, &report));
    EXPECT_U64_EQ(MEND_MIB / 4, report.copied_bytes);
    void *again = kit_alloc_written(w, MEND_MIB / 4, S(0)); /* what is free serves */
    EXPECT_STATS(w, reserved_bytes, MEND_MIB);
    kit_release(w, again, MEND_MIB / 4, S(0));
    kit_release(w, pair[1], MEND_MIB / 4, S(0));
}

HOST_RIG_TEST(pool_host_move, limits_of_the_device_do_not_count_the_host,
              host_rig_open_with(r, NULL, 2 * HOST_BLOCK))
{
    void *most = kit_alloc_written(w, HOST_DEVICE - 2 * HOST_BLOCK, S(0));
    kit_expect_none(w, HOST_BLOCK, S(0), "");
    host_rig_overflow(r, HOST_BLOCK);
    EXPECT_TRUE(host_rig_is_on_host(r, r->there));
    kit_release(w, most, HOST_DEVICE - 2 * HOST_BLOCK, S(0));
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, NULL, 0, NULL));
    kit_release(w, r->there, HOST_BLOCK, S(0));
    r->there = NULL;
}

/* The move needs the free chunk, and may only have it if nothing is captured. */
HOST_RIG_TEST(pool_host_move, a_question_about_captures_that_is_refused_is_no_lack_of_memory,
              host_rig_open(r))
{
    void *block = kit_alloc_written(w, HOST_BLOCK, S(0));
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_HOST, NULL, 0, NULL));
    kit_free(w, kit_alloc(w, HOST_BLOCK, S(0)), S(0));
    mend_sim_set_foreign_bytes(w->sim, 0, HOST_DEVICE - HOST_BLOCK);
    for (uint64_t asked = 0; asked < 4; asked++) { /* two of the wait, two of the trim */
        kit_fail(w, "stream_get_info", asked, 1, MEND_DRIVER_UNKNOWN);
        EXPECT_ERROR(DRIVER, mend_move(w->pool, MEND_MOVE_TO_DEVICE, NULL, 0, NULL));
        mend_sim_clear_faults(w->sim);
    }
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, NULL, 0, NULL));
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    kit_release(w, block, HOST_BLOCK, S(0));
}
