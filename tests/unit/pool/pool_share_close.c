/* A closed import still has its mapping, until the work on it has ended. */
#include "mend/mend_share.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB

KIT_SETTING(share, w->placement.chunk_bytes = CHUNK, w->pool_config.shareable = MEND_SHAREABLE_ON);

/* Two pools of one device of 16 chunks: the other imports an export, closes it on a stream with
 * work there, and the exporter releases it. */
typedef struct close_rig {
    mend_world w;
    mend_pool *importer;
} close_rig;

static bool open_closed(close_rig *r, int detect_destroyed_streams)
{
    mend_world *w = &r->w;
    mend_export_token token = {{0}};
    void *theirs = NULL;
    if (!kit_open_with(w, 16 * CHUNK, share)) {
        return false;
    }
    mend_pool_config config = w->pool_config;
    config.detect_destroyed_streams = detect_destroyed_streams;
    EXPECT_OK(mend_pool_create(&config, &r->importer));
    void *block = kit_alloc(w, 10 * CHUNK, S(0));
    EXPECT_OK(mend_export(w->pool, block, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_import(r->importer, &token, MEND_EXPORT_TOKEN_BYTES, &theirs, NULL));
    kit_use(w, S(1), theirs, 10 * CHUNK, 1000000);
    EXPECT_OK(mend_import_close(r->importer, theirs, S(1)));
    kit_free(w, block, S(0));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    return !mend_test_has_failed();
}

static void end_importer(close_rig *r)
{
    EXPECT_OK(mend_pool_destroy(r->importer));
    kit_close(&r->w);
}

#define CLOSED_TEST(suite, name)                                                                   \
    KIT_RIG_EACH(suite, name, int, vanish, 2, close_rig, r, open_closed(r, vanish), end_importer(r))

CLOSED_TEST(pool_share_close, a_request_waits_for_the_work_behind_a_closed_import)
{
    void *block = NULL;
    EXPECT_OK(mend_alloc(r->importer, 12 * CHUNK, r->w.streams[2], &block));
    EXPECT_OK(mend_free(r->importer, block, r->w.streams[2]));
}

CLOSED_TEST(pool_share_close, a_trim_unmaps_what_was_closed)
{
    mend_sim_advance(r->w.sim, 2000000);
    EXPECT_OK(mend_trim(r->importer, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_FIELDS(kit_stats(r->importer), retired_bytes, 0, mappings, 0, peak_mappings, 10);
}

/* The newest free chunk is in an import. */
KIT_TEST_IN(pool_share_close, memory_that_others_may_hold_is_no_part_of_one_chunk,
            kit_open_with(w, 8 * CHUNK, share))
{
    mend_export_token token = {{0}};
    void *theirs = NULL, *blocks[8];
    kit_alloc_row(w, blocks, 8, CHUNK, S(0));
    EXPECT_OK(mend_export(w->pool, blocks[7], NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_import(w->pool, &token, MEND_EXPORT_TOKEN_BYTES, &theirs, NULL));
    kit_free_row(w, &blocks[5], 3, S(0));
    kit_alloc_with(w, 2 * CHUNK, S(0), .in_one_chunk = 1);
    EXPECT_STATS(w, importers_bytes, 0, free_empty_bytes, CHUNK);
    EXPECT_OK(mend_import_close(w->pool, theirs, MEND_NO_STREAM));
}
