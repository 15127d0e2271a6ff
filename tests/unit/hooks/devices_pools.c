/* Default pools: one for each device, made by the thread that comes first, as the program
 * configured it. */
#include "base/align.h"
#include "driver/driver.h"
#include "hooks/hooks.h"
#include "mend/mend_devices.h"
#include "mend/mend_frameworks.h"
#include "tests/support/child.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"
#include "tests/unit/hooks/devices_fixture.h"

DEVICES_TEST(devices_pools, one_is_made_on_first_use_and_stays)
{
    EXPECT_INT_EQ(0, mend_has_pool(0) + mend_has_pool(MEND_ALL_DEVICES));
    EXPECT_U64_EQ(0, mend_world_ledger(w).contexts_open);
    mend_pool *first = devices_pool_of(0);
    mend_pool *second = devices_pool_of(0);
    mend_pool *of_other = devices_pool_of(1);
    EXPECT_PTR_EQ(first, second);
    EXPECT_TRUE(mend_has_pool(0) == 1 && mend_has_pool(MEND_ALL_DEVICES) == 1);
    EXPECT_INT_EQ(0, mend_has_pool(-2) + mend_has_pool(MEND_DEVICE_LIMIT));
    EXPECT_TRUE(first != of_other);
    EXPECT_U64_EQ(2, mend_world_ledger(w).contexts_open);
}

DEVICES_TEST(devices_pools, a_config_comes_before_the_pool)
{
    w->pool_config.limit_bytes = 5 * MEND_MIB;
    w->pool_config.device = 77; /* does not count */
    EXPECT_OK(mend_set_default_config(1, &w->pool_config));
    mend_pool *pool = devices_pool_of(1);
    EXPECT_U64_EQ(5 * MEND_MIB, kit_stats(pool).limit_bytes);
    EXPECT_INVALID(mend_set_default_config(1, &w->pool_config));
    EXPECT_INVALID(mend_set_default_config(1, NULL));
    EXPECT_INVALID(mend_set_default_config(MEND_ALL_DEVICES, &w->pool_config));
    EXPECT_FIELDS(kit_stats(devices_pool_of(0)), limit_bytes, of.device_bytes);
    EXPECT_OK(mend_set_default_config(2, &w->pool_config));
    EXPECT_OK(mend_pool_destroy(devices_pool_of(0)));
    EXPECT_OK(mend_pool_destroy(pool));
    EXPECT_OK(mend_set_default_config(MEND_ALL_DEVICES, &w->pool_config));
}

static mend_status count_many(KIT_UNUSED const mend_driver *driver, int *count)
{
    *count = MEND_DEVICE_LIMIT + DEVICES;
    return MEND_DRIVER_OK;
}

static mend_status open_another(const mend_driver *driver, int device, mend_device_info *info)
{
    const devices_world *world = MEND_CONTAINER_OF(driver, devices_world, of_many);
    return world->w.driver->device_open(world->w.driver, device - MEND_DEVICE_LIMIT, info);
}

static mend_status close_another(const mend_driver *driver, int device)
{
    const devices_world *world = MEND_CONTAINER_OF(driver, devices_world, of_many);
    return world->w.driver->device_close(world->w.driver, device - MEND_DEVICE_LIMIT);
}

DEVICES_TEST(devices_pools, a_pool_of_a_device_beyond_the_table_is_nobodys_default)
{
    mend_pool *beyond = NULL;
    mend_pool *pool = devices_pool_of(0);
    r->of_many = *w->driver;
    r->of_many.device_count = count_many;
    r->of_many.device_open = open_another;
    r->of_many.device_close = close_another;
    w->pool_config.driver = &r->of_many;
    w->pool_config.device = MEND_DEVICE_LIMIT;
    ASSERT_RESULT(MEND_OK, mend_pool_create(&w->pool_config, &beyond));
    EXPECT_OK(mend_pool_destroy(beyond));
    EXPECT_PTR_EQ(pool, mend_devices_pool(0));
}

DEVICES_TEST(devices_pools, calls_of_a_device_are_those_of_its_pool)
{
    mend_pool *pool;
    void *block = NULL;
    void *nothing = r;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    uint64_t released = 0;
    EXPECT_ERROR(FOREIGN_POINTER, mend_device_free(1, r, 8, NULL));
    EXPECT_OK(mend_device_trim(1, 0, MEND_TRIM_IDLE, &released)); /* makes no pool */
    EXPECT_U64_EQ(0, mend_world_ledger(w).contexts_open);
    ASSERT_RESULT(MEND_OK, mend_device_alloc(1, 3 * MEND_MIB, NULL, &block));
    EXPECT_OK(mend_device_alloc(1, 0, NULL, &nothing));
    EXPECT_PTR_EQ(NULL, nothing);
    ASSERT_RESULT(MEND_OK, mend_pool_for_device(1, &pool));
    EXPECT_OK(mend_device_block_info(1, (char *)block + 700, &info));
    EXPECT_PTR_EQ(block, info.base);
    EXPECT_PTR_EQ(pool, info.pool);
    EXPECT_OK(mend_device_record_stream(1, block, NULL));
    EXPECT_OK(mend_device_free(1, NULL, 0, NULL));
    EXPECT_ERROR(NO_DEVICE, mend_device_alloc(MEND_DEVICE_LIMIT, 512, NULL, &nothing));
    EXPECT_ERROR(NO_DEVICE, mend_device_free(MEND_DEVICE_LIMIT, block, 0, NULL));
    EXPECT_OK(mend_device_free(1, block, 3 * MEND_MIB, NULL));
    EXPECT_ERROR(DOUBLE_FREE, mend_device_free(1, block, 3 * MEND_MIB, NULL));
    EXPECT_OK(mend_device_trim(1, 0, MEND_TRIM_IDLE, &released));
    EXPECT_U64_EQ(3 * MEND_MIB, released);
}

DEVICES_TEST(devices_pools, where_no_device_is_named_it_is_found)
{
    void *blocks[2] = {NULL, NULL};
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    uint64_t released = 0;
    int current = 77;
    EXPECT_OK(mend_current_device(&current));
    EXPECT_INT_EQ(0, current);
    for (int i = 0; i < 2; i++) {
        devices_enter(r, i);
        EXPECT_OK(mend_current_device(&current));
        EXPECT_INT_EQ(i, current);
        EXPECT_OK(mend_device_alloc(MEND_ALL_DEVICES, 3 * MEND_MIB, NULL, &blocks[i]));
        devices_leave(r, i);
    }
    for (int i = 1; i >= 0; i--) {
        mend_pool *pool;
        EXPECT_OK(mend_pool_for_device(i, &pool));
        EXPECT_OK(mend_device_block_info(MEND_ALL_DEVICES, blocks[i], &info));
        EXPECT_PTR_EQ(pool, info.pool);
        EXPECT_OK(mend_device_record_stream(MEND_ALL_DEVICES, blocks[i], NULL));
        EXPECT_OK(mend_device_free(MEND_ALL_DEVICES, blocks[i], 0, NULL));
    }
    EXPECT_ERROR(FOREIGN_POINTER, mend_device_free(MEND_ALL_DEVICES, r, 0, NULL));
    EXPECT_ERROR(FOREIGN_POINTER, mend_device_record_stream(MEND_ALL_DEVICES, r, NULL));
    EXPECT_ERROR(FOREIGN_POINTER, mend_device_block_info(MEND_ALL_DEVICES, r, &info));
    EXPECT_OK(mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_IDLE, &released));
    EXPECT_U64_EQ(6 * MEND_MIB, released);
}

static mend_status says; /* about the current device, the hundredth */

static mend_status is_the_hundredth(KIT_UNUSED const mend_driver *driver, int *device)
{
    *device = 100;
    return says;
}

/* One outside of the table, or the driver does not say which. */
KIT_RIG_EACH(devices_pools, a_current_device_that_is_unknown_is_refused, int, fails, 2,
             devices_world, r, devices_open(r), devices_close(r))
{
    const mend_result refused = fails ? MEND_ERROR_DRIVER : MEND_ERROR_NO_DEVICE;
    mend_allocator own = MEND_ALLOCATOR_INIT;
    void *pointer = r;
    int current = -1;
    static mend_driver driver; /* until the devices end */
    driver = *r->w.driver;
    driver.context_device = is_the_hundredth;
    says = fails ? 999 : MEND_DRIVER_OK;
    r->w.pool_config.driver = &driver;
    ASSERT_RESULT(MEND_OK, mend_set_default_config(MEND_ALL_DEVICES, &r->w.pool_config));
    EXPECT_RESULT(refused, mend_current_device(&current));
    EXPECT_INT_EQ(-1, current);
    EXPECT_RESULT(refused, mend_device_alloc(MEND_ALL_DEVICES, 512, MEND_NO_STREAM, &pointer));
    ASSERT_RESULT(MEND_OK, mend_get_allocator(MEND_ALL_DEVICES, &own));
    EXPECT_INT_EQ(refused, own.handler.alloc(own.handler.ctx, &pointer, 512, MEND_NO_STREAM));
    EXPECT_PTR_EQ(r, pointer);
    EXPECT_U64_EQ(0, mend_world_ledger(&r->w).contexts_open); /* no pool was made for it */
}

/* While a pool is being made the config changes, or another pool comes first. */
typedef struct meddler {
    mend_world *w; /* NULL: it makes the pool */
    mend_pool *pool;
    bool is_done;
} meddler;

static void meddle(void *context, KIT_UNUSED const char *call, int is_after)
{
    meddler *m = context;
    if (m->is_done || !is_after) {
        return;
    }
    m->is_done = true;
    if (m->w == NULL) {
        m->pool = devices_pool_of(0);
        return;
    }
    m->w->pool_config.limit_bytes = 7 * MEND_MIB;
    EXPECT_OK(mend_set_default_config(0, &m->w->pool_config));
}

static mend_pool *make_beside(mend_world *w, meddler *m)
{
    mend_sim_set_call_observer(w->sim, meddle, m);
    mend_pool *pool = devices_pool_of(0);
    mend_sim_set_call_observer(w->sim, NULL, NULL);
    EXPECT_U64_EQ(1, mend_world_ledger(w).contexts_open);
    return pool;
}

DEVICES_TEST(devices_pools, a_config_that_is_set_meanwhile_counts)
{
    EXPECT_U64_EQ(7 * MEND_MIB, kit_stats(make_beside(w, &(meddler){.w = w})).limit_bytes);
}

DEVICES_TEST(devices_pools, one_that_is_made_meanwhile_is_the_pool)
{
    meddler m = {.pool = NULL};
    EXPECT_PTR_EQ(make_beside(w, &m), m.pool);
}

DEVICES_TEST(devices_pools, a_pool_that_cannot_be_made_is_made_later)
{
    void *pointer = NULL;
    kit_fail(w, "device_open", 0, 1, 2);
    EXPECT_ERROR(DRIVER, mend_device_alloc(0, 512, NULL, &pointer));
    mend_result result = mend_test_starve(0, 1, mend_device_alloc(0, 512, NULL, &pointer));
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, result);
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_TRUE(devices_pool_of(0) != NULL);
}

/* Without a config it is CUDA's that is asked. */
MEND_TEST(devices_pools, the_current_device_needs_a_driver)
{
    const mend_driver *driver = NULL;
    int current = 77;
    mend_result result = mend_cuda_driver(&driver);
    EXPECT_RESULT(result, mend_current_device(&current));
    mend_pool *pool = NULL;
    EXPECT_RESULT(result, mend_pool_for_device(0, &pool));
    EXPECT_OK(mend_pool_destroy(pool));
    EXPECT_ERROR(NO_DEVICE, mend_pool_for_device(MEND_ALL_DEVICES, &pool));
    EXPECT_INT_EQ(result == MEND_OK ? 0 : 77, current);
}

/* One chunk holds it. */
#define CHUNK_BYTES (128 * MEND_KIB)

/* The other devices are trimmed all the same. `device` has an override, or none has. The functions
 * of mend_get_allocator report the released bytes. */
static void fail_to_trim_one(int device, bool by_allocator)
{
    devices_world world;
    counter c;
    void *blocks[DEVICES];
    uint64_t released = 77;
    ASSERT_TRUE(devices_open(&world));
    for (int i = 0; i < DEVICES; i++) {
        ASSERT_RESULT(MEND_OK, mend_device_alloc(i, CHUNK_BYTES, NULL, &blocks[i]));
        EXPECT_OK(mend_device_free(i, blocks[i], CHUNK_BYTES, NULL));
    }
    mend_allocator allocator = counter_allocator(&c, 4096);
    if (device >= 0) {
        ASSERT_RESULT(MEND_OK, mend_set_allocator(device, &allocator));
        c.answer = MEND_ERROR_DRIVER;
    } else {
        kit_fail(&world.w, "unmap", 0, 1, 999);
    }
    if (by_allocator) {
        ASSERT_RESULT(MEND_OK, mend_get_allocator(MEND_ALL_DEVICES, &allocator));
        EXPECT_ERROR(DRIVER, (mend_result)allocator.trim(allocator.handler.ctx, 0, MEND_TRIM_IDLE,
                                                         &released));
    } else {
        EXPECT_ERROR(DRIVER, mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_IDLE, &released));
    }
    EXPECT_U64_EQ(by_allocator ? (DEVICES - 1) * CHUNK_BYTES : 77, released);
    EXPECT_U64_EQ(1, mend_world_ledger(&world.w).chunks);
    EXPECT_INT_EQ(device >= 0, c.trims);
    devices_close(&world);
}

MEND_TEST(devices_pools, a_trim_that_fails_on_one_device_goes_on_with_the_others)
{
    fail_to_trim_one(-1, false);
    fail_to_trim_one(-1, true);
    fail_to_trim_one(0, false);
}

DEVICES_TEST(devices_pools, a_trim_may_wait_for_the_work_that_uses_what_was_freed)
{
    void *block = NULL;
    uint64_t released = 1;
    ASSERT_RESULT(MEND_OK, mend_device_alloc(0, 3 * MEND_MIB, S(0), &block));
    kit_launch(w, S(0), MEND_SIM_WORK_TOUCH, block, 3 * MEND_MIB, 0, 1000);
    EXPECT_OK(mend_device_free(0, block, 3 * MEND_MIB, S(0)));
    EXPECT_OK(mend_device_trim(0, 0, MEND_TRIM_IDLE, &released));
    EXPECT_U64_EQ(0, released);
    EXPECT_OK(mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_WAIT, &released));
    EXPECT_U64_EQ(3 * MEND_MIB, released);
}

/* Memory freed on a destroyed stream is not the next one's of the same handle. */
DEVICES_TEST(devices_pools, a_stream_is_forgotten_where_there_is_a_pool)
{
    mend_pool *pool = NULL;
    void *pointer = NULL;
    EXPECT_OK(mend_device_unregister_stream(MEND_ALL_DEVICES, S(0)));
    EXPECT_U64_EQ(0, mend_world_ledger(w).contexts_open); /* no pool was made for it */
    ASSERT_RESULT(MEND_OK, mend_device_alloc(0, 512, S(0), &pointer));
    EXPECT_OK(mend_device_free(0, pointer, 512, S(0)));
    ASSERT_RESULT(MEND_OK, mend_pool_for_device(0, &pool));
    EXPECT_OK(mend_device_unregister_stream(1, S(0)));
    EXPECT_U64_EQ(1, kit_stats(pool).streams);
    EXPECT_OK(mend_device_unregister_stream(MEND_ALL_DEVICES, S(0)));
    EXPECT_U64_EQ(0, kit_stats(pool).streams);
    EXPECT_INVALID(mend_device_unregister_stream(MEND_ALL_DEVICES, MEND_NO_STREAM));
    EXPECT_ERROR(NO_DEVICE, mend_device_unregister_stream(64, S(0)));
}

static bool is_refused_what_it_inherited(void *block)
{
    mend_pool *pool = NULL;
    void *pointer = NULL;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    return mend_pool_for_device(0, &pool) == MEND_ERROR_FORKED &&
           mend_device_alloc(0, 512, NULL, &pointer) == MEND_ERROR_FORKED &&
           mend_device_free(0, block, 512, NULL) == MEND_ERROR_FORKED &&
           mend_device_free(MEND_ALL_DEVICES, block, 512, NULL) == MEND_ERROR_FORKED &&
           mend_device_block_info(MEND_ALL_DEVICES, block, &info) == MEND_ERROR_FORKED &&
           mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_IDLE, NULL) == MEND_ERROR_FORKED;
}

static bool may_make_its_own(KIT_UNUSED void *argument)
{
    mend_pool *pool = NULL;
    return mend_pool_for_device(1, &pool) == MEND_OK && mend_pool_destroy(pool) == MEND_OK;
}

DEVICES_TEST(devices_pools, a_child_inherits_no_pool_but_may_make_those_its_parent_had_not)
{
    void *block = NULL;
    ASSERT_RESULT(MEND_OK, mend_device_alloc(0, 512, NULL, &block));
    EXPECT_TRUE(mend_test_holds_in_a_child(is_refused_what_it_inherited, block));
    EXPECT_TRUE(mend_test_holds_in_a_child(may_make_its_own, NULL));
    EXPECT_OK(mend_device_free(0, block, 512, NULL));
}
