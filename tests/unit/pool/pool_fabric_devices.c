/* Fabric handles on devices that have none, refuse them, have nothing else, or have other pages. */
#include <string.h>

#include "mend/mend_share.h"
#include "tests/support/kit.h"
#include "tests/support/place.h"

#define CHUNK MEND_MIB
enum { MOST_DESCRIPTION = 2048 };

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

static description describe(mend_world *w, const void *pointer)
{
    description d = {.size = 0};
    EXPECT_RESULT(MEND_OK,
                  mend_export_fabric(w->pool, pointer, d.bytes, sizeof(d.bytes), &d.size, NULL));
    return d;
}

MEND_TEST(pool_fabric_devices, a_pool_of_the_older_setting_exports_by_file_alone)
{
    mend_world w;
    ASSERT_TRUE(open_world(&w, 1, MEND_SIM_FABRIC_WORKS));
    void *block = kit_alloc(&w, CHUNK, w.streams[0]);
    size_t size = 77;
    unsigned char bytes[MOST_DESCRIPTION] = {0x5a};
    mend_export_token token;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED,
                  mend_export_fabric(w.pool, block, bytes, sizeof(bytes), &size, NULL));
    kit_expect_words("mend_pool_config.shareable = 2");
    EXPECT_TRUE(size == 77 && bytes[0] == 0x5a);
    EXPECT_RESULT(MEND_OK, mend_export(w.pool, block, &token, NULL));
    kit_free(&w, block, w.streams[0]);
    kit_close(&w);
}

/* The device has no fabric handles, or claims them and the driver refuses: file descriptors work,
 * and the log says so once. */
static void count_warnings(void *context, mend_log_level level, const char *line)
{
    unsigned *count = context;
    *count += level == MEND_LOG_WARNING && strstr(line, "IMEX") != NULL;
}

MEND_TEST(pool_fabric_devices, without_fabric_a_pool_goes_on_by_file)
{
    for (int refused = 0; refused < 2; refused++) {
        mend_world w;
        unsigned warnings = 0;
        size_t size = 0;
        unsigned char bytes[MOST_DESCRIPTION];
        mend_export_token token;
        mend_log_set_sink(count_warnings, &warnings);
        ASSERT_TRUE(open_world(&w, MEND_SHAREABLE_FABRIC,
                               refused ? MEND_SIM_FABRIC_REFUSED : MEND_SIM_FABRIC_NONE));
        void *blocks[2] = {kit_alloc(&w, CHUNK, w.streams[0]),
                           kit_alloc(&w, 3 * CHUNK, w.streams[0])};
        for (int i = 0; i < 2; i++) {
            EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED,
                          mend_export_fabric(w.pool, blocks[i], bytes, sizeof(bytes), &size, NULL));
            kit_expect_words(refused ? "NOT_PERMITTED" : "on a device that has them");
            EXPECT_RESULT(MEND_OK, mend_export(w.pool, blocks[i], &token, NULL));
        }
        mend_log_set_sink(NULL, NULL);
        EXPECT_U64_EQ(refused, warnings);
        EXPECT_U64_EQ(refused, mend_world_stats(&w).driver_failures);
        EXPECT_TRUE(mend_world_check(&w));
        kit_free(&w, blocks[0], w.streams[0]);
        kit_free(&w, blocks[1], w.streams[0]);
        kit_close(&w);
    }
}

/* ---- a device without file descriptors ------------------------------------------------------- */

static const mend_driver *simulated;
static bool has_fabric;

static mend_status open_without_files(const mend_driver *driver, int device, mend_device_info *info)
{
    (void)driver;
    mend_status status = simulated->device_open(simulated, device, info);
    info->share_file_descriptor = false;
    info->share_fabric = has_fabric;
    return status;
}

/* A pool beside that of the world, on the same device. */
static mend_result open_without_files_on(mend_world *w, int shareable, mend_driver *driver,
                                         mend_pool **pool)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    simulated = w->driver;
    *driver = *w->driver;
    driver->device_open = open_without_files;
    config.driver = driver;
    config.shareable = shareable;
    mend_result result = mend_pool_create(&config, pool);
    if (result == MEND_OK) {
        mend_test_place(*pool, &(mend_placement){.chunk_bytes = CHUNK});
    }
    return result;
}

MEND_TEST(pool_fabric_devices, a_device_without_file_descriptors_exports_by_fabric_alone)
{
    mend_world w;
    mend_driver driver;
    mend_pool *pool = NULL;
    mend_export_token token = {{7}};
    unsigned char bytes[MOST_DESCRIPTION];
    size_t size = 0;
    void *block = NULL;
    void *theirs = NULL;
    ASSERT_TRUE(open_world(&w, 0, MEND_SIM_FABRIC_WORKS));
    has_fabric = true;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, open_without_files_on(&w, 1, &driver, &pool));
    kit_expect_words("by file descriptors");
    ASSERT_RESULT(MEND_OK, open_without_files_on(&w, MEND_SHAREABLE_FABRIC, &driver, &pool));
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, CHUNK, w.streams[0], &block));
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_export(pool, block, &token, NULL));
    kit_expect_words("use mend_export_fabric");
    EXPECT_INT_EQ(7, token.bytes[0]);
    EXPECT_RESULT(MEND_OK, mend_export_fabric(pool, block, bytes, sizeof(bytes), &size, NULL));
    EXPECT_RESULT(MEND_OK, mend_import_fabric(w.pool, bytes, size, &theirs, NULL));
    EXPECT_RESULT(MEND_OK, mend_import_close(w.pool, theirs, MEND_NO_STREAM));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(pool));
    has_fabric = false;
    pool = NULL;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED,
                  open_without_files_on(&w, MEND_SHAREABLE_FABRIC, &driver, &pool));
    kit_expect_words("by file descriptors or by fabric handles");
    EXPECT_PTR_EQ(NULL, pool);
    kit_close(&w);
}

/* The one way that it claims is refused: it has memory, which cannot leave the process. */
MEND_TEST(pool_fabric_devices, a_device_that_refuses_its_only_way_has_memory_all_the_same)
{
    mend_world w;
    mend_driver driver;
    mend_pool *pool = NULL;
    mend_export_token token;
    unsigned char bytes[MOST_DESCRIPTION];
    size_t size = 0;
    void *block = NULL;
    ASSERT_TRUE(open_world(&w, 0, MEND_SIM_FABRIC_REFUSED));
    has_fabric = true;
    ASSERT_RESULT(MEND_OK, open_without_files_on(&w, MEND_SHAREABLE_FABRIC, &driver, &pool));
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, CHUNK, w.streams[0], &block));
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_export(pool, block, &token, NULL));
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED,
                  mend_export_fabric(pool, block, bytes, sizeof(bytes), &size, NULL));
    kit_expect_words("NOT_PERMITTED");
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(pool));
    kit_close(&w);
}

MEND_TEST(pool_fabric_devices, an_importer_without_fabric_says_so)
{
    for (int refused = 0; refused < 2; refused++) {
        mend_world from;
        mend_world to;
        void *pointer = NULL;
        ASSERT_TRUE(open_world(&from, MEND_SHAREABLE_FABRIC, MEND_SIM_FABRIC_WORKS));
        ASSERT_TRUE(open_world(&to, 0, refused ? MEND_SIM_FABRIC_REFUSED : MEND_SIM_FABRIC_NONE));
        void *block = kit_alloc(&from, CHUNK, from.streams[0]);
        const description d = describe(&from, block);
        EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED,
                      mend_import_fabric(to.pool, d.bytes, d.size, &pointer, NULL));
        kit_expect_words("IMEX channel");
        EXPECT_PTR_EQ(NULL, pointer);
        EXPECT_TRUE(mend_world_check(&to));
        kit_free(&from, block, from.streams[0]);
        kit_close(&to);
        kit_close(&from);
    }
}

/* A device of another page size: the chunks would not fit its addresses. */
MEND_TEST(pool_fabric_devices, memory_of_other_pages_is_refused_before_the_driver_is_asked)
{
    mend_world from;
    mend_world to;
    void *pointer = NULL;
    ASSERT_TRUE(open_world(&from, MEND_SHAREABLE_FABRIC, MEND_SIM_FABRIC_WORKS));
    mend_world_init(&to);
    to.sim_config.memory_bytes = 64 * CHUNK;
    to.sim_config.page_bytes = 4 * CHUNK;
    to.sim_config.fabric = MEND_SIM_FABRIC_WORKS;
    to.placement.chunk_bytes = 4 * CHUNK;
    ASSERT_TRUE(kit_open(&to));
    void *block = kit_alloc(&from, CHUNK, from.streams[0]);
    const description d = describe(&from, block);
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED,
                  mend_import_fabric(to.pool, d.bytes, d.size, &pointer, NULL));
    kit_expect_words("a page of this device");
    EXPECT_PTR_EQ(NULL, pointer);
    kit_free(&from, block, from.streams[0]);
    kit_close(&to);
    kit_close(&from);
}
