/* Physical memory and addresses: how much there is, who holds it, and what is left. */
#include <unistd.h>

#include "tests/unit/sim/sim_fixture.h"

static mend_status create(sim_fixture *f, int device, uint64_t size_bytes)
{
    const mend_chunk_properties properties = {.device = device};
    mend_chunk_handle handle = 0;
    return f->driver->create(f->driver, size_bytes, &properties, &handle);
}

static uint64_t free_bytes(sim_fixture *f)
{
    uint64_t free_now = 0;
    uint64_t total = 0;
    EXPECT_OK(f->driver->memory_info(f->driver, &free_now, &total));
    EXPECT_U64_EQ(f->info.total_bytes, total);
    return free_now;
}

MEND_TEST(sim_memory, configs_are_checked)
{
    mend_sim *sim = NULL;
    mend_sim_config config = {0};
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_create(&config, &sim));
    config = (mend_sim_config)MEND_SIM_CONFIG_INIT;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_create(&config, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_create(NULL, &sim));
    config.struct_size += 8; /* of a newer version than the library */
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_create(&config, &sim));
    config.struct_size -= 8;
    config.page_bytes = 3 << 20;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_create(&config, &sim));
    config.page_bytes = 512;
    config.content = MEND_SIM_CONTENT_BYTES; /* smaller than a page of the host */
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_create(&config, &sim));
    config.page_bytes = 0;
    config.device_count = 1000;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_create(&config, &sim));
    EXPECT_TRUE(sim == NULL);
    mend_sim_destroy(NULL);
}

MEND_TEST(sim_memory, defaults_are_those_of_the_header)
{
    mend_sim *sim = NULL;
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    ASSERT_RESULT(MEND_OK, mend_sim_create(&config, &sim));
    const mend_driver *driver = mend_sim_driver(sim);
    mend_device_info info = {0};
    int count = 0;
    EXPECT_OK(driver->device_count(driver, &count));
    EXPECT_INT_EQ(1, count);
    EXPECT_OK(driver->device_open(driver, 0, &info));
    EXPECT_U64_EQ(80 * MEND_GIB, info.total_bytes);
    EXPECT_U64_EQ(2 * MEND_MIB, info.granularity_bytes);
    EXPECT_STR_EQ("sim", driver->name);
    uint64_t address = 0;
    EXPECT_OK(driver->reserve(driver, 128 * MEND_TIB, 0, 0, &address));
    mend_sim_destroy(sim);
}

SIM_TEST(sim_memory, every_byte_can_be_created_and_not_one_more)
{
    EXPECT_OK(create(f, 0, f->info.total_bytes - f->page));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(f, 0, 2 * f->page));
    EXPECT_OK(create(f, 0, f->page));
    EXPECT_U64_EQ(0, free_bytes(f));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(f, 0, f->page));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_memory, another_process_takes_its_part)
{
    uint64_t total = f->info.total_bytes;
    mend_sim_set_foreign_bytes(f->sim, 0, total - 2 * f->page);
    EXPECT_U64_EQ(2 * f->page, free_bytes(f));
    EXPECT_OK(create(f, 0, f->page));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(f, 0, 2 * f->page));
    mend_sim_set_foreign_bytes(f->sim, 0, UINT64_MAX);
    EXPECT_U64_EQ(0, free_bytes(f));
    mend_sim_set_foreign_bytes(f->sim, 0, 0);
    EXPECT_U64_EQ(total - f->page, free_bytes(f));
}

SIM_TEST(sim_memory, plain_allocations_take_whole_blocks)
{
    uint64_t small = 0;
    uint64_t large = 0;
    EXPECT_OK(f->driver->plain_alloc(f->driver, 1, &small));
    EXPECT_U64_EQ(f->info.total_bytes - 2 * MEND_MIB, free_bytes(f));
    EXPECT_OK(f->driver->plain_alloc(f->driver, 4 * MEND_MIB, &large));
    EXPECT_U64_EQ(f->info.total_bytes - 6 * MEND_MIB, free_bytes(f));
    EXPECT_U64_EQ(2, sim_fixture_ledger(f).plain_allocations);
    EXPECT_U64_EQ(6 * MEND_MIB, sim_fixture_ledger(f).plain_bytes);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).chunks);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->plain_free(f->driver, large + 512));
    EXPECT_OK(f->driver->plain_free(f->driver, large));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->plain_free(f->driver, large));
    EXPECT_HEARD(f, 2, "is not the start of an allocation");
    EXPECT_OK(f->driver->plain_free(f->driver, small));
    EXPECT_U64_EQ(f->info.total_bytes, free_bytes(f));
}

SIM_TEST(sim_memory, plain_memory_is_not_virtual_memory)
{
    uint64_t address = 0;
    const int device = 0;
    EXPECT_OK(f->driver->plain_alloc(f->driver, 2 * MEND_MIB, &address));
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->unmap(f->driver, address, 2 * MEND_MIB));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->set_access(f->driver, address, 2 * MEND_MIB, &device, 1,
                                        MEND_ACCESS_READ_WRITE));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->address_free(f->driver, address, 2 * MEND_MIB));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->map(f->driver, address, f->page, 0, handle));
    EXPECT_U64_EQ(4, f->heard);
}

SIM_TEST(sim_memory, asynchronous_frees_happen_in_stream_order)
{
    uint64_t address = 0;
    EXPECT_OK(f->driver->async_alloc(f->driver, 2 * MEND_MIB, f->stream, &address));
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 2 * MEND_MIB, 0, 100);
    EXPECT_OK(f->driver->async_free(f->driver, address, f->stream));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->async_free(f->driver, address, f->stream));
    EXPECT_HEARD(f, 1, "freed already");
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).plain_allocations);
    EXPECT_OK(f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).plain_allocations);
    EXPECT_U64_EQ(1, f->heard);
    EXPECT_STATUS(MEND_DRIVER_ILLEGAL_ADDRESS,
                  f->driver->fill(f->driver, address, 0, 512, f->stream));
}

MEND_TEST(sim_memory, devices_have_memory_of_their_own)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.device_count = 2;
    sim_fixture f;
    if (!sim_fixture_open(&f, &config)) {
        return;
    }
    EXPECT_OK(create(&f, 1, f.info.total_bytes));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(&f, 1, f.page));
    EXPECT_OK(create(&f, 0, f.info.total_bytes));
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, create(&f, 2, f.page));
    EXPECT_HEARD(&f, 1, "there is no device 2");
    sim_fixture_close(&f);
}

MEND_TEST(sim_memory, addresses_run_out_and_come_back)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.address_bytes = MEND_MIB;
    sim_fixture f;
    if (!sim_fixture_open(&f, &config)) {
        return;
    }
    uint64_t first = 0;
    uint64_t second = 0;
    uint64_t third = 0;
    EXPECT_OK(f.driver->reserve(f.driver, MEND_MIB / 2, 0, 0, &first));
    EXPECT_OK(f.driver->reserve(f.driver, MEND_MIB / 2, 0, 0, &second));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, f.driver->reserve(f.driver, f.page, 0, 0, &third));
    EXPECT_OK(f.driver->address_free(f.driver, first, MEND_MIB / 2));
    EXPECT_OK(f.driver->address_free(f.driver, second, MEND_MIB / 2));
    /* What came back is one range again. */
    EXPECT_OK(f.driver->reserve(f.driver, MEND_MIB, 0, 0, &third));
    EXPECT_U64_EQ(0, f.heard);
    sim_fixture_close(&f);
}

SIM_TEST(sim_memory, alignment_and_size_of_reservations_are_judged)
{
    uint64_t address = 0;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->reserve(f->driver, f->page + 1, 0, 0, &address));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f->driver->reserve(f->driver, f->page, 3 * f->page, 0, &address));
    EXPECT_HEARD(f, 2, "is not a power of two");
    EXPECT_OK(f->driver->reserve(f->driver, f->page, 64 * MEND_MIB, 0, &address));
    EXPECT_U64_EQ(0, address % (64 * MEND_MIB));
}

SIM_TEST(sim_memory, the_ledger_counts_what_is_held_and_keeps_peaks)
{
    mend_chunk_handle handle = sim_fixture_chunk(f, 4 * f->page);
    uint64_t address = sim_fixture_map(f, 2 * f->page, 8 * f->page);
    EXPECT_OK(f->driver->map(f->driver, address + 4 * f->page, 4 * f->page, 0, handle));
    mend_sim_ledger held = sim_fixture_ledger(f);
    EXPECT_U64_EQ(2, held.chunks);
    EXPECT_U64_EQ(6 * f->page, held.chunk_bytes);
    EXPECT_U64_EQ(1, held.handles);
    EXPECT_U64_EQ(2, held.mappings);
    EXPECT_U64_EQ(6 * f->page, held.mapped_bytes);
    EXPECT_U64_EQ(2 * f->page, held.accessible_bytes);
    EXPECT_U64_EQ(1, held.reservations);
    EXPECT_U64_EQ(8 * f->page, held.address_bytes);
    EXPECT_U64_EQ(1, held.streams);
    EXPECT_U64_EQ(1, held.contexts_open);

    EXPECT_OK(f->driver->unmap(f->driver, address, 2 * f->page));
    EXPECT_OK(f->driver->unmap(f->driver, address + 4 * f->page, 4 * f->page));
    EXPECT_OK(f->driver->release(f->driver, handle));
    EXPECT_OK(f->driver->address_free(f->driver, address, 8 * f->page));
    mend_sim_ledger left = sim_fixture_ledger(f);
    EXPECT_U64_EQ(0, left.chunks + left.chunk_bytes + left.handles + left.mappings +
                         left.mapped_bytes + left.accessible_bytes + left.reservations +
                         left.address_bytes);
    EXPECT_U64_EQ(6 * f->page, left.peak_chunk_bytes);
    EXPECT_U64_EQ(2, left.peak_mappings);
}

MEND_TEST(sim_memory, a_device_without_limit_is_possible)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = UINT64_C(1) << 60;
    sim_fixture f;
    if (sim_fixture_open(&f, &config)) {
        EXPECT_OK(create(&f, 0, UINT64_C(1) << 59));
        EXPECT_OK(create(&f, 0, UINT64_C(1) << 59));
        EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(&f, 0, f.page));
        sim_fixture_close(&f);
    }
}

/* The last of handles, mappings and copies of the descriptor to go gives the memory back. */
SIM_TEST(sim_memory, an_exported_file_holds_memory)
{
    const mend_chunk_properties properties = {.share_types = MEND_SHARE_FILE_DESCRIPTOR};
    const uint64_t before = free_bytes(f);
    mend_chunk_handle exported = 0;
    mend_chunk_handle imported = 0;
    int file = -1;
    EXPECT_OK(f->driver->create(f->driver, f->page, &properties, &exported));
    EXPECT_OK(f->driver->export_handle(f->driver, exported, MEND_SHARE_FILE_DESCRIPTOR, &file));
    int copy = dup(file);
    EXPECT_OK(f->driver->release(f->driver, exported));
    EXPECT_U64_EQ(before - f->page, free_bytes(f));
    close(file);
    EXPECT_U64_EQ(before - f->page, free_bytes(f));
    EXPECT_OK(f->driver->import_handle(f->driver, &copy, MEND_SHARE_FILE_DESCRIPTOR, &imported));
    close(copy);
    EXPECT_U64_EQ(before - f->page, free_bytes(f));
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).handles);
    EXPECT_OK(f->driver->release(f->driver, imported));
    EXPECT_U64_EQ(before, free_bytes(f));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_memory, only_exports_are_imported)
{
    int ends[2];
    mend_chunk_handle imported = 0;
    ASSERT_INT_EQ(0, pipe(ends));
    EXPECT_STATUS(
        MEND_DRIVER_INVALID_VALUE,
        f->driver->import_handle(f->driver, &ends[0], MEND_SHARE_FILE_DESCRIPTOR, &imported));
    EXPECT_HEARD(f, 1, "not an export");
    close(ends[0]);
    close(ends[1]);
}
