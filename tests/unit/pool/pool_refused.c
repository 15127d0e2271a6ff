/* What a pool answers where it cannot come to be, or has no host memory for what it is asked. */

#include "driver/driver.h"
#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

static mend_result create_with_fault(const char *call, int status)
{
    mend_world w;
    mend_pool *pool = NULL;
    mend_world_init(&w);
    if (!mend_world_open_device(&w)) {
        return MEND_OK;
    }
    kit_fail(&w, call, 0, 0, status);
    mend_pool_config config = w.pool_config;
    config.driver = mend_sim_driver(w.sim);
    mend_result result = mend_pool_create(&config, &pool);
    EXPECT_PTR_EQ(NULL, pool);
    mend_sim_ledger ledger = mend_world_ledger(&w);
    EXPECT_U64_EQ(0, ledger.contexts_open);
    mend_sim_destroy(w.sim);
    return result;
}

MEND_TEST(pool_refused, no_device_is_not_a_driver_that_fails)
{
    EXPECT_ERROR(NO_DEVICE, create_with_fault("device_count", MEND_DRIVER_NO_DEVICE));
    EXPECT_REFUSAL(DRIVER, "device 0 cannot be opened",
                   create_with_fault("device_open", MEND_DRIVER_NOT_PERMITTED));
}

KIT_TEST(pool_refused, groups_and_callbacks_need_host_memory)
{
    mend_group *group = NULL;
    int calls = 0;
    mend_test_fail_host_memory_after(0, UINT64_MAX);
    mend_test_watch_host_memory(true);
    mend_result of_group = mend_group_create(w->pool, &group);
    mend_result of_callback = mend_add_pressure_callback(w->pool, kit_count_pressure, &calls);
    mend_test_watch_host_memory(false);
    mend_test_heal_host_memory();
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, of_group);
    EXPECT_PTR_EQ(NULL, group);
    EXPECT_ERROR(OUT_OF_HOST_MEMORY, of_callback);
    EXPECT_OK(mend_group_create(w->pool, &group));
    EXPECT_OK(mend_group_destroy(group, NULL));
    EXPECT_OK(mend_add_pressure_callback(w->pool, kit_count_pressure, &calls));
    EXPECT_OK(mend_remove_pressure_callback(w->pool, kit_count_pressure, &calls));
}
