/* A checkpoint of the process by another program: the simulated driver refuses it while other
 * processes may know of memory, and after mend_quiesce takes and restores everything. */
#include "mend/mend_range.h"
#include "mend/mend_share.h"
#include "mend/mend_sleep.h"
#include "tests/support/kit.h"

enum { BLOCKS = 6 };

static void shareable(mend_world *w)
{
    w->pool_config.shareable = 1;
    w->pool_config.host_bytes = 16 * MEND_MIB;
}

typedef struct scene {
    mend_world w;
    void *blocks[BLOCKS];
} scene;

static bool open_scene(scene *s, bool is_shareable)
{
    if (!kit_open_with(&s->w, 64 * MEND_MIB, is_shareable ? shareable : NULL)) {
        return false;
    }
    for (int i = 0; i < BLOCKS; i++) {
        s->blocks[i] = kit_alloc_written(&s->w, (uint64_t)(i + 1) * MEND_MIB / 2, s->w.streams[0]);
    }
    return true;
}

static void close_scene(scene *s)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (s->blocks[i] != NULL) {
            kit_release(&s->w, s->blocks[i], (uint64_t)(i + 1) * MEND_MIB / 2, s->w.streams[0]);
        }
    }
    kit_close(&s->w);
}

/* Checkpoints and restores, while others use the memory. */
static void checkpoint_and_restore(scene *s)
{
    const char *reason = "";
    const uint64_t held = mend_world_stats(&s->w).reserved_bytes;
    EXPECT_RESULT(MEND_OK, mend_sim_checkpoint(s->w.sim, &reason));
    EXPECT_STR_EQ("", reason);
    mend_sim_set_foreign_bytes(s->w.sim, 0, 64 * MEND_MIB - held + MEND_MIB);
    if (held > 0) {
        EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_sim_restore(s->w.sim));
    }
    mend_sim_set_foreign_bytes(s->w.sim, 0, 0);
    EXPECT_RESULT(MEND_OK, mend_sim_restore(s->w.sim));
    EXPECT_TRUE(mend_world_check(&s->w));
}

MEND_TEST(pool_quiesce, a_pool_that_shares_nothing_is_ready)
{
    scene s;
    mend_quiesce_report report = MEND_QUIESCE_REPORT_INIT;
    ASSERT_TRUE(open_scene(&s, false));
    kit_release(&s.w, s.blocks[5], 3 * MEND_MIB, s.w.streams[0]);
    s.blocks[5] = NULL;
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, &report));
    EXPECT_TRUE(report.released_bytes >= 3 * MEND_MIB);
    EXPECT_U64_EQ(0, report.exchanged_bytes);
    EXPECT_U64_EQ(mend_world_stats(&s.w).reserved_bytes, report.reserved_bytes);
    checkpoint_and_restore(&s);
    close_scene(&s);
}

MEND_TEST(pool_quiesce, shareable_memory_becomes_private)
{
    scene s;
    const char *reason = NULL;
    mend_quiesce_report report = MEND_QUIESCE_REPORT_INIT;
    ASSERT_TRUE(open_scene(&s, true));
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_sim_checkpoint(s.w.sim, &reason));
    EXPECT_STR_EQ("memory is exported, or was created to be shared with other processes", reason);
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, &report));
    EXPECT_U64_EQ(mend_world_stats(&s.w).reserved_bytes, report.exchanged_bytes);
    checkpoint_and_restore(&s);
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, &report)); /* nothing is left to do */
    EXPECT_U64_EQ(0, report.exchanged_bytes);
    mend_export_token token;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_export(s.w.pool, s.blocks[0], &token, NULL));
    kit_expect_words("mend_quiesce has made the memory");
    void *more = kit_alloc(&s.w, MEND_MIB, s.w.streams[0]);
    EXPECT_RESULT(MEND_OK,
                  mend_export(s.w.pool, more, &token, NULL)); /* what comes later is shareable */
    kit_free(&s.w, more, s.w.streams[0]);
    close_scene(&s);
}

MEND_TEST(pool_quiesce, exported_and_pinned_memory_is_named)
{
    scene s;
    mend_export_token token;
    ASSERT_TRUE(open_scene(&s, true));
    EXPECT_RESULT(MEND_OK, mend_export(s.w.pool, s.blocks[0], &token, NULL));
    EXPECT_RESULT(MEND_ERROR_PINNED, mend_quiesce(s.w.pool, NULL));
    kit_expect_words("1 blocks are exported and 0 imported");
    kit_release(&s.w, s.blocks[0], MEND_MIB / 2, s.w.streams[0]);
    s.blocks[0] = NULL;
    EXPECT_RESULT(MEND_OK, mend_pin(s.w.pool, s.blocks[1], MEND_MIB));
    EXPECT_RESULT(MEND_ERROR_PINNED, mend_quiesce(s.w.pool, NULL));
    kit_expect_words("was created to be shared, and is pinned");
    EXPECT_RESULT(MEND_OK, mend_unpin(s.w.pool, s.blocks[1], MEND_MIB));
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, NULL));
    EXPECT_RESULT(MEND_OK, mend_pin(s.w.pool, s.blocks[1], MEND_MIB));
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, NULL)); /* private memory may be pinned */
    EXPECT_RESULT(MEND_OK, mend_unpin(s.w.pool, s.blocks[1], MEND_MIB));
    checkpoint_and_restore(&s);
    close_scene(&s);
}

MEND_TEST(pool_quiesce, pages_of_ranges_are_private_or_named)
{
    for (int is_shareable = 0; is_shareable < 2; is_shareable++) {
        scene s;
        mend_range *range = NULL;
        mend_range_info info = MEND_RANGE_INFO_INIT;
        ASSERT_TRUE(open_scene(&s, is_shareable != 0));
        EXPECT_RESULT(MEND_OK, mend_range_create(s.w.pool, 16 * MEND_MIB, NULL, &range));
        EXPECT_RESULT(MEND_OK, mend_range_commit(range, 0, 2 * MEND_MIB, s.w.streams[0]));
        EXPECT_RESULT(MEND_OK, mend_range_get_info(range, &info));
        kit_write(&s.w, s.w.streams[0], info.base, 2 * MEND_MIB);
        EXPECT_RESULT(is_shareable ? MEND_ERROR_PINNED : MEND_OK, mend_quiesce(s.w.pool, NULL));
        if (is_shareable) {
            kit_expect_words("holds pages of a range; decommit them first");
        } else {
            checkpoint_and_restore(&s);
            kit_verify(&s.w, s.w.streams[0], info.base, 2 * MEND_MIB);
        }
        EXPECT_RESULT(MEND_OK, mend_range_decommit(range, 0, 2 * MEND_MIB, s.w.streams[0]));
        EXPECT_RESULT(MEND_OK, mend_range_destroy(range, s.w.streams[0]));
        EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, NULL));
        checkpoint_and_restore(&s);
        close_scene(&s);
    }
}

/* What sleeps, and graphs. */
MEND_TEST(pool_quiesce, sleepers_and_graphs_come_through)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, true));
    kit_begin_capture(&s.w, s.w.streams[0]);
    kit_write(&s.w, s.w.streams[0], s.blocks[0], MEND_MIB / 2);
    mend_sim_graph *graph = kit_end_capture(&s.w, s.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, NULL));
    checkpoint_and_restore(&s);
    kit_launch_graph(&s.w, graph, s.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_sleep(s.w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, NULL));
    checkpoint_and_restore(&s);
    EXPECT_RESULT(MEND_OK, mend_wake(s.w.pool, NULL, 0, NULL)); /* in shareable memory */
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, NULL));
    checkpoint_and_restore(&s);
    mend_sim_graph_destroy(s.w.sim, graph);
    close_scene(&s);
}

MEND_TEST(pool_quiesce, without_room_for_a_copy_it_says_so)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, true));
    void *rest = kit_alloc_written(&s.w, 64 * MEND_MIB - mend_world_stats(&s.w).reserved_bytes,
                                   s.w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_quiesce(s.w.pool, NULL));
    kit_expect_words("put blocks to sleep first");
    kit_free(&s.w, rest, s.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, NULL));
    checkpoint_and_restore(&s);
    close_scene(&s);
}

MEND_TEST(pool_quiesce, refused_arguments_and_captures)
{
    scene s;
    mend_quiesce_report report = {0};
    ASSERT_TRUE(open_scene(&s, true));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_quiesce(NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_quiesce(s.w.pool, &report));
    kit_begin_capture(&s.w, s.w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(s.w.pool, s.blocks[0], s.w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_quiesce(s.w.pool, NULL));
    mend_sim_graph_destroy(s.w.sim, kit_end_capture(&s.w, s.w.streams[0]));
    close_scene(&s);
}

static const char *const calls[] = {
    "context_push", "context_synchronize", "create", "map", "set_access", "copy", "unmap",
    "release"};

/* Fails in one call: nothing is lost, and the next call of it works. */
static bool fail_once(const char *call, uint64_t after, bool *failed)
{
    scene s;
    if (!open_scene(&s, true)) {
        return false;
    }
    kit_fail(&s.w, call, after, 1, MEND_DRIVER_UNKNOWN);
    const mend_stats before = mend_world_stats(&s.w);
    const mend_result result = mend_quiesce(s.w.pool, NULL);
    *failed = result != MEND_OK || mend_world_stats(&s.w).driver_failures > before.driver_failures;
    mend_sim_clear_faults(s.w.sim);
    EXPECT_RESULT(MEND_OK, mend_audit(s.w.pool));
    EXPECT_RESULT(MEND_OK, mend_quiesce(s.w.pool, NULL));
    checkpoint_and_restore(&s);
    close_scene(&s);
    return !mend_test_has_failed();
}

MEND_TEST(pool_quiesce, every_driver_call_fails)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        bool failed = true;
        for (uint64_t after = 0; failed; after++) {
            ASSERT_TRUE(fail_once(calls[i], after, &failed));
            ASSERT_TRUE(after < 1000);
            ASSERT_TRUE(after > 0 || failed);
        }
    }
}

/* The model itself. */
MEND_TEST(pool_quiesce, the_device_notices_calls_of_a_checkpointed_process)
{
    scene s;
    ASSERT_TRUE(open_scene(&s, false));
    s.w.violations_meant = 1;
    EXPECT_RESULT(MEND_OK, mend_sim_checkpoint(s.w.sim, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_checkpoint(s.w.sim, NULL));
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    EXPECT_INT_EQ(MEND_DRIVER_NOT_PERMITTED,
                  s.w.driver->memory_info(s.w.driver, &free_bytes, &total_bytes));
    EXPECT_RESULT(MEND_OK, mend_sim_restore(s.w.sim));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_restore(s.w.sim));
    close_scene(&s);
}
