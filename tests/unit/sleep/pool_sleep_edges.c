/* Sleep, wake and mend_prepare_checkpoint with memory that others know, or with too little
 * memory. */
#include "mend/mend_share.h"
#include "tests/unit/sleep/sleep_rig.h"

KIT_SETTING(shareable, w->pool_config.shareable = MEND_SHAREABLE_ON,
            w->pool_config.limit_bytes = 3 * MEND_MIB, w->placement.chunk_bytes = MEND_MIB);

/* A block of 1 MiB, and one of 2 MiB. The driver does not unmap the old addresses of the chunks
 * that moved for the larger one. */
typedef struct moved_rig {
    mend_world w;
    void *stays;
    void *moved;
} moved_rig;

static bool open_moved(moved_rig *r)
{
    if (!kit_open_with(&r->w, 16 * MEND_MIB, shareable)) {
        return false;
    }
    void *first = kit_alloc_written(&r->w, MEND_MIB, NULL);
    r->stays = kit_alloc_written(&r->w, MEND_MIB, NULL);
    kit_free(&r->w, kit_alloc_written(&r->w, MEND_MIB, NULL), NULL);
    kit_free(&r->w, first, NULL);
    kit_fail(&r->w, "unmap", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    r->moved = kit_alloc_written(&r->w, 2 * MEND_MIB, NULL);
    return true;
}

static void close_moved(moved_rig *r)
{
    kit_release(&r->w, r->stays, MEND_MIB, NULL);
    kit_close(&r->w);
}

#define MOVED_TEST(suite, name) KIT_RIG_TEST(suite, name, moved_rig, open_moved(r), close_moved(r))
#define SHAREABLE_TEST(suite, name)                                                                \
    KIT_TEST_IN(suite, name, kit_open_with(w, 16 * MEND_MIB, shareable))

MOVED_TEST(pool_sleep_edges, memory_at_a_second_address_is_not_made_private)
{
    EXPECT_REFUSAL(PINNED, "mapped at a second address", mend_prepare_checkpoint(w->pool, NULL));
    mend_sim_clear_faults(w->sim);
    kit_release(w, r->moved, 2 * MEND_MIB, NULL); /* a copy fits */
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL));
}

/* Nor does a sleep release it, which would free nothing: the old addresses keep it. */
MOVED_TEST(pool_sleep_edges, memory_at_a_second_address_does_not_sleep)
{
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    mend_sim_clear_faults(w->sim);
    kit_fail(w, "unmap", 0, 1, MEND_DRIVER_UNKNOWN);
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_FIELDS(report, mapped_bytes, MEND_MIB, stayed_bytes, MEND_MIB);
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_FIELDS(report, mapped_bytes, 0, stayed_bytes, 0, asleep_bytes, MEND_MIB);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, r->moved, 2 * MEND_MIB, NULL);
}

/* Importers may still hold memory that was exported once. */
SHAREABLE_TEST(pool_sleep_edges, exported_memory_is_not_said_to_be_released)
{
    mend_export_token token;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    void *exported = kit_alloc(w, MEND_MIB / 2, NULL);
    void *kept = kit_alloc_written(w, MEND_MIB / 2, NULL);
    void *lone = kit_alloc(w, MEND_MIB, NULL);
    EXPECT_OK(mend_export(w->pool, exported, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_export(w->pool, lone, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    kit_free(w, exported, NULL);
    kit_free(w, lone, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_FIELDS(report, asleep_bytes, MEND_MIB, released_bytes, 0);
    EXPECT_STATS(w, reserved_bytes, 0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_sleep(w->pool, NULL, &report));
    EXPECT_U64_EQ(MEND_MIB, report.released_bytes); /* the new chunk */
    EXPECT_ERROR(ASLEEP,
                 mend_export(w->pool, kept, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, kept, MEND_MIB / 2, NULL);
}

/* Neighbors in one chunk, of which one goes to a file. */
SHAREABLE_TEST(pool_sleep_edges, neighbours_are_kept_where_each_is_to_be)
{
    void *blocks[2];
    const mend_sleep_rule rules[] = {{1, MEND_BACKUP_HOST}, {2, MEND_BACKUP_FILE}};
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    for (uint64_t i = 0; i < 2; i++) {
        blocks[i] = kit_alloc_with(w, MEND_MIB / 2, NULL, .tag = 1 + i);
    }
    EXPECT_OK(mend_history_start(w->pool, 1));
    EXPECT_OK(mend_sleep(
        w->pool, KIT_OPTIONS(mend_sleep_options, .others = MEND_DISCARD, .keep_free = 2), &report));
    EXPECT_U64_EQ(MEND_MIB, report.dropped_bytes);
    kit_expect_event(w->pool, MEND_EVENT_SLEEP, MEND_CAUSE_SLEEP, MEND_MIB);
    EXPECT_OK(mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL)); /* another cause */
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_expect_event(w->pool, MEND_EVENT_WAKE, MEND_CAUSE_SLEEP, MEND_MIB);
    for (uint64_t i = 0; i < 2; i++) {
        kit_write(w, NULL, blocks[i], MEND_MIB / 2);
    }
    EXPECT_OK(mend_sleep(w->pool,
                         KIT_OPTIONS(mend_sleep_options, .rules = rules, .rule_count = 2,
                                     .directory = sleep_rig_directory()),
                         &report));
    EXPECT_FIELDS(report, host_bytes, MEND_MIB / 2, file_bytes, MEND_MIB / 2);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release_row(w, blocks, 2, MEND_MIB / 2, NULL);
}

SLEEP_TEST(pool_sleep_edges, a_refused_wake_tells_what_the_device_can_give)
{
    kit_free(w, kit_alloc(w, 3 * SLEEP_BLOCK, NULL), NULL);
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .keep_free = 1), NULL));
    EXPECT_STATS(w, reserved_bytes, 3 * SLEEP_BLOCK);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    mend_sim_set_foreign_bytes(w->sim, 0, 64 * MEND_MIB - 3 * SLEEP_BLOCK);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_STATS(w, effective_limit_bytes, 3 * SLEEP_BLOCK);
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
}

/* Also where a refused wake had given it the memory of a free chunk, which is free again. */
SLEEP_TEST(pool_sleep_edges, what_sleeps_is_told_to_be_in_no_chunk)
{
    mend_history_event events[64];
    uint64_t cursor = 0;
    size_t count = 0;
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    kit_free(w, kit_alloc_written(w, SLEEP_BLOCK, NULL), NULL);
    mend_sim_set_foreign_bytes(w->sim, 0, 64 * MEND_MIB - 3 * SLEEP_BLOCK);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_history_start(w->pool, 64));
    for (int i = 0; i < SLEEP_BLOCKS; i++) {
        kit_free(w, r->blocks[i], NULL);
        r->blocks[i] = NULL;
    }
    EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(events[0]), 64, &count));
    EXPECT_TRUE(count >= SLEEP_BLOCKS);
    for (size_t i = 0; i < count; i++) {
        EXPECT_U64_EQ(0, events[i].chunk);
    }
}

/* Nothing is asked of the driver that needs the context which it refused. */
KIT_RIG_EACH(pool_sleep_edges, an_end_without_a_context_leaves_pinned_memory, int, wakes, 2,
             mend_world, w, kit_open_default(w), mend_sim_destroy(w->sim))
{
    kit_alloc(w, 4 * MEND_MIB, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    if (wakes) {
        EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    }
    kit_fail(w, "context_push", 0, 100, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
    EXPECT_LEDGER(w, violations, 0);
    EXPECT_TRUE(mend_world_ledger(w).host_allocations > 0);
}
