/* What a sleep and a wake refuse, by name, and that nothing has changed then. */
#include "mend/mend_share.h"
#include "tests/unit/sleep/sleep_rig.h"

static void expect_awake(sleep_rig *r)
{
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        EXPECT_TRUE(!sleep_rig_sleeps(r, i));
    }
    EXPECT_U64_EQ(0, mend_world_stats(&r->w).sleeps);
    EXPECT_TRUE(mend_world_check(&r->w));
}

MEND_TEST(pool_sleep_refused, arguments_are_checked)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(NULL, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_wake(NULL, NULL, 0, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_wake(r.w.pool, NULL, 1, NULL));
    report.struct_size = 0;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, NULL, &report));
    woken.struct_size = 0;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_wake(r.w.pool, NULL, 0, &woken));
    options.struct_size += sizeof(void *);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, &options, NULL));
    options.struct_size = 0;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, &options, NULL));
    const mend_sleep_rule wrong[] = {{1, MEND_KEEP_DEFAULT}, {1, MEND_KEEP_AWAKE + 1}, {1, -1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options = (mend_sleep_options)MEND_SLEEP_OPTIONS_INIT;
        options.rules = &wrong[i];
        options.rule_count = 1;
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, &options, NULL));
    }
    options.rules = NULL;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, &options, NULL));
    options = (mend_sleep_options)MEND_SLEEP_OPTIONS_INIT;
    options.others = MEND_KEEP_AWAKE + 1;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, &options, NULL));
    options.others = 0;
    options.skip_pinned = 2;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, &options, NULL));
    options.skip_pinned = 0;
    options.keep_free = -1;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sleep(r.w.pool, &options, NULL));
    expect_awake(&r);
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_refused, a_second_sleep_is_named)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_ASLEEP, mend_sleep(r.w.pool, NULL, NULL));
    kit_expect_words("are asleep");
    void *more = kit_alloc_written(&r.w, SLEEP_BLOCK, NULL);
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL)); /* the new one alone */
    EXPECT_U64_EQ(2, mend_world_stats(&r.w).sleeps);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    kit_release(&r.w, more, SLEEP_BLOCK, NULL);
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_refused, a_pool_without_blocks_has_nothing_to_sleep)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).sleeps);
    kit_close(&w);
}

MEND_TEST(pool_sleep_refused, nothing_sleeps_during_a_capture)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    kit_begin_capture(&r.w, r.w.streams[1]);
    void *captured = kit_alloc(&r.w, SLEEP_BLOCK, r.w.streams[1]);
    kit_use(&r.w, r.w.streams[1], captured, SLEEP_BLOCK, 10);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_sleep(r.w.pool, NULL, NULL));
    mend_sim_graph *graph = kit_end_capture(&r.w, r.w.streams[1]);
    expect_awake(&r);
    mend_sim_graph_destroy(r.w.sim, graph);
    kit_free(&r.w, captured, r.w.streams[1]);
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_refused, pinned_memory_is_named_or_skipped)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, r.blocks[0], 512));
    EXPECT_RESULT(MEND_ERROR_PINNED, mend_sleep(r.w.pool, NULL, NULL));
    kit_expect_words("pinned or exported");
    expect_awake(&r);
    sleep_rig_sleep(&r, 2, MEND_KEEP_HOST); /* none of these is pinned */
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    options.skip_pinned = 1;
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, &options, &report));
    EXPECT_U64_EQ(SLEEP_BLOCK, report.pinned_bytes);
    EXPECT_U64_EQ(SLEEP_BLOCK, report.stayed_bytes);
    EXPECT_U64_EQ((SLEEP_BLOCKS - 1) * SLEEP_BLOCK, report.host_bytes);
    EXPECT_TRUE(!sleep_rig_sleeps(&r, 0));
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, r.blocks[0], 512));
    sleep_rig_close(&r);
}

static void make_shareable(mend_world *w)
{
    w->pool_config.shareable = 1;
}

MEND_TEST(pool_sleep_refused, exported_memory_is_named_until_it_is_freed)
{
    mend_world w;
    mend_export_token token;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, make_shareable));
    void *block = kit_alloc_written(&w, MEND_MIB, NULL);
    void *other = kit_alloc_written(&w, MEND_MIB, NULL);
    EXPECT_RESULT(MEND_OK, mend_export(w.pool, block, &token, NULL));
    EXPECT_RESULT(MEND_ERROR_PINNED, mend_sleep(w.pool, NULL, NULL));
    kit_free(&w, block, NULL);
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_ASLEEP, mend_export(w.pool, other, &token, NULL));
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_export(w.pool, other, &token, NULL));
    kit_release(&w, other, MEND_MIB, NULL);
    kit_close(&w);
}

MEND_TEST(pool_sleep_refused, calls_that_need_sleeping_memory_are_named)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    sleep_rig_sleep(&r, 1, MEND_KEEP_HOST);
    EXPECT_RESULT(MEND_ERROR_ASLEEP, mend_pin(r.w.pool, r.blocks[0], SLEEP_BLOCK));
    kit_expect_words("mend_wake");
    EXPECT_RESULT(MEND_ERROR_ASLEEP, mend_record_stream(r.w.pool, r.blocks[2], r.w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_pin(r.w.pool, r.blocks[1], SLEEP_BLOCK));
    EXPECT_RESULT(MEND_OK, mend_unpin(r.w.pool, r.blocks[1], SLEEP_BLOCK));
    EXPECT_RESULT(MEND_OK, mend_record_stream(r.w.pool, r.blocks[1], r.w.streams[1]));
    mend_group *group = NULL;
    EXPECT_RESULT(MEND_OK, mend_group_create(r.w.pool, &group));
    EXPECT_RESULT(MEND_ERROR_ASLEEP, mend_group_set_blocks(group, NULL, 0));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_group_set_blocks(group, NULL, 0));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, r.w.streams[0]));
    sleep_rig_close(&r);
}

MEND_TEST(pool_sleep_refused, compaction_and_trim_pass_by_what_sleeps)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    void *half = kit_alloc_written(&r.w, SLEEP_BLOCK / 2, NULL);
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    uint64_t asleep = mend_world_stats(&r.w).asleep_bytes;
    EXPECT_RESULT(MEND_OK, mend_defrag(r.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_trim_wait(r.w.pool, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_set_limit(r.w.pool, 32 * MEND_MIB));
    EXPECT_U64_EQ(asleep, mend_world_stats(&r.w).asleep_bytes);
    EXPECT_TRUE(mend_world_check(&r.w));
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    kit_release(&r.w, half, SLEEP_BLOCK / 2, NULL);
    sleep_rig_close(&r);
}
