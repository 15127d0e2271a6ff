/* Exports and imports by fabric handles that fail: everything is as before, and the next one
 * works. */
#include <string.h>

#include "layout/locate.h"
#include "mend/mend_share.h"
#include "observe/audit.h"
#include "pool/pool.h"
#include "tests/support/files.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB

typedef struct rig {
    mend_world from;
    mend_world to;
    unsigned char *block; /* two chunks and a bit */
    size_t size;          /* of the description */
    unsigned char description[2048];
} rig;

static bool open_world(mend_world *w, int shareable)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 16 * CHUNK;
    w->sim_config.fabric = MEND_SIM_FABRIC_WORKS;
    w->placement.chunk_bytes = CHUNK;
    w->pool_config.shareable = shareable;
    return kit_open(w);
}

static mend_result export_block(rig *r, const void *block)
{
    return mend_export_fabric(r->from.pool, block, r->description, sizeof(r->description), &r->size,
                              NULL);
}

static bool open_rig(rig *r)
{
    *r = (rig){.block = NULL};
    if (!open_world(&r->from, MEND_SHAREABLE_FABRIC) || !open_world(&r->to, 0)) {
        return false;
    }
    r->block = kit_alloc(&r->from, 2 * CHUNK + 4096, r->from.streams[0]);
    memset(r->block, 7, 2 * CHUNK);
    EXPECT_RESULT(MEND_OK, export_block(r, r->block));
    return !mend_test_has_failed();
}

static void close_rig(rig *r)
{
    kit_free(&r->from, r->block, r->from.streams[0]);
    kit_close(&r->to);
    kit_close(&r->from);
}

static mend_result import(rig *r, void **pointer)
{
    return mend_import_fabric(r->to.pool, r->description, r->size, pointer, NULL);
}

/* Imports, looks and closes. *result is that of the first call that failed. */
static bool imports(rig *r, mend_result *result)
{
    void *pointer = NULL;
    *result = import(r, &pointer);
    if (*result != MEND_OK) {
        EXPECT_PTR_EQ(NULL, pointer);
        return false;
    }
    EXPECT_INT_EQ(7, ((unsigned char *)pointer)[2 * CHUNK - 1]);
    *result = mend_import_close(r->to.pool, pointer, r->to.streams[0]);
    return *result == MEND_OK;
}

static void fail_at(mend_world *w, uint64_t position, int status)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.after_calls = position;
    fault.count = 1;
    fault.status = status;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(w->sim, &fault));
}

static bool is_expected(mend_result result)
{
    return result == MEND_ERROR_DRIVER || result == MEND_ERROR_OUT_OF_MEMORY ||
           result == MEND_ERROR_OUT_OF_ADDRESSES || result == MEND_ERROR_NOT_SUPPORTED ||
           result == MEND_ERROR_UNREACHABLE || result == MEND_ERROR_UNKNOWN_STREAM; /* the close */
}

/* Each driver call of an import, and of the close behind it. */
MEND_TEST(pool_fabric_faults, an_import_fails_at_any_call_and_changes_nothing)
{
    const int answers[] = {MEND_DRIVER_OUT_OF_MEMORY, MEND_DRIVER_NOT_PERMITTED,
                           MEND_DRIVER_INVALID_HANDLE, MEND_DRIVER_NOT_READY};
    rig r;
    mend_result result;
    ASSERT_TRUE(open_rig(&r));
    uint64_t before = mend_sim_call_count(r.to.sim);
    EXPECT_TRUE(imports(&r, &result));
    const uint64_t calls = mend_sim_call_count(r.to.sim) - before;
    EXPECT_TRUE(calls > 10);
    const int files = mend_test_open_files();
    unsigned failures = 0;
    for (size_t a = 0; a < sizeof(answers) / sizeof(answers[0]); a++) {
        for (uint64_t i = 0; i < calls; i++) {
            fail_at(&r.to, i, answers[a]);
            if (!imports(&r, &result)) {
                failures++;
                EXPECT_TRUE(is_expected(result));
                kit_expect_error(result);
            }
            mend_sim_clear_faults(r.to.sim);
            if (mend_world_stats(&r.to).imports > 0) { /* the close failed */
                void *pointer = NULL;
                EXPECT_RESULT(MEND_OK, import(&r, &pointer));
                EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, pointer, MEND_NO_STREAM));
                EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, pointer, MEND_NO_STREAM));
            }
            EXPECT_RESULT(MEND_OK, mend_trim(r.to.pool, 0, NULL));
            EXPECT_U64_EQ(0, mend_world_stats(&r.to).mappings);
            EXPECT_U64_EQ(0, mend_world_ledger(&r.to).foreign_chunks);
            EXPECT_TRUE(mend_world_check(&r.to));
            EXPECT_TRUE(imports(&r, &result));
            EXPECT_RESULT(MEND_OK, mend_trim(r.to.pool, 0, NULL));
        }
    }
    EXPECT_TRUE(failures > 10);
    EXPECT_TRUE(mend_world_check(&r.from)); /* sees who has hung up */
    EXPECT_TRUE(mend_test_files_are(files));
    close_rig(&r);
}

MEND_TEST(pool_fabric_faults, an_export_that_the_driver_refuses_changes_nothing)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    unsigned refused = 0;
    for (uint64_t position = 0; position < 4; position++) {
        void *block = kit_alloc(&r.from, 2 * CHUNK + 4096, r.from.streams[1]);
        mend_stats before = mend_world_stats(&r.from);
        kit_fail(&r.from, "export_handle", position, 1, MEND_DRIVER_NOT_PERMITTED);
        memset(r.description, 0x5a, sizeof(r.description));
        mend_result result = export_block(&r, block);
        mend_sim_clear_faults(r.from.sim);
        if (result != MEND_OK) {
            refused++;
            kit_expect_error(MEND_ERROR_DRIVER);
            mend_stats after = mend_world_stats(&r.from);
            EXPECT_U64_EQ(before.exported_bytes, after.exported_bytes);
            EXPECT_U64_EQ(before.exported_blocks, after.exported_blocks);
            EXPECT_U64_EQ(before.pinned_bytes, after.pinned_bytes);
            EXPECT_INT_EQ(0x5a, r.description[0]);
        }
        EXPECT_TRUE(mend_world_check(&r.from));
        EXPECT_RESULT(MEND_OK, export_block(&r, block));
        kit_free(&r.from, block, r.from.streams[1]);
        EXPECT_RESULT(MEND_OK, mend_trim_wait(r.from.pool, 0, NULL)); /* new chunks next time */
    }
    EXPECT_TRUE(refused > 0);
    close_rig(&r);
}

/* One way is refused: the other goes on. */
MEND_TEST(pool_fabric_faults, an_export_in_the_second_way_that_fails_leaves_the_first)
{
    rig r;
    mend_export_token token;
    ASSERT_TRUE(open_rig(&r));
    mend_stats before = mend_world_stats(&r.from);
    kit_fail(&r.from, "export_handle", 1, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_export(r.from.pool, r.block, &token, NULL));
    mend_sim_clear_faults(r.from.sim);
    mend_stats after = mend_world_stats(&r.from);
    EXPECT_U64_EQ(1, after.exported_blocks);
    EXPECT_U64_EQ(before.pinned_bytes, after.pinned_bytes);
    EXPECT_U64_EQ(before.exported_bytes, after.exported_bytes);
    EXPECT_TRUE(mend_world_check(&r.from));
    mend_result result;
    EXPECT_TRUE(imports(&r, &result));
    EXPECT_RESULT(MEND_OK, mend_export(r.from.pool, r.block, &token, NULL));
    EXPECT_TRUE(mend_world_check(&r.from));
    close_rig(&r);
}

/* The driver gives fabric handles at first and then refuses: blocks that have them keep them. */
MEND_TEST(pool_fabric_faults, a_driver_that_refuses_later_ends_new_exports_alone)
{
    const int answers[] = {MEND_DRIVER_NOT_PERMITTED, MEND_DRIVER_NOT_SUPPORTED};
    for (int i = 0; i < 2; i++) {
        rig r;
        mend_result result;
        ASSERT_TRUE(open_rig(&r));
        kit_fail(&r.from, "create", 0, 1, answers[i]);
        void *later = kit_alloc(&r.from, 4 * CHUNK, r.from.streams[0]);
        EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, export_block(&r, later));
        kit_expect_words(i == 0 ? "NOT_PERMITTED" : "NOT_SUPPORTED");
        EXPECT_TRUE(imports(&r, &result));
        EXPECT_RESULT(MEND_OK, export_block(&r, r.block));
        EXPECT_U64_EQ(1, mend_world_stats(&r.from).driver_failures);
        EXPECT_TRUE(mend_world_check(&r.from));
        kit_free(&r.from, later, r.from.streams[0]);
        close_rig(&r);
    }
}

static void expect_finding(const rig *r, int line, const char *words)
{
    char finding[MEND_AUDIT_FINDING_BYTES] = "";
    bool is_right = mend_observe_audit(&r->from.pool->heap, finding);
    if (is_right || strstr(finding, words) == NULL) {
        mend_test_fail(__FILE__, line, "expected \"%s\", the audit says \"%s\"", words, finding);
    }
}

/* With another value in one place the audit must say these words. */
#define EXPECT_FOUND(place, wrong, words)                                                          \
    do {                                                                                           \
        __typeof__(place) fabric_right = place;                                                    \
        (place) = wrong;                                                                           \
        expect_finding(&r, __LINE__, words);                                                       \
        (place) = fabric_right;                                                                    \
    } while (0)

MEND_TEST(pool_fabric_faults, the_audit_reads_each_field_of_an_export)
{
    static const char counts[] = "a chunk has not the exports that it counts";
    static const char exports[] = "the exports are not the blocks that are marked";
    rig r;
    mend_export_token token;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_RESULT(MEND_OK, mend_export(r.from.pool, r.block, &token, NULL));
    mend_heap *heap = &r.from.pool->heap;
    mend_chunk *chunk = mend_chunk_at(&heap->chunks, (uint64_t)(uintptr_t)r.block);
    mend_span *span = mend_heap_block_at(heap, (uint64_t)(uintptr_t)r.block);
    EXPECT_FOUND(chunk->exports[MEND_EXPORT_BY_FABRIC], 2, counts);
    EXPECT_FOUND(chunk->exports[MEND_EXPORT_BY_FILE], 2, counts);
    EXPECT_FOUND(chunk->has_fabric, false, exports);
    EXPECT_FOUND(chunk->file, -2, exports);
    EXPECT_FOUND(span->is_exported, false, exports);
    EXPECT_FOUND(heap->chunks.exported_bytes, 1, "chunks");
    EXPECT_TRUE(mend_world_check(&r.from));
    close_rig(&r);
}

/* Both creations are refused: then the fabric handles are not the reason. */
MEND_TEST(pool_fabric_faults, a_refusal_of_all_memory_takes_no_fabric_handles_away)
{
    rig r;
    void *pointer = NULL;
    ASSERT_TRUE(open_rig(&r));
    kit_fail(&r.from, "create", 0, 1000, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_TRUE(mend_alloc(r.from.pool, 4 * CHUNK, r.from.streams[0], &pointer) != MEND_OK);
    mend_sim_clear_faults(r.from.sim);
    void *block = kit_alloc(&r.from, 4 * CHUNK, r.from.streams[0]);
    EXPECT_RESULT(MEND_OK, export_block(&r, block));
    kit_free(&r.from, block, r.from.streams[0]);
    close_rig(&r);
}

MEND_TEST(pool_fabric_faults, host_memory_that_fails_changes_nothing)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    void *block = kit_alloc(&r.from, CHUNK, r.from.streams[1]);
    mend_result imported = MEND_ERROR_OUT_OF_HOST_MEMORY;
    mend_result exported = MEND_ERROR_OUT_OF_HOST_MEMORY;
    uint64_t failed = 0;
    for (uint64_t i = 0; exported != MEND_OK && i < 100; i++) {
        mend_test_fail_host_memory_after(i, 1);
        mend_test_watch_host_memory(true);
        exported = export_block(&r, block);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        failed += exported != MEND_OK;
        EXPECT_TRUE(mend_world_check(&r.from));
    }
    for (uint64_t i = 0; imported != MEND_OK && i < 100; i++) {
        void *pointer = NULL;
        mend_test_fail_host_memory_after(i, 1);
        mend_test_watch_host_memory(true);
        imported = import(&r, &pointer);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        failed += imported != MEND_OK;
        EXPECT_TRUE(mend_world_check(&r.to));
        if (imported == MEND_OK) {
            EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, pointer, MEND_NO_STREAM));
        }
    }
    EXPECT_TRUE(failed > 1);
    EXPECT_TRUE(exported == MEND_OK && imported == MEND_OK);
    kit_free(&r.from, block, r.from.streams[1]);
    close_rig(&r);
}

MEND_TEST(pool_fabric_faults, a_lost_context_refuses_imports)
{
    rig r;
    void *pointer = NULL;
    ASSERT_TRUE(open_rig(&r));
    kit_break(&r.to, "import_handle");
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, import(&r, &pointer));
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, import(&r, &pointer));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST,
                  mend_export_fabric(r.to.pool, r.block, NULL, 0, &r.size, NULL));
    (void)mend_pool_destroy(r.to.pool);
    mend_sim_destroy(r.to.sim);
    kit_free(&r.from, r.block, r.from.streams[0]);
    kit_close(&r.from);
}
