/* What a sleep and a wake refuse, by name, and that nothing has changed then. */
#include "mend/mend_share.h"
#include "tests/support/files.h"
#include "tests/unit/sleep/sleep_rig.h"

static void expect_awake(sleep_rig *r)
{
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        EXPECT_TRUE(!sleep_rig_sleeps(r, i));
    }
    EXPECT_STATS(&r->w, sleeps, 0);
    EXPECT_TRUE(mend_world_check(&r->w));
}

SLEEP_TEST(pool_sleep_refused, arguments_are_checked)
{
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    EXPECT_INVALID(mend_sleep(NULL, NULL, NULL));
    EXPECT_INVALID(mend_wake(NULL, NULL, 0, NULL));
    EXPECT_INVALID(mend_wake(w->pool, NULL, 1, NULL));
    report.struct_size = 0;
    EXPECT_INVALID(mend_sleep(w->pool, NULL, &report));
    woken.struct_size = 0;
    EXPECT_INVALID(mend_wake(w->pool, NULL, 0, &woken));
    options.struct_size += sizeof(void *);
    EXPECT_INVALID(mend_sleep(w->pool, &options, NULL));
    options.struct_size = 0;
    EXPECT_INVALID(mend_sleep(w->pool, &options, NULL));
    const mend_sleep_rule wrong[] = {{1, MEND_KEEP_DEFAULT}, {1, MEND_KEEP_AWAKE + 1}, {1, -1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options = (mend_sleep_options)MEND_SLEEP_OPTIONS_INIT;
        options.rules = &wrong[i];
        options.rule_count = 1;
        EXPECT_INVALID(mend_sleep(w->pool, &options, NULL));
    }
    options.rules = NULL;
    EXPECT_INVALID(mend_sleep(w->pool, &options, NULL));
    options = (mend_sleep_options)MEND_SLEEP_OPTIONS_INIT;
    options.others = MEND_KEEP_AWAKE + 1;
    EXPECT_INVALID(mend_sleep(w->pool, &options, NULL));
    options.others = 0;
    options.skip_pinned = 2;
    EXPECT_INVALID(mend_sleep(w->pool, &options, NULL));
    options.skip_pinned = 0;
    for (options.keep_free = -1; options.keep_free <= 3; options.keep_free += 4) {
        EXPECT_INVALID(mend_sleep(w->pool, &options, NULL));
    }
    expect_awake(r);
}

SLEEP_TEST(pool_sleep_refused, a_second_sleep_is_named)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_REFUSAL(ASLEEP, "are asleep", mend_sleep(w->pool, NULL, NULL));
    void *more = kit_alloc_written(w, SLEEP_BLOCK, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL)); /* the new one alone */
    EXPECT_STATS(w, sleeps, 2);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, more, SLEEP_BLOCK, NULL);
}

KIT_TEST(pool_sleep_refused, a_pool_without_blocks_has_nothing_to_sleep)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STATS(w, sleeps, 0);
}

/* A tag that is misspelt names nothing, and the call succeeds. */
SLEEP_TEST(pool_sleep_refused, tags_that_no_block_has_are_in_the_report)
{
    const uint64_t half = SLEEP_BLOCKS / 2 * SLEEP_BLOCK;
    const mend_sleep_rule rules[] = {
        {7, MEND_KEEP_HOST}, {1, MEND_KEEP_HOST}, {9, MEND_KEEP_AWAKE}};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    mend_wake_report woken = MEND_WAKE_REPORT_INIT;
    options.rules = rules;
    options.rule_count = 1;
    EXPECT_OK(mend_sleep(w->pool, &options, &report));
    EXPECT_FIELDS(report, matched_bytes, 0, unmatched_tags, 1, unmatched_tag, 7);
    expect_awake(r);
    EXPECT_OK(mend_wake(w->pool, &rules[0].tag, 1, &woken));
    EXPECT_FIELDS(woken, matched_bytes, 0, unmatched_tags, 1, unmatched_tag, 7);
    options.rule_count = 3;
    EXPECT_OK(mend_sleep(w->pool, &options, &report));
    EXPECT_FIELDS(report, matched_bytes, half, unmatched_tags, 2, unmatched_tag, 7);
    options.others = MEND_KEEP_HOST; /* half of these sleep */
    EXPECT_OK(mend_sleep(w->pool, &options, &report));
    EXPECT_FIELDS(report, matched_bytes, 2 * half, asleep_bytes, half, unmatched_tags, 2);
    const uint64_t tags[] = {2, 8, 1};
    EXPECT_OK(mend_wake(w->pool, tags, 2, &woken));
    EXPECT_FIELDS(woken, matched_bytes, half, unmatched_tags, 1, unmatched_tag, 8);
    EXPECT_OK(mend_wake(w->pool, &tags[2], 1, &woken));
    EXPECT_FIELDS(woken, matched_bytes, half, woken_bytes, half, unmatched_tags, 0);
    EXPECT_OK(mend_wake(w->pool, tags, 1, &woken)); /* they are awake */
    EXPECT_FIELDS(woken, matched_bytes, half, woken_bytes, 0, unmatched_tags, 0);
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_FIELDS(report, matched_bytes, 2 * half, unmatched_tags, 0, unmatched_tag, 0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &woken));
    EXPECT_FIELDS(woken, matched_bytes, 2 * half, unmatched_tags, 0);
}

/* A block in several chunks, and a committed page, are counted once. */
SLEEP_TEST(pool_sleep_refused, what_matched_is_counted_once)
{
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    ASSERT_TRUE(sleep_rig_add_pages(r));
    mend_set_sleep_tag(5);
    void *block = kit_alloc_written(w, 3 * SLEEP_BLOCK, NULL);
    mend_set_sleep_tag(0);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(5, MEND_KEEP_HOST, ), &report));
    EXPECT_FIELDS(report, matched_bytes, 3 * SLEEP_BLOCK);
    EXPECT_OK(mend_sleep(w->pool, SLEEP_TAG(2, MEND_KEEP_HOST, ), &report));
    EXPECT_FIELDS(report, matched_bytes,
                  SLEEP_BLOCKS / 2 * SLEEP_BLOCK + SLEEP_PAGES / 2 * SLEEP_PAGE);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, block, 3 * SLEEP_BLOCK, NULL);
}

SLEEP_TEST(pool_sleep_refused, nothing_sleeps_during_a_capture)
{
    kit_begin_capture(w, S(1));
    kit_alloc_used(w, SLEEP_BLOCK, S(1), 10);
    EXPECT_ERROR(CAPTURING, mend_sleep(w->pool, NULL, NULL));
    mend_sim_graph *graph = kit_end_capture(w, S(1));
    expect_awake(r);
    mend_sim_graph_destroy(w->sim, graph);
}

SLEEP_TEST(pool_sleep_refused, pinned_memory_is_named_or_skipped)
{
    EXPECT_OK(mend_pin(w->pool, r->blocks[0], 512));
    EXPECT_REFUSAL(PINNED, "pinned or exported", mend_sleep(w->pool, NULL, NULL));
    expect_awake(r);
    sleep_rig_sleep(r, 2, MEND_KEEP_HOST); /* none of these is pinned */
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .skip_pinned = 1), &report));
    EXPECT_FIELDS(report, pinned_bytes, SLEEP_BLOCK, stayed_bytes, SLEEP_BLOCK);
    EXPECT_U64_EQ((SLEEP_BLOCKS - 1) * SLEEP_BLOCK, report.host_bytes);
    EXPECT_TRUE(!sleep_rig_sleeps(r, 0));
    EXPECT_OK(mend_unpin(w->pool, r->blocks[0], 512));
}

/* As may be under confidential computing. */
SLEEP_TEST(pool_sleep_refused, a_driver_without_pinned_memory_is_named)
{
    kit_fail(w, "host_alloc", 0, UINT64_MAX, MEND_DRIVER_NOT_SUPPORTED);
    EXPECT_REFUSAL(NOT_SUPPORTED, "gives no pinned memory", mend_sleep(w->pool, NULL, NULL));
    expect_awake(r);
}

/* The system would end the process by a signal. */
SLEEP_TEST(pool_sleep_refused, a_limit_of_file_sizes_is_named)
{
    const mend_sleep_options options = *KIT_OPTIONS(mend_sleep_options, .others = MEND_KEEP_FILE,
                                                    .directory = sleep_rig_directory());
    const uint64_t limits[] = {0, SLEEP_BLOCK / 2, SLEEP_BLOCKS * SLEEP_BLOCK - 1};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        mend_test_limit_file_size(limits[i]);
        EXPECT_REFUSAL(SYSTEM, "ulimit -f", mend_sleep(w->pool, &options, NULL));
        mend_test_limit_file_size(UINT64_MAX);
        expect_awake(r);
    }
    mend_test_limit_file_size(SLEEP_BLOCKS * SLEEP_BLOCK);
    EXPECT_OK(mend_sleep(w->pool, &options, NULL));
    mend_test_limit_file_size(UINT64_MAX);
}

KIT_SETTING(make_shareable, w->pool_config.shareable = 1);

KIT_TEST_IN(pool_sleep_refused, exported_memory_is_named_until_it_is_freed,
            kit_open_with(w, 16 * MEND_MIB, make_shareable))
{
    mend_export_token token;
    void *block = kit_alloc_written(w, MEND_MIB, NULL);
    void *other = kit_alloc_written(w, MEND_MIB, NULL);
    EXPECT_OK(mend_export(w->pool, block, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_ERROR(PINNED, mend_sleep(w->pool, NULL, NULL));
    kit_free(w, block, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_ERROR(ASLEEP,
                 mend_export(w->pool, other, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_export(w->pool, other, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    kit_release(w, other, MEND_MIB, NULL);
}

SLEEP_TEST(pool_sleep_refused, calls_that_need_sleeping_memory_are_named)
{
    sleep_rig_sleep(r, 1, MEND_KEEP_HOST);
    EXPECT_REFUSAL(ASLEEP, "mend_wake", mend_pin(w->pool, r->blocks[0], SLEEP_BLOCK));
    EXPECT_ERROR(ASLEEP, mend_record_stream(w->pool, r->blocks[2], S(1)));
    EXPECT_OK(mend_pin(w->pool, r->blocks[1], SLEEP_BLOCK));
    EXPECT_OK(mend_unpin(w->pool, r->blocks[1], SLEEP_BLOCK));
    EXPECT_OK(mend_record_stream(w->pool, r->blocks[1], S(1)));
    mend_group *group = kit_group(w);
    EXPECT_ERROR(ASLEEP, mend_group_set_blocks(group, NULL, sizeof(mend_group_block), 0));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_group_set_blocks(group, NULL, sizeof(mend_group_block), 0));
    EXPECT_OK(mend_group_destroy(group, S(0)));
}

SLEEP_TEST(pool_sleep_refused, compaction_and_trim_pass_by_what_sleeps)
{
    void *half = kit_alloc_written(w, SLEEP_BLOCK / 2, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    uint64_t asleep = mend_world_stats(w).asleep_bytes;
    EXPECT_OK(mend_defrag(w->pool, NULL, NULL));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_OK(mend_set_limit(w->pool, 32 * MEND_MIB));
    EXPECT_STATS(w, asleep_bytes, asleep);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, half, SLEEP_BLOCK / 2, NULL);
}
