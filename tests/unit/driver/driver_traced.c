/* The counting decorator: calls, failures, bytes, time and host waits are those of what passed. */
#include "base/align.h"
#include "driver/traced.h"
#include "mend/mend_sim.h"
#include "tests/support/test.h"

typedef struct traced_world {
    mend_sim *sim;
    mend_driver *driver;
    mend_device_info info;
    mend_driver_counters before; /* what opening the world cost */
} traced_world;

static bool open_world(traced_world *world)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 64 * MEND_MIB;
    config.prices_advance_clock = 1;
    bool open = mend_sim_create(&config, &world->sim) == MEND_OK &&
                mend_traced_driver_create(mend_sim_driver(world->sim), &world->driver) == MEND_OK &&
                world->driver->device_open(world->driver, 0, &world->info) == MEND_DRIVER_OK &&
                world->driver->context_push(world->driver, world->info.context) == MEND_DRIVER_OK;
    EXPECT_TRUE(open);
    if (open) {
        mend_traced_driver_get(world->driver, &world->before);
    }
    return open;
}

static void close_world(traced_world *world)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, world->driver->context_pop(world->driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, world->driver->device_close(world->driver, 0));
    mend_traced_driver_destroy(world->driver);
    mend_sim_destroy(world->sim);
}

static mend_call_counter counter_of(const traced_world *world, mend_driver_call call)
{
    mend_driver_counters counters;
    mend_traced_driver_get(world->driver, &counters);
    return counters.call[call];
}

MEND_TEST(driver_traced, counts_calls_failures_and_bytes)
{
    traced_world world;
    ASSERT_TRUE(open_world(&world));
    const mend_driver *driver = world.driver;
    mend_chunk_properties plain = {0};
    mend_chunk_handle chunk = 0;
    uint64_t page = world.info.granularity_bytes;
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->create(driver, 2 * page, &plain, &chunk));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, chunk));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->create(driver, page, &plain, &chunk));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, chunk));
    EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, driver->create(driver, MEND_GIB, &plain, &chunk));
    mend_call_counter create = counter_of(&world, MEND_CALL_create);
    EXPECT_U64_EQ(3, create.calls);
    EXPECT_U64_EQ(1, create.failures);
    EXPECT_U64_EQ(3 * page, create.bytes);
    EXPECT_U64_EQ(2, counter_of(&world, MEND_CALL_release).calls);
    EXPECT_U64_EQ(0, counter_of(&world, MEND_CALL_map).calls);
    close_world(&world);
}

/* The simulated clock moves by the list of prices: 40 us and 1.5 us a MiB for a create. */
MEND_TEST(driver_traced, times_by_the_clock_of_the_inner_table)
{
    traced_world world;
    ASSERT_TRUE(open_world(&world));
    const mend_driver *driver = world.driver;
    mend_chunk_properties plain = {0};
    mend_chunk_handle chunk[2] = {0};
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->create(driver, 2 * MEND_MIB, &plain, &chunk[0]));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->create(driver, 8 * MEND_MIB, &plain, &chunk[1]));
    mend_call_counter create = counter_of(&world, MEND_CALL_create);
    EXPECT_U64_EQ(43000 + 52000, create.total_ns);
    EXPECT_U64_EQ(52000, create.max_ns);
    EXPECT_U64_EQ(mend_sim_now_ns(world.sim), driver->clock_ns(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, chunk[0]));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, chunk[1]));
    close_world(&world);
}

MEND_TEST(driver_traced, an_unfinished_query_is_no_failure_and_a_wait_is_counted)
{
    traced_world world;
    ASSERT_TRUE(open_world(&world));
    const mend_driver *driver = world.driver;
    mend_stream stream = NULL;
    mend_event event = NULL;
    uint64_t address = 0;
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 1000000000};
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->plain_alloc(driver, 4096, &address));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->stream_create(driver, &stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->event_create(driver, &event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->launch(driver, stream, &spin));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->event_record(driver, event, stream));
    EXPECT_INT_EQ(MEND_DRIVER_NOT_READY, driver->event_query(driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_NOT_READY, driver->stream_query(driver, stream));
    EXPECT_U64_EQ(1, counter_of(&world, MEND_CALL_event_query).calls);
    EXPECT_U64_EQ(0, counter_of(&world, MEND_CALL_event_query).failures);
    EXPECT_U64_EQ(0, counter_of(&world, MEND_CALL_stream_query).failures);
    mend_driver_counters counters;
    mend_traced_driver_get(driver, &counters);
    EXPECT_U64_EQ(0, counters.host_syncs);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->event_synchronize(driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->stream_synchronize(driver, stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_synchronize(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->plain_free(driver, address));
    mend_traced_driver_get(driver, &counters);
    EXPECT_U64_EQ(4, counters.host_syncs);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->event_destroy(driver, event));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->stream_destroy(driver, stream));
    close_world(&world);
}

MEND_TEST(driver_traced, passes_names_through)
{
    traced_world world;
    ASSERT_TRUE(open_world(&world));
    EXPECT_STR_EQ("sim", world.driver->name);
    EXPECT_STR_EQ("CUDA_ERROR_OUT_OF_MEMORY",
                  world.driver->status_name(world.driver, MEND_DRIVER_OUT_OF_MEMORY));
    close_world(&world);
}
