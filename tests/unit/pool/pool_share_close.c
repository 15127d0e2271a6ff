/* A closed import still has its mapping, until the work on it has ended. */
#include "mend/mend_share.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB

KIT_SETTING(share, w->placement.chunk_bytes = CHUNK, w->pool_config.shareable = MEND_SHAREABLE_ON);

/* Two pools of one device of 16 chunks: the other imports an export, closes it on a stream with
 * work there, and the exporter releases it. */
static void after_a_close(int detect_destroyed_streams,
                          void (*check)(mend_world *w, mend_pool *importer))
{
    mend_world w;
    mend_pool *importer = NULL;
    ASSERT_TRUE(kit_open_with(&w, 16 * CHUNK, share));
    mend_pool_config config = w.pool_config;
    config.detect_destroyed_streams = detect_destroyed_streams;
    ASSERT_RESULT(MEND_OK, mend_pool_create(&config, &importer));
    mend_export_token token = {{0}};
    void *theirs = NULL;
    void *block = kit_alloc(&w, 10 * CHUNK, w.streams[0]);
    EXPECT_OK(mend_export(w.pool, block, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_import(importer, &token, MEND_EXPORT_TOKEN_BYTES, &theirs, NULL));
    kit_use(&w, w.streams[1], theirs, 10 * CHUNK, 1000000);
    EXPECT_OK(mend_import_close(importer, theirs, w.streams[1]));
    kit_free(&w, block, w.streams[0]);
    EXPECT_OK(mend_trim(w.pool, 0, MEND_TRIM_WAIT, NULL));
    check(&w, importer);
    EXPECT_OK(mend_pool_destroy(importer));
    kit_close(&w);
}

static void expect_room_behind_a_wait(mend_world *w, mend_pool *importer)
{
    void *block = NULL;
    EXPECT_OK(mend_alloc(importer, 12 * CHUNK, S(2), &block));
    EXPECT_OK(mend_free(importer, block, S(2)));
}

MEND_TEST(pool_share_close, a_request_waits_for_the_work_behind_a_closed_import)
{
    for (int vanish = 0; vanish < 2; vanish++) {
        after_a_close(vanish, expect_room_behind_a_wait);
    }
}

static void expect_unmapped_by_a_trim(mend_world *w, mend_pool *importer)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_sim_advance(w->sim, 2000000);
    EXPECT_OK(mend_trim(importer, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_OK(mend_get_stats(importer, &stats));
    EXPECT_FIELDS(stats, retired_bytes, 0, mappings, 0, peak_mappings, 10);
}

MEND_TEST(pool_share_close, a_trim_unmaps_what_was_closed)
{
    for (int vanish = 0; vanish < 2; vanish++) {
        after_a_close(vanish, expect_unmapped_by_a_trim);
    }
}

/* One chunk is the whole device. */
KIT_SETTING(share_one_chunk, w->placement.chunk_bytes = 8 * CHUNK,
            w->placement.small_request_bytes = 512, w->pool_config.shareable = MEND_SHAREABLE_ON);

/* The pool would rather have a smaller chunk for the request, but the import holds the memory of
 * this one. */
KIT_TEST_IN(pool_share_close, memory_that_others_may_hold_is_not_given_back_for_a_better_chunk,
            kit_open_with(w, 8 * CHUNK, share_one_chunk))
{
    mend_export_token token = {{0}};
    void *theirs = NULL;
    void *block = kit_alloc(w, 4096, S(0));
    EXPECT_STATS(w, reserved_bytes, 8 * CHUNK);
    kit_expect_none(w, 8 * CHUNK, S(1), ""); /* the pool notes that it is full */
    EXPECT_OK(mend_export(w->pool, block, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_import(w->pool, &token, MEND_EXPORT_TOKEN_BYTES, &theirs, NULL));
    kit_free(w, block, S(0));
    kit_alloc(w, 2 * 4096, S(0));
    EXPECT_OK(mend_import_close(w->pool, theirs, MEND_NO_STREAM));
}

/* Nor for one of many parts: the newest free chunk is in an import. */
KIT_TEST_IN(pool_share_close, memory_that_others_may_hold_is_no_part_of_one_chunk,
            kit_open_with(w, 8 * CHUNK, share))
{
    mend_export_token token = {{0}};
    void *theirs = NULL, *block = NULL, *blocks[8];
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .in_one_chunk = 1);
    kit_alloc_row(w, blocks, 8, CHUNK, S(0));
    EXPECT_OK(mend_export(w->pool, blocks[7], NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL));
    EXPECT_OK(mend_import(w->pool, &token, MEND_EXPORT_TOKEN_BYTES, &theirs, NULL));
    kit_free_row(w, &blocks[5], 3, S(0));
    EXPECT_OK(mend_alloc_with(w->pool, 2 * CHUNK, S(0), options, &block));
    EXPECT_STATS(w, importers_bytes, 0, free_empty_bytes, CHUNK);
    EXPECT_OK(mend_import_close(w->pool, theirs, MEND_NO_STREAM));
    kit_free_row(w, blocks, 5, S(0));
    kit_free(w, block, S(0));
}
