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
    PASS(memory_info, &free_now, &total);
    EXPECT_U64_EQ(f->info.total_bytes, total);
    return free_now;
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

MEND_TEST(sim_memory, every_byte_of_a_device_can_be_created_and_not_one_more)
{
    static const uint64_t sizes[] = {64 * MEND_MIB, UINT64_C(1) << 60};
    for (int i = 0; i < 2; i++) {
        sim_fixture f;
        ASSERT_TRUE(sim_fixture_open(&f, SIM_CONFIG(.memory_bytes = sizes[i], .device_count = 2)));
        EXPECT_OK(create(&f, 1, sizes[i]));
        EXPECT_OK(create(&f, 0, sizes[i] / 2));
        EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(&f, 0, sizes[i] / 2 + f.page));
        EXPECT_OK(create(&f, 0, sizes[i] / 2));
        EXPECT_U64_EQ(0, free_bytes(&f));
        EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, create(&f, 0, f.page));
        sim_fixture_close(&f);
    }
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
    PASS(plain_alloc, 1, &small);
    EXPECT_U64_EQ(f->info.total_bytes - 2 * MEND_MIB, free_bytes(f));
    PASS(plain_alloc, 4 * MEND_MIB, &large);
    EXPECT_U64_EQ(f->info.total_bytes - 6 * MEND_MIB, free_bytes(f));
    EXPECT_U64_EQ(2, sim_fixture_ledger(f).plain_allocations);
    EXPECT_U64_EQ(6 * MEND_MIB, sim_fixture_ledger(f).plain_bytes);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).chunks);
    ANSWER(INVALID_VALUE, plain_free, large + 512);
    PASS(plain_free, large);
    BREACH(INVALID_VALUE, "is not the start of an allocation", plain_free, large);
    PASS(plain_free, small);
    EXPECT_U64_EQ(f->info.total_bytes, free_bytes(f));
}

SIM_TEST(sim_memory, plain_memory_is_not_virtual_memory)
{
    uint64_t address = 0;
    const int device = 0;
    PASS(plain_alloc, 2 * MEND_MIB, &address);
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    ANSWER(INVALID_VALUE, unmap, address, 2 * MEND_MIB);
    ANSWER(INVALID_VALUE, set_access, address, 2 * MEND_MIB, &device, 1, MEND_ACCESS_READ_WRITE);
    ANSWER(INVALID_VALUE, address_free, address, 2 * MEND_MIB);
    ANSWER(INVALID_VALUE, map, address, f->page, 0, handle);
    EXPECT_U64_EQ(4, f->heard);
}

SIM_TEST(sim_memory, asynchronous_frees_happen_in_stream_order)
{
    uint64_t address = 0;
    PASS(async_alloc, 2 * MEND_MIB, f->stream, &address);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 2 * MEND_MIB, 0, 100);
    PASS(async_free, address, f->stream);
    BREACH(INVALID_VALUE, "freed already", async_free, address, f->stream);
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).plain_allocations);
    PASS(stream_synchronize, f->stream);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).plain_allocations);
    EXPECT_U64_EQ(1, f->heard);
    ANSWER(ILLEGAL_ADDRESS, fill, address, 0, 512, f->stream);
}

SIM_TEST_AS(sim_memory, addresses_run_out_and_come_back, .address_bytes = MEND_MIB)
{
    uint64_t first = 0;
    uint64_t second = 0;
    uint64_t third = 0;
    PASS(reserve, MEND_MIB / 2, 0, 0, &first);
    PASS(reserve, MEND_MIB / 2, 0, 0, &second);
    ANSWER(OUT_OF_MEMORY, reserve, f->page, 0, 0, &third);
    PASS(address_free, first, MEND_MIB / 2);
    PASS(address_free, second, MEND_MIB / 2);
    /* What came back is one range again. */
    PASS(reserve, MEND_MIB, 0, 0, &third);
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_memory, the_ledger_counts_what_is_held_and_keeps_peaks)
{
    mend_chunk_handle handle = sim_fixture_chunk(f, 4 * f->page);
    uint64_t address = sim_fixture_map(f, 2 * f->page, 8 * f->page);
    PASS(map, address + 4 * f->page, 4 * f->page, 0, handle);
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

    PASS(unmap, address, 2 * f->page);
    PASS(unmap, address + 4 * f->page, 4 * f->page);
    PASS(release, handle);
    PASS(address_free, address, 8 * f->page);
    mend_sim_ledger left = sim_fixture_ledger(f);
    EXPECT_U64_EQ(0, left.chunks + left.chunk_bytes + left.handles + left.mappings +
                         left.mapped_bytes + left.accessible_bytes + left.reservations +
                         left.address_bytes);
    EXPECT_U64_EQ(6 * f->page, left.peak_chunk_bytes);
    EXPECT_U64_EQ(2, left.peak_mappings);
}

/* The last of handles, mappings and copies of the descriptor to go gives the memory back. */
SIM_TEST(sim_memory, an_exported_file_holds_memory)
{
    const mend_chunk_properties properties = {.share_types = MEND_SHARE_FILE_DESCRIPTOR};
    const uint64_t before = free_bytes(f);
    mend_chunk_handle exported = 0;
    mend_chunk_handle imported = 0;
    int file = -1;
    PASS(create, f->page, &properties, &exported);
    PASS(export_handle, exported, MEND_SHARE_FILE_DESCRIPTOR, &file);
    int copy = dup(file);
    PASS(release, exported);
    EXPECT_U64_EQ(before - f->page, free_bytes(f));
    close(file);
    EXPECT_U64_EQ(before - f->page, free_bytes(f));
    PASS(import_handle, &copy, MEND_SHARE_FILE_DESCRIPTOR, &imported);
    close(copy);
    EXPECT_U64_EQ(before - f->page, free_bytes(f));
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).handles);
    PASS(release, imported);
    EXPECT_U64_EQ(before, free_bytes(f));
    EXPECT_U64_EQ(0, f->heard);
}
