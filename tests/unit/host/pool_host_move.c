/* Moves of live blocks to the host and back: same addresses, same bytes, all memory accounted for.
 */
#include "tests/unit/host/host_rig.h"

static const uint64_t one = 1;
static const uint64_t three = 3;

#define HOST_RIG_TEST(suite, name, opening)                                                        \
    KIT_RIG_TEST(suite, name, host_rig, opening, host_rig_close(r))

HOST_TEST(pool_host_move, blocks_go_there_and_come_back)
{
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_HOST, &one, 1, &report));
    EXPECT_FIELDS(report, moved_bytes, 4 * HOST_BLOCK, copied_bytes, 4 * HOST_BLOCK);
    EXPECT_U64_EQ(0, report.stayed_bytes);
    EXPECT_INT_EQ(4, host_rig_count_on_host(r));
    EXPECT_STATS(w, reserved_bytes, 4 * HOST_BLOCK, host_live_bytes, 4 * HOST_BLOCK);
    EXPECT_TRUE(mend_world_check(w));
    for (int i = 0; i < HOST_BLOCKS; i++) { /* they are used there, too */
        kit_verify(w, S(0), r->blocks[i], HOST_BLOCK);
        kit_write(w, S(0), r->blocks[i], HOST_BLOCK);
    }
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, NULL, 0, &report));
    EXPECT_U64_EQ(4 * HOST_BLOCK, report.moved_bytes);
    EXPECT_INT_EQ(0, host_rig_count_on_host(r));
    EXPECT_LEDGER(w, host_chunks, 0);
    EXPECT_STATS(w, moved_to_host_bytes, 4 * HOST_BLOCK, moved_to_device_bytes, 4 * HOST_BLOCK);
}

HOST_TEST(pool_host_move, what_overflowed_comes_back_when_there_is_room)
{
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    host_rig_overflow(r, 2 * MEND_MIB);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "no memory of the device for 2097152 bytes",
                   mend_move(w->pool, MEND_MOVE_TO_DEVICE, &three, 1, &report));
    EXPECT_U64_EQ(0, report.moved_bytes);
    EXPECT_TRUE(host_rig_is_on_host(r, r->there));
    for (int i = 0; i < 2; i++) {
        kit_release(w, r->blocks[5 * i], HOST_BLOCK, S(0));
        r->blocks[5 * i] = NULL;
    }
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, &three, 1, &report));
    EXPECT_U64_EQ(2 * MEND_MIB, report.moved_bytes);
    EXPECT_TRUE(!host_rig_is_on_host(r, r->there));
    EXPECT_LEDGER(w, host_chunks, 0);
    kit_release(w, r->there, 2 * MEND_MIB, S(0));
    r->there = NULL;
}

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

HOST_TEST(pool_host_move, the_limit_of_the_host_bounds_a_move)
{
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    host_rig_overflow(r, HOST_LIMIT - 2 * HOST_BLOCK);
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_HOST, &one, 1, &report));
    EXPECT_FIELDS(report, moved_bytes, 2 * HOST_BLOCK, lacking_bytes, 2 * HOST_BLOCK);
    EXPECT_STATS(w, host_bytes, HOST_LIMIT);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "no memory of the host for 2097152 bytes",
                   mend_move(w->pool, MEND_MOVE_TO_HOST, &one, 1, &report));
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, &one, 1, &report));
    EXPECT_U64_EQ(2 * HOST_BLOCK, report.moved_bytes);
    kit_release(w, r->there, HOST_LIMIT - 2 * HOST_BLOCK, S(0));
    r->there = NULL;
}

HOST_TEST(pool_host_move, sleep_and_moves_pass_by_each_other)
{
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_HOST, &one, 1, NULL));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL)); /* those on the device */
    EXPECT_STATS(w, asleep_live_bytes, 4 * HOST_BLOCK, reserved_bytes, 0);
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_HOST, NULL, 0, &report));
    EXPECT_U64_EQ(0, report.moved_bytes);
    kit_verify(w, S(0), r->blocks[0], HOST_BLOCK);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_INT_EQ(4, host_rig_count_on_host(r));
}

HOST_TEST(pool_host_move, the_limit_of_the_device_holds)
{
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_HOST, NULL, 0, NULL));
    EXPECT_OK(mend_set_limit(w->pool, 3 * HOST_BLOCK));
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, NULL, 0, &report));
    EXPECT_FIELDS(report, moved_bytes, 3 * HOST_BLOCK, lacking_bytes, 5 * HOST_BLOCK);
    EXPECT_STATS(w, reserved_bytes, 3 * HOST_BLOCK);
    EXPECT_OK(mend_set_limit(w->pool, 0));
    EXPECT_OK(mend_move(w->pool, MEND_MOVE_TO_DEVICE, NULL, 0, NULL));
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
