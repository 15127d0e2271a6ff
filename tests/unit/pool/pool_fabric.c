/* Fabric handles beyond tokens: descriptions, both ways beside each other, devices, refusals. */
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/support/place.h"
#include "tests/unit/check/found.h"
#include "tests/unit/pool/share_rig.h"

#define FABRIC_TEST(suite, name)                                                                   \
    KIT_BARE_TEST(suite, name, share_rig, share_rig_open(r, true), share_rig_close(r))

FABRIC_TEST(pool_fabric, a_buffer_that_is_too_small_is_told_the_size)
{
    share_ticket t = {.by_fabric = true, .bytes = {0x5a}};
    mend_pool *pool = r->from.pool;
    unsigned char *block = kit_alloc(&r->from, 2 * CHUNK, r->from.streams[0]);
    const mend_export_options *by_fabric =
        KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC);
    uint64_t offset = 0;
    EXPECT_OK(mend_export(pool, block + 700, by_fabric, NULL, 0, &t.size, &offset));
    EXPECT_TRUE(t.size >= 64 + 72);
    EXPECT_U64_EQ(700, offset);
    const size_t needed = t.size;
    t.size = 0;
    EXPECT_OK(mend_export(pool, block, by_fabric, t.bytes, needed - 1, &t.size, NULL));
    EXPECT_U64_EQ(needed, t.size);
    EXPECT_INT_EQ(0x5a, t.bytes[0]);
    EXPECT_STATS(&r->from, exported_blocks, 0);
    EXPECT_OK(mend_export(pool, block, by_fabric, t.bytes, needed, &t.size, NULL));
    EXPECT_STATS(&r->from, exported_blocks, 1);
}

/* ---- devices that have none, refuse them, have nothing else, or have other pages ------------- */

/* A ticket of each way. */
enum { FILES, FABRIC };
#define TICKETS                                                                                    \
    {                                                                                              \
        {.by_fabric = false, .token = {{7}}},                                                      \
        {                                                                                          \
            .by_fabric = true, .bytes = { 7 }                                                      \
        }                                                                                          \
    }

KIT_TEST_IN(pool_fabric_devices, a_pool_of_the_older_setting_exports_by_file_alone,
            share_open(w, 1, MEND_SIM_FABRIC_WORKS))
{
    share_ticket by[] = TICKETS;
    void *block = kit_alloc(w, CHUNK, S(0));
    EXPECT_REFUSAL(NOT_SUPPORTED, "mend_pool_config.shareable = MEND_SHAREABLE_FABRIC",
                   share_try_export(w->pool, block, &by[FABRIC]));
    EXPECT_TRUE(by[FABRIC].size == 0 && by[FABRIC].bytes[0] == 7);
    EXPECT_OK(share_try_export(w->pool, block, &by[FILES]));
}

static const mend_driver *simulated;
static bool has_fabric;

static mend_status open_without_files(KIT_UNUSED const mend_driver *driver, int device,
                                      mend_device_info *info)
{
    mend_status status = simulated->device_open(simulated, device, info);
    info->share_file_descriptor = false;
    info->share_fabric = has_fabric;
    return status;
}

/* A pool beside the world's, on the same device, and a chunk of it. */
typedef struct beside {
    mend_driver driver;
    mend_pool *pool;
    void *block;
} beside;

static mend_result open_without_files_on(mend_world *w, int shareable, beside *b)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    simulated = w->driver;
    *b = (beside){.driver = *w->driver};
    b->driver.device_open = open_without_files;
    config.driver = &b->driver;
    config.shareable = shareable;
    mend_result result = mend_pool_create(&config, &b->pool);
    if (result == MEND_OK) {
        mend_test_place(b->pool, &(mend_test_sizes){.chunk_bytes = CHUNK});
        EXPECT_OK(mend_alloc(b->pool, CHUNK, S(0), &b->block));
    }
    return result;
}

KIT_TEST_IN(pool_fabric_devices, a_device_without_file_descriptors_exports_by_fabric_alone,
            share_open(w, 0, MEND_SIM_FABRIC_WORKS))
{
    beside b;
    share_ticket by[] = TICKETS;
    has_fabric = true;
    EXPECT_REFUSAL(NOT_SUPPORTED, "by file descriptors", open_without_files_on(w, 1, &b));
    ASSERT_RESULT(MEND_OK, open_without_files_on(w, MEND_SHAREABLE_FABRIC, &b));
    EXPECT_REFUSAL(NOT_SUPPORTED, "use MEND_EXPORT_FABRIC",
                   share_try_export(b.pool, b.block, &by[FILES]));
    EXPECT_INT_EQ(7, by[FILES].token.bytes[0]);
    EXPECT_OK(share_try_export(b.pool, b.block, &by[FABRIC]));
    share_close(w, share_import(w, &by[FABRIC]));
    EXPECT_OK(mend_pool_destroy(b.pool));
    has_fabric = false;
    EXPECT_REFUSAL(NOT_SUPPORTED, "by file descriptors or by fabric handles",
                   open_without_files_on(w, MEND_SHAREABLE_FABRIC, &b));
    EXPECT_PTR_EQ(NULL, b.pool);
}

/* MEND_CONF=shareable:auto, for programs that run on any device. */
KIT_TEST_IN(pool_fabric_devices, sharing_where_the_device_can,
            share_open(w, MEND_SHAREABLE_AUTO, MEND_SIM_FABRIC_WORKS))
{
    beside b;
    share_ticket by[] = TICKETS;
    void *block = kit_alloc(w, CHUNK, S(0));
    EXPECT_OK(share_try_export(w->pool, block, &by[FILES]));
    EXPECT_ERROR(NOT_SUPPORTED, share_try_export(w->pool, block, &by[FABRIC]));
    size_t size_bytes = 7;
    EXPECT_ERROR(NOT_SUPPORTED,
                 mend_export(w->pool, block,
                             KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC), NULL, 0,
                             &size_bytes, NULL));
    EXPECT_U64_EQ(7, size_bytes);
    has_fabric = true;
    ASSERT_RESULT(MEND_OK, open_without_files_on(w, MEND_SHAREABLE_AUTO, &b));
    EXPECT_REFUSAL(NOT_SUPPORTED, "on a device that can",
                   share_try_export(b.pool, b.block, &by[FILES]));
    EXPECT_OK(mend_pool_destroy(b.pool));
}

/* One that has none, or whose driver refuses them, and one of another page size: the chunks would
 * not fit its addresses. */
MEND_TEST(pool_fabric_devices, an_importer_that_cannot_says_so)
{
    for (int i = 0; i < 3; i++) {
        share_rig r;
        mend_world *w = &r.to;
        void *pointer = NULL;
        ASSERT_TRUE(share_rig_open(&r, true) && share_rig_fill(&r));
        kit_close(w);
        if (i < 2) {
            ASSERT_TRUE(share_open(w, 0, i == 0 ? MEND_SIM_FABRIC_REFUSED : MEND_SIM_FABRIC_NONE));
        } else {
            ASSERT_TRUE(kit_open_set(w, w->sim_config.page_bytes = 4 * CHUNK,
                                     w->sim_config.fabric = MEND_SIM_FABRIC_WORKS,
                                     w->placement.chunk_bytes = 4 * CHUNK));
        }
        EXPECT_REFUSAL(NOT_SUPPORTED, i < 2 ? "IMEX channel" : "a page of this device",
                       share_try_import(w->pool, &r.ticket, &pointer));
        EXPECT_PTR_EQ(NULL, pointer);
        share_rig_close(&r);
    }
}

/* ---- refused handles, and the validation of exports ------------------------------------------ */

KIT_RIG_EACH(pool_fabric_faults, a_driver_that_refuses_later_ends_new_exports_alone, int, i, 2,
             share_rig, r, share_rig_open(r, true) && share_rig_fill(r), share_rig_close(r))
{
    const int answers[] = {MEND_DRIVER_NOT_PERMITTED, MEND_DRIVER_NOT_SUPPORTED};
    mend_result result;
    kit_fail(&r->from, "create", 0, 1, answers[i]);
    void *later = kit_alloc(&r->from, 4 * CHUNK, r->from.streams[0]);
    kit_alloc(&r->from, CHUNK, r->from.streams[0]); /* later chunks have none, either */
    EXPECT_INT_EQ(MEND_SHARE_NONE,
                  r->from.pool->heap.chunks.properties.share_types & MEND_SHARE_FABRIC);
    EXPECT_ERROR(NOT_SUPPORTED, share_try_export(r->from.pool, later, &r->ticket));
    kit_expect_words(i == 0 ? "NOT_PERMITTED" : "NOT_SUPPORTED");
    EXPECT_TRUE(share_imports(r, &result));
    EXPECT_OK(share_try_export(r->from.pool, r->block, &r->ticket));
    EXPECT_STATS(&r->from, driver_failures, 1);
    EXPECT_TRUE(mend_world_check(&r->from));
}

SHARED_TEST(pool_fabric_faults, the_audit_reads_each_field_of_an_export, true)
{
    static const char counts[] = "a chunk has not the exports that it counts";
    static const char exports[] = "the exports are not the blocks that are marked";
    mend_export_token token;
    EXPECT_OK(share_token(r->from.pool, r->block, &token, BY_FILE));
    mend_heap *heap = &r->from.pool->heap;
    mend_chunk *chunk = mend_chunk_at(&heap->chunks, (uint64_t)(uintptr_t)r->block);
    mend_span *span = mend_heap_block_at(heap, (uint64_t)(uintptr_t)r->block);
    EXPECT_FOUND(chunk->exports[MEND_EXPORT_BY_FABRIC], 2, counts);
    EXPECT_FOUND(chunk->exports[MEND_EXPORT_BY_FILE], 2, counts);
    EXPECT_FOUND(chunk->memory.has_fabric, false, exports);
    EXPECT_FOUND(chunk->file, -2, exports);
    span->is_exported = false;
    expect_finding(heap, exports);
    span->is_exported = true;
}

/* Both creations are refused: then the fabric handles are not the reason. */
SHARED_TEST(pool_fabric_faults, a_refusal_of_all_memory_takes_no_fabric_handles_away, true)
{
    void *pointer = NULL;
    kit_fail(&r->from, "create", 0, 1000, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_TRUE(mend_alloc(r->from.pool, 4 * CHUNK, r->from.streams[0], &pointer) != MEND_OK);
    mend_sim_clear_faults(r->from.sim);
    void *block = kit_alloc(&r->from, 4 * CHUNK, r->from.streams[0]);
    EXPECT_OK(share_try_export(r->from.pool, block, &r->ticket));
}
