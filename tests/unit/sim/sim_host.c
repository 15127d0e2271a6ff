/* Pinned memory of the host: what the ledger says, and which rules the device checks. */
#include "tests/unit/sim/sim_fixture.h"

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

SIM_TEST(sim_host, the_ledger_has_what_is_held)
{
    void *first = NULL;
    void *second = NULL;
    EXPECT_OK(f->driver->host_alloc(f->driver, 1, &first));
    EXPECT_OK(f->driver->host_alloc(f->driver, 2 * MEND_MIB, &second));
    EXPECT_U64_EQ(2, sim_fixture_ledger(f).host_allocations);
    EXPECT_U64_EQ(2 * MEND_MIB + 4096, sim_fixture_ledger(f).host_bytes);
    EXPECT_OK(f->driver->host_free(f->driver, first));
    EXPECT_U64_EQ(2 * MEND_MIB, sim_fixture_ledger(f).host_bytes);
    EXPECT_OK(f->driver->host_free(f->driver, second));
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).host_allocations);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).host_bytes);
}

SIM_TEST(sim_host, sizes_are_checked)
{
    void *pointer = NULL;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->host_alloc(f->driver, 0, &pointer));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY,
                  f->driver->host_alloc(f->driver, UINT64_MAX, &pointer));
    EXPECT_TRUE(pointer == NULL);
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_host, other_pointers_are_not_freed)
{
    char *pointer = NULL;
    void *made = NULL;
    EXPECT_OK(f->driver->host_alloc(f->driver, 8192, &made));
    pointer = made;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->host_free(f->driver, pointer + 4096));
    EXPECT_HEARD(f, 1, "is not the start of an allocation");
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->host_free(f->driver, NULL));
    EXPECT_OK(f->driver->host_free(f->driver, made));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->host_free(f->driver, made));
    EXPECT_U64_EQ(3, f->heard);
}

SIM_TEST(sim_host, memory_of_a_queued_copy_is_not_freed)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    void *made = NULL;
    EXPECT_OK(f->driver->host_alloc(f->driver, 4096, &made));
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    EXPECT_OK(f->driver->copy(f->driver, address, address_of(made), 512, f->stream));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->host_free(f->driver, made));
    EXPECT_HEARD(f, 1, "a queued copy uses");
    EXPECT_OK(f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_OK(f->driver->copy(f->driver, address_of(made), address, 512, f->stream));
    EXPECT_OK(f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_OK(f->driver->host_free(f->driver, made));
    EXPECT_U64_EQ(1, f->heard);
}

SIM_TEST(sim_host, a_copy_beyond_its_end_is_one_of_unpinned_memory)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    char *made = NULL;
    void *pointer = NULL;
    EXPECT_OK(f->driver->host_alloc(f->driver, 4096, &pointer));
    made = pointer;
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    uint64_t waits = sim_fixture_ledger(f).host_syncs;
    EXPECT_OK(f->driver->copy(f->driver, address_of(made + 3584), address, 512, f->stream));
    EXPECT_U64_EQ(waits, sim_fixture_ledger(f).host_syncs);
    EXPECT_OK(f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_OK(f->driver->host_free(f->driver, pointer));
}

MEND_TEST(sim_host, copies_over_the_link_have_their_own_price)
{
    sim_fixture f;
    mend_sim_prices prices = {.copy = {.call_ns = 3, .mib_ns = 8},
                              .host_copy = {.call_ns = 10, .mib_ns = 100},
                              .host_alloc = {.call_ns = 1000},
                              .host_free = {.mib_ns = 70}};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 64 * MEND_MIB;
    config.prices = &prices;
    ASSERT_TRUE(sim_fixture_open(&f, &config));
    uint64_t address = sim_fixture_map(&f, 4 * MEND_MIB, 4 * MEND_MIB);
    void *made = NULL;
    uint64_t before = sim_fixture_ledger(&f).driver_time_ns;
    EXPECT_OK(f.driver->host_alloc(f.driver, 2 * MEND_MIB, &made));
    EXPECT_U64_EQ(1000, sim_fixture_ledger(&f).driver_time_ns - before);
    EXPECT_OK(f.driver->copy(f.driver, address_of(made), address, MEND_MIB, f.stream));
    EXPECT_OK(f.driver->copy(f.driver, address, address_of(made), 2 * MEND_MIB, f.stream));
    EXPECT_U64_EQ(1320, sim_fixture_ledger(&f).driver_time_ns - before);
    EXPECT_OK(f.driver->copy(f.driver, address, address + 2 * MEND_MIB, MEND_MIB, f.stream));
    EXPECT_U64_EQ(1331, sim_fixture_ledger(&f).driver_time_ns - before);
    EXPECT_OK(f.driver->stream_synchronize(f.driver, f.stream));
    EXPECT_OK(f.driver->host_free(f.driver, made));
    EXPECT_U64_EQ(1471, sim_fixture_ledger(&f).driver_time_ns - before);
    sim_fixture_close(&f);
}
