/* A checkpoint of the process by another program: the simulated driver refuses it while other
 * processes may know of memory, and after mend_prepare_checkpoint takes and restores everything. */
#include <string.h>

#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "tests/unit/pool/share_rig.h"

enum { BLOCKS = 6 };

KIT_SETTING(shareable, w->pool_config.shareable = MEND_SHAREABLE_ON);
KIT_SETTING(slow, w->pool_config.shareable = MEND_SHAREABLE_ON, w->sim_config.copy_ns = 1000000);

typedef struct scene {
    mend_world w;
    void *blocks[BLOCKS];
} scene;

static bool open_scene(scene *s, void (*set)(mend_world *))
{
    if (!kit_open_with(&s->w, 64 * MEND_MIB, set)) {
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
        kit_release(&s->w, s->blocks[i], (uint64_t)(i + 1) * MEND_MIB / 2, s->w.streams[0]);
    }
    kit_close(&s->w);
}

/* Checkpoints and restores, while others use the memory. */
static void checkpoint_and_restore(scene *s)
{
    const char *reason = "";
    const uint64_t held = mend_world_stats(&s->w).reserved_bytes;
    EXPECT_OK(mend_sim_checkpoint(s->w.sim, &reason));
    EXPECT_STR_EQ("", reason);
    mend_sim_set_foreign_bytes(s->w.sim, 0, 64 * MEND_MIB - held + MEND_MIB);
    if (held > 0) {
        EXPECT_ERROR(OUT_OF_MEMORY, mend_sim_restore(s->w.sim));
    }
    mend_sim_set_foreign_bytes(s->w.sim, 0, 0);
    EXPECT_OK(mend_sim_restore(s->w.sim));
    EXPECT_TRUE(mend_world_check(&s->w));
}

#define SCENE_TEST(suite, name, opening) KIT_RIG_TEST(suite, name, scene, opening, close_scene(r))

SCENE_TEST(pool_prepare_checkpoint, shareable_memory_becomes_private, open_scene(r, shareable))
{
    const char *reason = NULL;
    uint64_t cursor = 0;
    mend_history_event events[64];
    size_t count = 0;
    mend_prepare_checkpoint_report report = MEND_PREPARE_CHECKPOINT_REPORT_INIT;
    EXPECT_ERROR(NOT_SUPPORTED, mend_sim_checkpoint(w->sim, &reason));
    EXPECT_STR_EQ("memory is exported, or was created to be shared with other processes", reason);
    EXPECT_OK(mend_history_start(w->pool, 64));
    EXPECT_OK(mend_prepare_checkpoint(w->pool, &report));
    EXPECT_U64_EQ(mend_world_stats(w).reserved_bytes, report.exchanged_bytes);
    EXPECT_TRUE(mend_world_stats(w).peak_reserved_bytes > report.exchanged_bytes);
    EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(*events), 64, &count));
    for (size_t i = 0; i < count; i++) {
        EXPECT_TRUE(events[i].kind != MEND_EVENT_COMPACT && events[i].cause == MEND_CAUSE_SLEEP);
    }
    checkpoint_and_restore(r);
    EXPECT_OK(mend_prepare_checkpoint(w->pool, &report)); /* nothing is left to do */
    EXPECT_U64_EQ(0, report.exchanged_bytes);
    mend_export_token token;
    EXPECT_REFUSAL(NOT_SUPPORTED, "mend_prepare_checkpoint has made the memory",
                   share_token(w->pool, r->blocks[0], &token, BY_FILE));
    void *more = kit_alloc(w, MEND_MIB, S(0));
    EXPECT_OK(share_token(w->pool, more, &token, BY_FILE)); /* later memory is shareable */
}

/* Memory that others could not open does not become a part of a block that they may open. */
SCENE_TEST(pool_prepare_checkpoint, private_memory_wakes_nothing, open_scene(r, shareable))
{
    mend_export_token token;
    mend_wake_report report = MEND_WAKE_REPORT_INIT;
    const mend_sleep_options *keeps = KIT_OPTIONS(mend_sleep_options, .keep_free = 2);
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL));
    EXPECT_OK(mend_sleep(w->pool, keeps, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, &report));
    EXPECT_U64_EQ(0, report.reused_bytes);
    EXPECT_OK(share_token(w->pool, r->blocks[0], &token, BY_FILE));
}

SCENE_TEST(pool_prepare_checkpoint, without_room_for_a_copy_it_fails, open_scene(r, shareable))
{
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    const uint64_t held_bytes = mend_world_stats(w).reserved_bytes;
    void *plain = kit_alloc_with(w, MEND_MIB, S(0), .plain = 1); /* has the room */
    EXPECT_OK(mend_set_limit(w->pool, held_bytes + MEND_MIB));
    EXPECT_REFUSAL(OUT_OF_MEMORY, "put blocks to sleep first",
                   mend_prepare_checkpoint(w->pool, NULL));
    EXPECT_LEDGER(w, chunk_bytes, held_bytes);
    kit_free(w, plain, S(0));
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL));
}

/* The driver refuses the waits behind the copies, which run on. */
SCENE_TEST(pool_prepare_checkpoint, what_copies_write_to_stays_until_they_end, open_scene(r, slow))
{
    kit_fail(w, "context_synchronize", 1, 1, 999); /* not the one at the beginning */
    kit_fail(w, "stream_synchronize", 0, 2, 999);
    EXPECT_ERROR(DRIVER, mend_prepare_checkpoint(w->pool, NULL));
    mend_sim_clear_faults(w->sim);
    EXPECT_TRUE(mend_world_ledger(w).pending_work > 0);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL));
}

SCENE_TEST(pool_prepare_checkpoint, exported_and_pinned_memory_is_named, open_scene(r, shareable))
{
    mend_export_token token;
    EXPECT_OK(share_token(w->pool, r->blocks[0], &token, BY_FILE));
    EXPECT_REFUSAL(PINNED, "1 blocks are exported and 0 imported",
                   mend_prepare_checkpoint(w->pool, NULL));
    mend_pool *importer = kit_pool(w);
    void *imported = NULL;
    EXPECT_OK(mend_import(importer, &token, MEND_EXPORT_TOKEN_BYTES, &imported, NULL));
    EXPECT_REFUSAL(PINNED, "0 blocks are exported and 1 imported",
                   mend_prepare_checkpoint(importer, NULL));
    EXPECT_OK(mend_import_close(importer, imported, S(0)));
    EXPECT_OK(mend_pool_destroy(importer));
    kit_release(w, r->blocks[0], MEND_MIB / 2, S(0));
    r->blocks[0] = NULL;
    EXPECT_OK(mend_pin(w->pool, r->blocks[1], MEND_MIB));
    EXPECT_REFUSAL(PINNED, "was created to be shared, and is pinned",
                   mend_prepare_checkpoint(w->pool, NULL));
    EXPECT_OK(mend_unpin(w->pool, r->blocks[1], MEND_MIB));
    mend_range *range = NULL;
    EXPECT_OK(mend_range_create(w->pool, MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_commit(range, 0, MEND_MIB, S(0)));
    EXPECT_REFUSAL(PINNED, "pages of a range", mend_prepare_checkpoint(w->pool, NULL));
    EXPECT_OK(mend_range_destroy(range, S(0)));
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL));
    EXPECT_OK(mend_pin(w->pool, r->blocks[1], MEND_MIB));
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL)); /* private memory may be pinned */
    EXPECT_OK(mend_unpin(w->pool, r->blocks[1], MEND_MIB));
    checkpoint_and_restore(r);
}

SCENE_TEST(pool_prepare_checkpoint, sleepers_and_graphs_come_through, open_scene(r, shareable))
{
    kit_begin_capture(w, S(0));
    kit_write(w, S(0), r->blocks[0], MEND_MIB / 2);
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL));
    checkpoint_and_restore(r);
    kit_launch_graph(w, graph, S(0));
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL));
    checkpoint_and_restore(r);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL)); /* in shareable memory */
    EXPECT_TRUE(mend_world_stats(w).backup_cache_bytes > 0);
    EXPECT_OK(mend_prepare_checkpoint(w->pool, NULL));
    EXPECT_LEDGER(w, host_allocations, 0);
    checkpoint_and_restore(r);
    mend_sim_graph_destroy(w->sim, graph);
}

/* As another thread would, while the first copy is made. */
static void free_meanwhile(void *context, const char *call, KIT_UNUSED int is_after)
{
    scene *s = context;
    for (int i = 0; i < BLOCKS && strcmp(call, "create") == 0; i++) {
        void *block = s->blocks[i];
        s->blocks[i] = NULL;
        EXPECT_OK(mend_free(s->w.pool, block, s->w.streams[0])); /* or of NULL: nothing */
    }
}

SCENE_TEST(pool_prepare_checkpoint, what_others_free_meanwhile_goes_back, open_scene(r, shareable))
{
    mend_prepare_checkpoint_report report = MEND_PREPARE_CHECKPOINT_REPORT_INIT;
    const uint64_t held = mend_world_stats(w).reserved_bytes;
    kit_observed(w, free_meanwhile, r, EXPECT_OK(mend_prepare_checkpoint(w->pool, &report)));
    EXPECT_FIELDS(report, reserved_bytes, 0, released_bytes, held);
}

KIT_TEST(pool_prepare_checkpoint, the_report_counts_plain_blocks)
{
    mend_prepare_checkpoint_report report = MEND_PREPARE_CHECKPOINT_REPORT_INIT;
    void *chunk = kit_alloc(w, 4 * MEND_MIB, S(0));
    void *plain = kit_alloc_with(w, 8 * MEND_MIB, S(0), .plain = 1);
    EXPECT_OK(mend_prepare_checkpoint(w->pool, &report));
    EXPECT_U64_EQ(mend_world_stats(w).reserved_bytes, report.reserved_bytes);
    kit_free(w, chunk, S(0));
    kit_free(w, plain, S(0));
}
