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
