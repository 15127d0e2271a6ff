/* mend_export_fabric, mend_import_fabric: two devices of this process play two processes. */
#include <string.h>

#include "mend/mend_share.h"
#include "share/description.h"
#include "tests/support/files.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB
enum { MOST_DESCRIPTION = 2048 };

typedef struct rig {
    mend_world from; /* exports */
    mend_world to;   /* imports; not shareable */
    int files;       /* open before there was anything */
} rig;

typedef struct description {
    size_t size;
    unsigned char bytes[MOST_DESCRIPTION];
} description;

static bool open_world(mend_world *w, int shareable, mend_sim_fabric fabric)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 16 * CHUNK;
    w->sim_config.fabric = fabric;
    w->placement.chunk_bytes = CHUNK;
    w->pool_config.shareable = shareable;
    return kit_open(w);
}

static bool open_rig(rig *r)
{
    r->files = mend_test_open_files();
    return open_world(&r->from, MEND_SHAREABLE_FABRIC, MEND_SIM_FABRIC_WORKS) &&
           open_world(&r->to, 0, MEND_SIM_FABRIC_WORKS);
}

static void close_rig(rig *r)
{
    kit_close(&r->to);
    kit_close(&r->from);
    EXPECT_TRUE(mend_test_files_are(r->files));
}

static description describe(mend_world *w, const void *pointer)
{
    description d = {.size = 0};
    EXPECT_RESULT(MEND_OK,
                  mend_export_fabric(w->pool, pointer, d.bytes, sizeof(d.bytes), &d.size, NULL));
    return d;
}

static void *import_of(mend_world *w, const description *d)
{
    void *pointer = NULL;
    EXPECT_RESULT(MEND_OK, mend_import_fabric(w->pool, d->bytes, d->size, &pointer, NULL));
    return pointer;
}

static void close_import(mend_world *w, void *pointer)
{
    EXPECT_RESULT(MEND_OK, mend_import_close(w->pool, pointer, MEND_NO_STREAM));
}

static bool are_equal(const description *a, const description *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

MEND_TEST(pool_fabric, both_see_the_same_bytes)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    const uint64_t bytes = 3 * CHUNK + 512;
    unsigned char *ours = kit_alloc(&r.from, bytes, r.from.streams[0]);
    memset(ours, 7, bytes);
    const description d = describe(&r.from, ours);
    void *pointer = NULL;
    uint64_t size_bytes = 0;
    EXPECT_RESULT(MEND_OK, mend_import_fabric(r.to.pool, d.bytes, d.size, &pointer, &size_bytes));
    unsigned char *theirs = pointer;
    ASSERT_TRUE(theirs != NULL && theirs != ours);
    EXPECT_U64_EQ(bytes, size_bytes);
    EXPECT_TRUE(memcmp(ours, theirs, bytes) == 0);
    memset(theirs, 9, bytes);
    EXPECT_TRUE(memcmp(ours, theirs, bytes) == 0);
    EXPECT_TRUE(mend_world_check(&r.from) && mend_world_check(&r.to));
    close_import(&r.to, theirs);
    kit_free(&r.from, ours, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_fabric, an_import_takes_addresses_for_its_chunks_alone)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *ours = kit_alloc(&r.from, CHUNK + 4096, r.from.streams[0]);
    const description d = describe(&r.from, ours);
    mend_stats from = mend_world_stats(&r.from);
    void *theirs = import_of(&r.to, &d);
    mend_stats to = mend_world_stats(&r.to);
    EXPECT_U64_EQ(1, from.exported_blocks);
    EXPECT_U64_EQ(from.pinned_bytes, from.exported_bytes);
    EXPECT_U64_EQ(1, to.imports);
    EXPECT_U64_EQ(from.exported_bytes, to.imported_bytes);
    EXPECT_U64_EQ(to.imported_bytes, to.mapped_bytes);
    EXPECT_U64_EQ(0, to.reserved_bytes);
    EXPECT_U64_EQ((d.size - 64) / 72, to.mappings);
    close_import(&r.to, theirs);
    to = mend_world_stats(&r.to);
    EXPECT_U64_EQ(0, to.imports + to.imported_bytes + to.mapped_bytes + to.mappings);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.to).foreign_chunks);
    kit_free(&r.from, ours, r.from.streams[0]);
    from = mend_world_stats(&r.from);
    EXPECT_U64_EQ(0, from.exported_blocks + from.exported_bytes + from.pinned_bytes);
    close_rig(&r);
}

MEND_TEST(pool_fabric, a_buffer_that_is_too_small_is_told_the_size)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    unsigned char bytes[MOST_DESCRIPTION];
    unsigned char *block = kit_alloc(&r.from, 2 * CHUNK, r.from.streams[0]);
    size_t size = 0;
    uint64_t offset = 0;
    EXPECT_RESULT(MEND_OK, mend_export_fabric(r.from.pool, block + 700, NULL, 0, &size, &offset));
    EXPECT_TRUE(size >= 64 + 72);
    EXPECT_U64_EQ(700, offset);
    memset(bytes, 0x5a, sizeof(bytes));
    const size_t needed = size;
    size = 0;
    EXPECT_RESULT(MEND_OK, mend_export_fabric(r.from.pool, block, bytes, needed - 1, &size, NULL));
    EXPECT_TRUE(size == needed);
    EXPECT_INT_EQ(0x5a, bytes[0]);
    EXPECT_U64_EQ(0, mend_world_stats(&r.from).exported_blocks);
    EXPECT_RESULT(MEND_OK, mend_export_fabric(r.from.pool, block, bytes, needed, &size, NULL));
    EXPECT_U64_EQ(1, mend_world_stats(&r.from).exported_blocks);
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_fabric, a_block_has_one_description_as_long_as_it_lives)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    unsigned char *block = kit_alloc(&r.from, 4096, r.from.streams[0]);
    unsigned char *beside = kit_alloc(&r.from, 4096, r.from.streams[0]);
    const description first = describe(&r.from, block);
    const description again = describe(&r.from, block + 100);
    const description other = describe(&r.from, beside);
    EXPECT_TRUE(are_equal(&first, &again));
    EXPECT_FALSE(are_equal(&first, &other));
    EXPECT_U64_EQ(2, mend_world_stats(&r.from).exported_blocks);
    uint64_t calls = mend_sim_call_count(r.from.sim);
    (void)describe(&r.from, block);
    EXPECT_TRUE(mend_sim_call_count(r.from.sim) == calls);
    kit_free(&r.from, block, r.from.streams[0]);
    unsigned char *next = kit_alloc(&r.from, 4096, r.from.streams[0]);
    EXPECT_PTR_EQ(block, next);
    const description later = describe(&r.from, next);
    EXPECT_FALSE(are_equal(&first, &later)); /* the same place in the same chunk */
    kit_free(&r.from, next, r.from.streams[0]);
    kit_free(&r.from, beside, r.from.streams[0]);
    close_rig(&r);
}

/* The driver is asked once for each chunk, whatever becomes of the blocks in it. */
MEND_TEST(pool_fabric, a_chunk_keeps_its_handle)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *kept = kit_alloc(&r.from, 4096, r.from.streams[0]);
    void *block = kit_alloc(&r.from, 4096, r.from.streams[0]);
    (void)describe(&r.from, block);
    kit_free(&r.from, block, r.from.streams[0]);
    kit_fail(&r.from, "export_handle", 0, 1, MEND_DRIVER_UNKNOWN);
    (void)describe(&r.from, kept);
    mend_sim_clear_faults(r.from.sim);
    kit_free(&r.from, kept, r.from.streams[0]);
    close_rig(&r);
}

/* Neither way ends the other, and one pin serves both. */
MEND_TEST(pool_fabric, a_block_is_exported_in_both_ways)
{
    for (int first = 0; first < 2; first++) {
        rig r;
        mend_export_token token = {{0}};
        void *by_file = NULL;
        description d = {.size = 0};
        ASSERT_TRUE(open_rig(&r));
        void *block = kit_alloc(&r.from, 2 * CHUNK, r.from.streams[0]);
        if (first == 0) {
            d = describe(&r.from, block);
        }
        EXPECT_RESULT(MEND_OK, mend_export(r.from.pool, block, &token, NULL));
        if (first == 1) {
            d = describe(&r.from, block);
        }
        r.files = mend_test_open_files(); /* with the socket, and the files of this block */
        mend_stats from = mend_world_stats(&r.from);
        EXPECT_U64_EQ(1, from.exported_blocks);
        EXPECT_U64_EQ(from.pinned_bytes, from.exported_bytes);
        EXPECT_TRUE(mend_world_check(&r.from));
        void *by_fabric = import_of(&r.to, &d);
        EXPECT_RESULT(MEND_OK, mend_import(r.to.pool, &token, &by_file, NULL));
        EXPECT_TRUE(by_file != by_fabric);
        memset(by_file, 3, 2 * CHUNK);
        EXPECT_TRUE(memcmp(by_file, by_fabric, 2 * CHUNK) == 0);
        close_import(&r.to, by_file);
        close_import(&r.to, by_fabric);
        const uint64_t chunks = from.exported_bytes / CHUNK;
        kit_free(&r.from, block, r.from.streams[0]);
        from = mend_world_stats(&r.from);
        EXPECT_U64_EQ(0, from.exported_blocks + from.exported_bytes + from.pinned_bytes);
        EXPECT_TRUE(mend_world_check(&r.from));
        EXPECT_TRUE(chunks > 0);
        kit_close(&r.to);
        kit_close(&r.from);
    }
}

MEND_TEST(pool_fabric, imports_of_one_description_are_one_mapping)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *block = kit_alloc(&r.from, 2 * CHUNK, r.from.streams[0]);
    const description d = describe(&r.from, block);
    void *first = import_of(&r.to, &d);
    uint64_t calls = mend_sim_call_count(r.to.sim);
    EXPECT_PTR_EQ(first, import_of(&r.to, &d));
    EXPECT_TRUE(mend_sim_call_count(r.to.sim) == calls);
    EXPECT_U64_EQ(1, mend_world_stats(&r.to).imports);
    close_import(&r.to, first);
    EXPECT_U64_EQ(1, mend_world_stats(&r.to).imports);
    close_import(&r.to, first);
    EXPECT_U64_EQ(0, mend_world_stats(&r.to).imports);
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_fabric, the_exporter_may_import_its_own)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    unsigned char *block = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    const description d = describe(&r.from, block);
    unsigned char *alias = import_of(&r.from, &d);
    memset(block, 5, CHUNK);
    EXPECT_INT_EQ(5, alias[CHUNK - 1]);
    EXPECT_TRUE(mend_world_check(&r.from));
    close_import(&r.from, alias);
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_fabric, an_import_outlives_the_block_and_the_exporter)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    unsigned char *block = kit_alloc(&r.from, 2 * CHUNK, r.from.streams[0]);
    memset(block, 7, 2 * CHUNK);
    const description d = describe(&r.from, block);
    unsigned char *theirs = import_of(&r.to, &d);
    kit_free(&r.from, block, r.from.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_trim_wait(r.from.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r.from).reserved_bytes);
    EXPECT_TRUE(mend_world_ledger(&r.from).chunks > 0); /* the importer holds them */
    EXPECT_INT_EQ(7, theirs[2 * CHUNK - 1]);
    EXPECT_PTR_EQ(theirs, import_of(&r.to, &d)); /* it is mapped already */
    close_import(&r.to, theirs);
    /* The pool has given the memory back, but the importer still has it. */
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(r.from.pool));
    mend_sim_destroy(r.from.sim);
    EXPECT_INT_EQ(7, theirs[0]);
    close_import(&r.to, theirs);
    void *none = NULL;
    EXPECT_RESULT(MEND_ERROR_UNREACHABLE,
                  mend_import_fabric(r.to.pool, d.bytes, d.size, &none, NULL));
    kit_expect_words("has ended, or gave it back");
    EXPECT_PTR_EQ(NULL, none);
    EXPECT_TRUE(mend_world_check(&r.to));
    kit_close(&r.to);
    EXPECT_TRUE(mend_test_files_are(r.files));
}

MEND_TEST(pool_fabric, an_exported_block_is_neither_moved_nor_compacted)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *block = kit_alloc(&r.from, 4096, r.from.streams[0]);
    (void)describe(&r.from, block);
    EXPECT_TRUE(mend_world_stats(&r.from).pinned_bytes > 0);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_unpin(r.from.pool, block, 4096));
    mend_sim_ledger before = mend_world_ledger(&r.from);
    EXPECT_RESULT(MEND_OK, mend_defrag(r.from.pool, NULL, NULL));
    mend_sim_ledger after = mend_world_ledger(&r.from);
    EXPECT_U64_EQ(before.chunks, after.chunks);
    EXPECT_U64_EQ(0, mend_world_stats(&r.from).compactions);
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_fabric, damaged_descriptions_are_refused)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *block = kit_alloc(&r.from, CHUNK, r.from.streams[0]);
    const description d = describe(&r.from, block);
    void *pointer = NULL;
    for (size_t i = 0; i < d.size; i++) {
        description other = d;
        other.bytes[i] ^= 1;
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                      mend_import_fabric(r.to.pool, other.bytes, other.size, &pointer, NULL));
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                      mend_import_fabric(r.to.pool, d.bytes, i, &pointer, NULL));
    }
    kit_expect_words("the description is cut");
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_U64_EQ(0, mend_world_stats(&r.to).driver_failures);
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_fabric, misuse_has_its_errors)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    unsigned char bytes[MOST_DESCRIPTION];
    size_t size = 0;
    void *pointer = NULL;
    char *block = kit_alloc(&r.from, 4096, r.from.streams[0]);
    char *freed = kit_alloc(&r.from, 4096, r.from.streams[0]);
    kit_free(&r.from, freed, r.from.streams[0]);
    mend_pool *pool = r.from.pool;
    const mend_result invalid = MEND_ERROR_INVALID_ARGUMENT;
    EXPECT_RESULT(invalid, mend_export_fabric(NULL, block, bytes, sizeof(bytes), &size, NULL));
    EXPECT_RESULT(invalid, mend_export_fabric(pool, NULL, bytes, sizeof(bytes), &size, NULL));
    EXPECT_RESULT(invalid, mend_export_fabric(pool, block, NULL, sizeof(bytes), &size, NULL));
    EXPECT_RESULT(invalid, mend_export_fabric(pool, block, bytes, sizeof(bytes), NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER,
                  mend_export_fabric(pool, &size, bytes, sizeof(bytes), &size, NULL));
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE,
                  mend_export_fabric(pool, freed, bytes, sizeof(bytes), &size, NULL));
    EXPECT_RESULT(invalid, mend_import_fabric(NULL, bytes, sizeof(bytes), &pointer, NULL));
    EXPECT_RESULT(invalid, mend_import_fabric(pool, NULL, sizeof(bytes), &pointer, NULL));
    EXPECT_RESULT(invalid, mend_import_fabric(pool, bytes, sizeof(bytes), NULL, NULL));
    EXPECT_RESULT(invalid, mend_import_fabric(pool, bytes, 0, &pointer, NULL));
    EXPECT_TRUE(size == 0 && pointer == NULL);
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = r.from.driver;
    config.shareable = -1;
    EXPECT_RESULT(invalid, mend_pool_create(&config, &pool));
    config.shareable = 3;
    EXPECT_RESULT(invalid, mend_pool_create(&config, &pool));
    kit_expect_words("shareable is not 0, 1 or 2");
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}
