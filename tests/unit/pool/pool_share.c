/* mend_export, mend_import, mend_import_close: two devices of this process play two processes. */
#include <string.h>

#include "mend/mend_share.h"
#include "share/wire.h"
#include "tests/support/files.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB

typedef struct rig {
    mend_world from; /* exports */
    mend_world to;   /* imports */
    int files;       /* open before there was anything */
} rig;

static void share(mend_world *w)
{
    w->placement.chunk_bytes = CHUNK;
    w->pool_config.shareable = 1;
}

/* The process opens its socket once, which is none of the files that the rig counts. */
static bool open_socket(void)
{
    mend_world w;
    mend_export_token token;
    if (!kit_open_with(&w, 8 * CHUNK, share)) {
        return false;
    }
    void *block = kit_alloc(&w, CHUNK, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_export(w.pool, block, &token, NULL));
    kit_free(&w, block, w.streams[0]);
    kit_close(&w);
    return !mend_test_has_failed();
}

static bool open_rig(rig *r)
{
    if (!open_socket()) {
        return false;
    }
    r->files = mend_test_open_files();
    return kit_open_with(&r->from, 16 * CHUNK, share) && kit_open_with(&r->to, 16 * CHUNK, share);
}

static void close_rig(rig *r)
{
    kit_close(&r->to);
    kit_close(&r->from);
    EXPECT_TRUE(mend_test_files_are(r->files));
}

static mend_export_token export_of(rig *r, const void *pointer)
{
    mend_export_token token = {{0}};
    EXPECT_RESULT(MEND_OK, mend_export(r->from.pool, pointer, &token, NULL));
    return token;
}

static void *import_of(rig *r, const mend_export_token *token)
{
    void *pointer = NULL;
    EXPECT_RESULT(MEND_OK, mend_import(r->to.pool, token, &pointer, NULL));
    return pointer;
}

static void close_import(rig *r, void *pointer)
{
    EXPECT_RESULT(MEND_OK, mend_import_close(r->to.pool, pointer, MEND_NO_STREAM));
}

static void synchronize(mend_world *w)
{
    EXPECT_INT_EQ(0, w->driver->context_push(w->driver, w->info.context));
    EXPECT_INT_EQ(0, w->driver->context_synchronize(w->driver));
    EXPECT_INT_EQ(0, w->driver->context_pop(w->driver));
}

/* What one writes the other reads. */
MEND_TEST(pool_share, both_see_the_same_bytes)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    uint64_t bytes = 3 * CHUNK + 512;
    unsigned char *ours = kit_alloc(&r.from, bytes, r.from.streams[0]);
    mend_export_token token = export_of(&r, ours);
    uint64_t size_bytes = 0;
    void *pointer = NULL;
    EXPECT_RESULT(MEND_OK, mend_import(r.to.pool, &token, &pointer, &size_bytes));
    unsigned char *theirs = pointer;
    EXPECT_U64_EQ(bytes, size_bytes);
    ASSERT_TRUE(theirs != NULL && theirs != ours);
    kit_launch(&r.from, r.from.streams[0], MEND_SIM_WORK_WRITE, ours, bytes, 7, 0);
    synchronize(&r.from);
    kit_launch(&r.to, r.to.streams[0], MEND_SIM_WORK_VERIFY, theirs, bytes, 7, 0);
    kit_launch(&r.to, r.to.streams[0], MEND_SIM_WORK_WRITE, theirs, bytes, 9, 0);
    synchronize(&r.to);
    kit_launch(&r.from, r.from.streams[0], MEND_SIM_WORK_VERIFY, ours, bytes, 9, 0);
    synchronize(&r.from);
    EXPECT_TRUE(memcmp(ours, theirs, bytes) == 0);
    EXPECT_TRUE(mend_world_check(&r.from) && mend_world_check(&r.to));
    close_import(&r, theirs);
    kit_free(&r.from, ours, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_share, an_import_takes_addresses_for_its_chunks_alone)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK + 4096, r.from.streams[0]);
    mend_export_token token = export_of(&r, ours);
    mend_stats from = mend_world_stats(&r.from);
    void *theirs = import_of(&r, &token);
    mend_stats stats = mend_world_stats(&r.to);
    EXPECT_U64_EQ(1, from.exported_blocks);
    EXPECT_U64_EQ(from.pinned_bytes, from.exported_bytes);
    EXPECT_U64_EQ(1, stats.imports);
    EXPECT_U64_EQ(from.exported_bytes, stats.imported_bytes);
    EXPECT_U64_EQ(stats.imported_bytes, stats.mapped_bytes);
    EXPECT_U64_EQ(0, stats.reserved_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.to).chunks);
    EXPECT_U64_EQ(stats.mappings, mend_world_ledger(&r.to).foreign_chunks);
    close_import(&r, theirs);
    stats = mend_world_stats(&r.to);
    EXPECT_U64_EQ(0, stats.imports + stats.imported_bytes + stats.mapped_bytes + stats.mappings);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.to).foreign_chunks);
    kit_free(&r.from, ours, r.from.streams[0]);
    EXPECT_U64_EQ(0, mend_world_stats(&r.from).exported_blocks);
    EXPECT_U64_EQ(0, mend_world_stats(&r.from).pinned_bytes);
    close_rig(&r);
}

MEND_TEST(pool_share, a_block_has_one_token_as_long_as_it_lives)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    unsigned char *block = kit_alloc(&r.from, 4096, r.from.streams[0]);
    unsigned char *beside = kit_alloc(&r.from, 4096, r.from.streams[0]);
    mend_export_token first;
    mend_export_token again;
    mend_export_token other = export_of(&r, beside);
    uint64_t offset_bytes = 77;
    EXPECT_RESULT(MEND_OK, mend_export(r.from.pool, block, &first, &offset_bytes));
    EXPECT_U64_EQ(0, offset_bytes);
    EXPECT_RESULT(MEND_OK, mend_export(r.from.pool, block + 1000, &again, &offset_bytes));
    EXPECT_U64_EQ(1000, offset_bytes);
    EXPECT_TRUE(memcmp(&first, &again, sizeof(first)) == 0);
    EXPECT_TRUE(memcmp(&first, &other, sizeof(first)) != 0);
    EXPECT_U64_EQ(2, mend_world_stats(&r.from).exported_blocks);
    kit_free(&r.from, block, r.from.streams[0]);
    void *next = kit_alloc(&r.from, 4096, r.from.streams[0]);
    EXPECT_PTR_EQ(block, next);
    again = export_of(&r, next);
    EXPECT_TRUE(memcmp(&first, &again, sizeof(first)) != 0);
    kit_free(&r.from, next, r.from.streams[0]);
    kit_free(&r.from, beside, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_share, imports_of_one_token_are_one_mapping)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    mend_export_token token = export_of(&r, ours);
    void *theirs = import_of(&r, &token);
    EXPECT_PTR_EQ(theirs, import_of(&r, &token));
    EXPECT_U64_EQ(1, mend_world_stats(&r.to).imports);
    close_import(&r, theirs);
    kit_use(&r.to, r.to.streams[0], theirs, CHUNK, 10);
    synchronize(&r.to);
    close_import(&r, theirs);
    EXPECT_U64_EQ(0, mend_world_stats(&r.to).imports);
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_import_close(r.to.pool, theirs, MEND_NO_STREAM));
    kit_free(&r.from, ours, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_share, an_import_outlives_the_block_and_the_exporter)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    kit_launch(&r.from, r.from.streams[0], MEND_SIM_WORK_WRITE, ours, CHUNK, 5, 0);
    synchronize(&r.from);
    mend_export_token token = export_of(&r, ours);
    void *theirs = import_of(&r, &token);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(r.from.pool));
    EXPECT_U64_EQ(1, mend_world_ledger(&r.from).chunks); /* the importer's mapping holds it */
    kit_launch(&r.to, r.to.streams[0], MEND_SIM_WORK_VERIFY, theirs, CHUNK, 5, 0);
    synchronize(&r.to);
    void *none = NULL;
    EXPECT_RESULT(MEND_OK, mend_import(r.to.pool, &token, &none, NULL)); /* it is mapped */
    close_import(&r, theirs);
    close_import(&r, theirs);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.from).chunks);
    none = NULL;
    EXPECT_RESULT(MEND_ERROR_UNREACHABLE, mend_import(r.to.pool, &token, &none, NULL));
    kit_expect_words("the block was freed");
    EXPECT_PTR_EQ(NULL, none);
    kit_close(&r.to);
    mend_sim_destroy(r.from.sim);
    EXPECT_TRUE(mend_test_files_are(r.files));
}

MEND_TEST(pool_share, an_importer_that_ends_leaves_nothing_at_the_exporter)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    mend_export_token token = export_of(&r, ours);
    void *theirs = import_of(&r, &token);
    kit_use(&r.to, r.to.streams[0], theirs, CHUNK, 1000);
    kit_close(&r.to); /* with the import, after its work */
    kit_free(&r.from, ours, r.from.streams[0]);
    uint64_t released_bytes = 0;
    synchronize(&r.from);
    EXPECT_RESULT(MEND_OK, mend_trim(r.from.pool, 0, &released_bytes));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.from).chunks);
    kit_close(&r.from);
    EXPECT_TRUE(mend_test_files_are(r.files));
}

/* As long as the work runs the mapping stays; the judge watches. */
MEND_TEST(pool_share, a_close_on_a_stream_unmaps_behind_its_work)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    mend_export_token token = export_of(&r, ours);
    void *theirs = import_of(&r, &token);
    kit_use(&r.to, r.to.streams[1], theirs, CHUNK, 1000);
    EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, theirs, r.to.streams[1]));
    EXPECT_U64_EQ(0, mend_world_stats(&r.to).imports);
    EXPECT_U64_EQ(CHUNK, mend_world_stats(&r.to).retired_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&r.to).host_waits);
    synchronize(&r.to);
    EXPECT_RESULT(MEND_OK, mend_trim(r.to.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r.to).mappings);
    kit_free(&r.from, ours, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_share, a_close_without_a_stream_waits_and_unmaps)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    mend_export_token token = export_of(&r, ours);
    void *theirs = import_of(&r, &token);
    kit_use(&r.to, r.to.streams[2], theirs, CHUNK, 1000);
    close_import(&r, theirs);
    EXPECT_U64_EQ(0, mend_world_stats(&r.to).mappings);
    kit_free(&r.from, ours, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_share, a_capture_forbids_a_close_that_would_need_to_know_its_end)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    mend_export_token token = export_of(&r, ours);
    void *theirs = import_of(&r, &token);
    kit_begin_capture(&r.to, r.to.streams[0]);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_import_close(r.to.pool, theirs, r.to.streams[0]));
    EXPECT_U64_EQ(1, mend_world_stats(&r.to).imports);
    mend_sim_graph_destroy(r.to.sim, kit_end_capture(&r.to, r.to.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, theirs, r.to.streams[0]));
    kit_free(&r.from, ours, r.from.streams[0]);
    close_rig(&r);
}

/* Neither the limit nor the statistics of the importer's own memory know of it. */
MEND_TEST(pool_share, imported_memory_counts_for_nobody_but_its_exporter)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, 12 * CHUNK, r.from.streams[0]);
    mend_export_token token = export_of(&r, ours);
    void *theirs = import_of(&r, &token);
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_free(r.to.pool, theirs, r.to.streams[0]));
    void *own = kit_alloc(&r.to, 16 * CHUNK, r.to.streams[0]);
    EXPECT_U64_EQ(16 * CHUNK, mend_world_stats(&r.to).reserved_bytes);
    EXPECT_TRUE(mend_world_check(&r.to));
    close_import(&r, theirs);
    kit_free(&r.to, own, r.to.streams[0]);
    kit_free(&r.from, ours, r.from.streams[0]);
    close_rig(&r);
}

/* Its chunk stays where it is, beside blocks that come and go, until it is freed. */
MEND_TEST(pool_share, an_exported_block_is_neither_moved_nor_compacted)
{
    rig r;
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    ASSERT_TRUE(open_rig(&r));
    mend_stream stream = r.from.streams[0];
    void *large = kit_alloc(&r.from, CHUNK, stream);
    kit_free(&r.from, large, stream);
    void *kept = kit_alloc(&r.from, CHUNK / 4, stream);
    (void)export_of(&r, kept);
    EXPECT_RESULT(MEND_OK, mend_defrag(r.from.pool, NULL, &report));
    EXPECT_U64_EQ(0, report.compactions);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_unpin(r.from.pool, kept, CHUNK / 4));
    EXPECT_RESULT(MEND_OK, mend_pin(r.from.pool, kept, CHUNK / 4));
    EXPECT_RESULT(MEND_OK, mend_unpin(r.from.pool, kept, CHUNK / 4));
    EXPECT_TRUE(mend_world_stats(&r.from).pinned_bytes > 0);
    EXPECT_TRUE(mend_world_check(&r.from));
    kit_free(&r.from, kept, stream);
    EXPECT_U64_EQ(0, mend_world_stats(&r.from).pinned_bytes);
    close_rig(&r);
}

MEND_TEST(pool_share, the_exporter_may_import_its_own)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    unsigned char *block = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    mend_export_token token = export_of(&r, block);
    void *alias = NULL;
    EXPECT_RESULT(MEND_OK, mend_import(r.from.pool, &token, &alias, NULL));
    block[100] = 42;
    EXPECT_INT_EQ(42, ((unsigned char *)alias)[100]);
    EXPECT_TRUE(mend_world_check(&r.from));
    EXPECT_RESULT(MEND_OK, mend_import_close(r.from.pool, alias, r.from.streams[0]));
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}

/* Far more than one message holds. */
MEND_TEST(pool_share, a_block_of_many_chunks_comes_in_order)
{
    mend_world from;
    mend_world to;
    mend_export_token token;
    enum { CHUNKS = 3 * MEND_SHARE_BATCH / 2 };
    void *pointer = NULL;
    ASSERT_TRUE(kit_open_with(&from, 256 * CHUNK, share));
    ASSERT_TRUE(kit_open_with(&to, 256 * CHUNK, share));
    unsigned char *ours = kit_alloc(&from, (uint64_t)CHUNKS * CHUNK, from.streams[0]);
    EXPECT_TRUE(mend_world_stats(&from).chunks >= CHUNKS);
    EXPECT_RESULT(MEND_OK, mend_export(from.pool, ours, &token, NULL));
    EXPECT_RESULT(MEND_OK, mend_import(to.pool, &token, &pointer, NULL));
    const unsigned char *theirs = pointer;
    for (uint64_t i = 0; i < CHUNKS; i++) {
        ours[i * CHUNK] = (unsigned char)i;
    }
    for (uint64_t i = 0; i < CHUNKS && theirs != NULL; i++) {
        EXPECT_INT_EQ((unsigned char)i, theirs[i * CHUNK]);
    }
    EXPECT_RESULT(MEND_OK, mend_import_close(to.pool, pointer, MEND_NO_STREAM));
    kit_free(&from, ours, from.streams[0]);
    kit_close(&to);
    kit_close(&from);
}

MEND_TEST(pool_share, damaged_tokens_are_refused)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    const mend_export_token token = export_of(&r, ours);
    void *pointer = NULL;
    for (size_t i = 0; i < sizeof(token); i++) {
        mend_export_token other = token;
        other.bytes[i] ^= 1;
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import(r.to.pool, &other, &pointer, NULL));
    }
    mend_export_token cut = token;
    memset(cut.bytes + 40, 0, sizeof(cut) - 40);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import(r.to.pool, &cut, &pointer, NULL));
    mend_token_content content;
    EXPECT_TRUE(mend_token_read(&token, &content));
    content.number += 1000;
    mend_token_write(&content, &cut);
    EXPECT_RESULT(MEND_ERROR_UNREACHABLE, mend_import(r.to.pool, &cut, &pointer, NULL));
    content.name[0] ^= 1;
    mend_token_write(&content, &cut);
    EXPECT_RESULT(MEND_ERROR_UNREACHABLE, mend_import(r.to.pool, &cut, &pointer, NULL));
    kit_expect_words("has ended");
    EXPECT_PTR_EQ(NULL, pointer);
    kit_free(&r.from, ours, r.from.streams[0]);
    close_rig(&r);
}

static void configure_alone(mend_world *w)
{
    w->placement.chunk_bytes = CHUNK;
}

MEND_TEST(pool_share, a_pool_that_is_not_shareable_exports_nothing)
{
    mend_world w;
    mend_export_token token = {{7}};
    ASSERT_TRUE(kit_open_with(&w, 8 * CHUNK, configure_alone));
    void *block = kit_alloc(&w, CHUNK, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_export(w.pool, block, &token, NULL));
    kit_expect_words("mend_pool_config.shareable");
    EXPECT_INT_EQ(7, token.bytes[0]);
    kit_free(&w, block, w.streams[0]);
    kit_close(&w);
}

static mend_status open_without_sharing(const mend_driver *driver, int device,
                                        mend_device_info *info)
{
    const mend_driver *inner = driver->state;
    mend_status status = inner->device_open(inner, device, info);
    info->share_file_descriptor = false;
    return status;
}

static mend_status count_devices(const mend_driver *driver, int *count)
{
    const mend_driver *inner = driver->state;
    return inner->device_count(inner, count);
}

static mend_status close_device(const mend_driver *driver, int device)
{
    const mend_driver *inner = driver->state;
    return inner->device_close(inner, device);
}

MEND_TEST(pool_share, a_device_that_cannot_share_refuses_the_pool)
{
    mend_world w;
    mend_pool *pool = NULL;
    ASSERT_TRUE(kit_open_default(&w));
    mend_driver driver = *w.driver;
    mend_driver inner = *w.driver;
    driver.state = &inner;
    driver.device_count = count_devices;
    driver.device_open = open_without_sharing;
    driver.device_close = close_device;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = &driver;
    config.shareable = 1;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_pool_create(&config, &pool));
    kit_expect_words("cannot share memory");
    EXPECT_PTR_EQ(NULL, pool);
    kit_close(&w);
}

MEND_TEST(pool_share, misuse_has_its_errors)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    mend_export_token token = {{0}};
    void *pointer = NULL;
    char *block = kit_alloc(&r.from, 4096, r.from.streams[0]);
    char *freed = kit_alloc(&r.from, 4096, r.from.streams[0]);
    kit_free(&r.from, freed, r.from.streams[0]);
    mend_pool *pool = r.from.pool;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_export(NULL, block, &token, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_export(pool, NULL, &token, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_export(pool, block, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_export(pool, &token, &token, NULL));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_export(pool, freed, &token, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import(NULL, &token, &pointer, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import(pool, NULL, &pointer, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import(pool, &token, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import(pool, &token, &pointer, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import_close(NULL, block, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import_close(pool, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_import_close(pool, block, MEND_EVERY_STREAM));
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_import_close(pool, block, NULL));
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}
