#include "tests/unit/hooks/devices_fixture.h"

#include "base/align.h"
#include "hooks/hooks.h"
#include "mend/mend_frameworks.h"

bool devices_open(devices_world *world)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    *world = (devices_world){.config = MEND_POOL_CONFIG_INIT};
    config.memory_bytes = 64 * MEND_MIB;
    config.page_bytes = 64 * MEND_KIB;
    config.device_count = DEVICES;
    config.content = MEND_SIM_CONTENT_BYTES;
    EXPECT_OK(mend_sim_create(&config, &world->sim));
    EXPECT_OK(mend_sim_stream_create(world->sim, NULL, &world->stream));
    world->driver = mend_sim_driver(world->sim);
    world->config.driver = world->driver;
    world->config.address_reservation_bytes = 1 * MEND_GIB;
    EXPECT_OK(mend_set_default_config(MEND_ALL_DEVICES, &world->config));
    return !mend_test_has_failed();
}

void devices_close(devices_world *world)
{
    EXPECT_OK(mend_set_allocator(MEND_ALL_DEVICES, NULL));
    EXPECT_FALSE(mend_devices_have_overrides());
    mend_sim_advance(world->sim, UINT64_C(1) << 40);
    for (int i = 0; i < DEVICES; i++) {
        mend_pool *pool = mend_devices_pool(i);
        EXPECT_OK(pool != NULL ? mend_validate(pool) : MEND_OK);
        EXPECT_OK(mend_pool_destroy(pool));
        EXPECT_PTR_EQ(NULL, mend_devices_pool(i));
    }
    EXPECT_OK(mend_set_default_config(MEND_ALL_DEVICES, NULL));
    EXPECT_OK(mend_sim_stream_destroy(world->sim, world->stream));
    mend_sim_ledger ledger = devices_ledger(world);
    EXPECT_U64_EQ(0, ledger.violations);
    EXPECT_STR_EQ("", mend_sim_first_violation(world->sim));
    EXPECT_FIELDS(ledger, content_errors, 0, chunks, 0, mappings, 0, reservations, 0, events, 0);
    EXPECT_U64_EQ(0, ledger.contexts_open);
    mend_sim_destroy(world->sim);
}

void devices_enter(devices_world *world, int device)
{
    const mend_driver *driver = world->driver;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, device, &world->open[device]));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_push(driver, world->open[device].context));
}

void devices_leave(devices_world *world, int device)
{
    const mend_driver *driver = world->driver;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, device));
}

mend_sim_ledger devices_ledger(devices_world *world)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_OK(mend_sim_get_ledger(world->sim, &ledger));
    return ledger;
}

void devices_launch(devices_world *world, mend_stream stream, mend_sim_work_kind kind,
                    const void *block, uint64_t size_bytes, uint64_t finish_ns)
{
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = kind,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = size_bytes,
                                .finish_ns = finish_ns};
    EXPECT_OK(mend_sim_launch(world->sim, stream, &work));
}

mend_pool *devices_pool_of(int device)
{
    mend_pool *pool = NULL;
    EXPECT_OK(mend_pool_for_device(device, &pool));
    return pool;
}

void devices_fail(devices_world *world, const char *call, int status)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = call;
    fault.status = status;
    EXPECT_OK(mend_sim_fail(world->sim, &fault));
}
