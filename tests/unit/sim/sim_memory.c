/* Physical memory and addresses: how much there is, who holds it, and what is left. */
#include <unistd.h>

#include "tests/unit/sim/sim_fixture.h"

static uint64_t free_bytes(sim_fixture *f)
{
    uint64_t free_now = 0;
    uint64_t total = 0;
    PASS(memory_info, &free_now, &total);
    EXPECT_U64_EQ(f->info.total_bytes, total);
    return free_now;
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
