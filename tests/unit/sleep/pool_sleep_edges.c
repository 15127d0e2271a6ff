/* Sleep, wake and mend_prepare_checkpoint with memory that others know, or with too little
 * memory. */
#include "mend/mend_share.h"
#include "tests/unit/sleep/sleep_rig.h"

static void shareable(mend_world *w)
{
    w->pool_config.shareable = MEND_SHAREABLE_ON;
    w->pool_config.limit_bytes = 3 * MEND_MIB;
    w->placement.chunk_bytes = MEND_MIB;
}

/* A block of 1 MiB, and one of 2 MiB. The driver does not unmap the old addresses of the chunks
 * that moved for the larger one. */
static bool open_moved(mend_world *w, void **stays, void **moved)
{
    if (!kit_open_with(w, 16 * MEND_MIB, shareable)) {
        return false;
    }
    void *first = kit_alloc_written(w, MEND_MIB, NULL);
    *stays = kit_alloc_written(w, MEND_MIB, NULL);
    void *last = kit_alloc_written(w, MEND_MIB, NULL);
    kit_free(w, first, NULL);
    kit_free(w, last, NULL);
    kit_fail(w, "unmap", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    *moved = kit_alloc_written(w, 2 * MEND_MIB, NULL);
    return true;
}

MEND_TEST(pool_sleep_edges, memory_at_a_second_address_is_not_made_private)
{
    mend_world w;
    void *stays;
    void *moved;
    ASSERT_TRUE(open_moved(&w, &stays, &moved));
    EXPECT_RESULT(MEND_ERROR_PINNED, mend_prepare_checkpoint(w.pool, NULL));
    kit_expect_words("mapped at a second address");
    mend_sim_clear_faults(w.sim);
    kit_release(&w, moved, 2 * MEND_MIB, NULL); /* a copy fits */
    EXPECT_RESULT(MEND_OK, mend_prepare_checkpoint(w.pool, NULL));
    kit_release(&w, stays, MEND_MIB, NULL);
    kit_close(&w);
}

/* Nor does a sleep release it, which would free nothing: the old addresses keep it. */
MEND_TEST(pool_sleep_edges, memory_at_a_second_address_does_not_sleep)
{
    mend_world w;
    void *stays;
    void *moved;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    ASSERT_TRUE(open_moved(&w, &stays, &moved));
    mend_sim_clear_faults(w.sim);
    kit_fail(&w, "unmap", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(mend_sleep(w.pool, NULL, &report));
    EXPECT_FIELDS(report, mapped_bytes, MEND_MIB, stayed_bytes, MEND_MIB);
    EXPECT_OK(mend_sleep(w.pool, NULL, &report));
    EXPECT_FIELDS(report, mapped_bytes, 0, stayed_bytes, 0, asleep_bytes, MEND_MIB);
    EXPECT_OK(mend_wake(w.pool, NULL, 0, NULL));
    kit_release(&w, moved, 2 * MEND_MIB, NULL);
    kit_release(&w, stays, MEND_MIB, NULL);
    kit_close(&w);
}

/* Importers may still hold memory that was exported once. */
MEND_TEST(pool_sleep_edges, exported_memory_is_not_said_to_be_released)
{
    mend_world w;
    mend_export_token token;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, shareable));
    void *exported = kit_alloc(&w, MEND_MIB / 2, NULL);
    void *kept = kit_alloc_written(&w, MEND_MIB / 2, NULL);
    EXPECT_RESULT(MEND_OK,
                  mend_export(w.pool, exported, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    kit_free(&w, exported, NULL);
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, &report));
    EXPECT_U64_EQ(MEND_MIB, report.asleep_bytes);
    EXPECT_U64_EQ(0, report.released_bytes);
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    kit_release(&w, kept, MEND_MIB / 2, NULL);
    kit_close(&w);
}

/* Neighbors in one chunk, of which one goes to a file. */
MEND_TEST(pool_sleep_edges, neighbours_are_kept_where_each_is_to_be)
{
    mend_world w;
    void *blocks[2];
    const mend_sleep_rule rules[] = {{1, MEND_BACKUP_HOST}, {2, MEND_BACKUP_FILE}};
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, shareable));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_alloc_with(w.pool, MEND_MIB / 2, NULL,
                                  KIT_OPTIONS(mend_alloc_options, .tag = 1 + (uint64_t)i),
                                  &blocks[i]));
        kit_write(&w, NULL, blocks[i], MEND_MIB / 2);
    }
    options.rules = rules;
    options.rule_count = 2;
    options.directory = sleep_rig_directory();
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, &options, &report));
    EXPECT_U64_EQ(MEND_MIB / 2, report.host_bytes);
    EXPECT_U64_EQ(MEND_MIB / 2, report.file_bytes);
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    for (int i = 0; i < 2; i++) {
        kit_release(&w, blocks[i], MEND_MIB / 2, NULL);
    }
    kit_close(&w);
}

MEND_TEST(pool_sleep_edges, a_refused_wake_tells_what_the_device_can_give)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_RESULT(MEND_OK, mend_sleep(r.w.pool, NULL, NULL));
    mend_sim_set_foreign_bytes(r.w.sim, 0, 64 * MEND_MIB - 3 * SLEEP_BLOCK);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_U64_EQ(3 * SLEEP_BLOCK, mend_world_stats(&r.w).effective_limit_bytes);
    mend_sim_set_foreign_bytes(r.w.sim, 0, 0);
    EXPECT_RESULT(MEND_OK, mend_wake(r.w.pool, NULL, 0, NULL));
    sleep_rig_close(&r);
}

/* Also where a refused wake had given it the memory of a free chunk, which is free again. */
MEND_TEST(pool_sleep_edges, what_sleeps_is_told_to_be_in_no_chunk)
{
    sleep_rig r;
    ASSERT_TRUE(sleep_rig_open(&r));
    EXPECT_OK(mend_sleep(r.w.pool, NULL, NULL));
    kit_free(&r.w, kit_alloc_written(&r.w, SLEEP_BLOCK, NULL), NULL);
    mend_sim_set_foreign_bytes(r.w.sim, 0, 64 * MEND_MIB - 3 * SLEEP_BLOCK);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_wake(r.w.pool, NULL, 0, NULL));
    EXPECT_OK(mend_history_start(r.w.pool, 64));
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        kit_free(&r.w, r.blocks[i], NULL);
    }
    mend_history_event events[64];
    uint64_t cursor = 0;
    size_t count = 0;
    EXPECT_OK(mend_history_read(r.w.pool, &cursor, events, sizeof(events[0]), 64, &count));
    EXPECT_TRUE(count >= SLEEP_BLOCKS);
    for (size_t i = 0; i < count; i++) {
        EXPECT_U64_EQ(0, events[i].chunk);
    }
    kit_close(&r.w);
}

/* Nothing is asked of the driver that needs the context which it refused. */
MEND_TEST(pool_sleep_edges, an_end_without_a_context_leaves_pinned_memory)
{
    for (int wakes = 0; wakes < 2; wakes++) {
        mend_sim *sim = NULL;
        mend_pool *pool = NULL;
        void *block = NULL;
        mend_sim_config device = MEND_SIM_CONFIG_INIT;
        mend_pool_config config = MEND_POOL_CONFIG_INIT;
        mend_sim_fault fault = MEND_SIM_FAULT_INIT;
        ASSERT_RESULT(MEND_OK, mend_sim_create(&device, &sim));
        config.driver = mend_sim_driver(sim);
        ASSERT_RESULT(MEND_OK, mend_pool_create(&config, &pool));
        EXPECT_RESULT(MEND_OK, mend_alloc(pool, 4 * MEND_MIB, NULL, &block));
        EXPECT_RESULT(MEND_OK, mend_sleep(pool, NULL, NULL));
        if (wakes) {
            EXPECT_RESULT(MEND_OK, mend_wake(pool, NULL, 0, NULL));
        }
        fault.call = "context_push";
        fault.count = 100;
        fault.status = MEND_DRIVER_UNKNOWN;
        EXPECT_RESULT(MEND_OK, mend_sim_fail(sim, &fault));
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_pool_destroy(pool));
        mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
        EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(sim, &ledger));
        EXPECT_U64_EQ(0, ledger.violations);
        EXPECT_TRUE(ledger.host_allocations > 0);
        mend_sim_destroy(sim);
    }
}
