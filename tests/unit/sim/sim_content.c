/* Real bytes at real addresses: patterns, aliases, and strays that fault. */
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/state.h"
#include "tests/unit/sim/sim_fixture.h"

#define CONTENT_TEST(name) SIM_TEST_AS(sim_content, name, .content = MEND_SIM_CONTENT_BYTES)

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* So that what is aligned lies at the same distance from there in every run. */
CONTENT_TEST(addresses_begin_at_the_same_place_of_a_gib)
{
    uint64_t address = 0;
    PASS(reserve, f->page, 0, 0, &address);
    EXPECT_U64_EQ(f->page, address % (UINT64_C(1) << 30));
    PASS(address_free, address, f->page);
}

CONTENT_TEST(a_tag_is_found_where_it_was_written)
{
    uint64_t address = sim_fixture_map(f, 2 * f->page, 2 * f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_WRITE, address + 512, f->page, 42, 0);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_VERIFY, address + 512, f->page, 42, 0);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).content_errors);
    /* Another tag, and the same one from another granule on: every granule differs. */
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_VERIFY, address + 512, f->page, 43, 0);
    EXPECT_U64_EQ(f->page / 512, sim_fixture_ledger(f).content_errors);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_VERIFY, address + 1024, f->page - 512, 42, 0);
    EXPECT_U64_EQ(2 * (f->page / 512) - 1, sim_fixture_ledger(f).content_errors);
    EXPECT_U64_EQ(0, f->heard);
}

CONTENT_TEST(one_lost_granule_is_one_error)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_WRITE, address, f->page, 7, 0);
    memset(at(address + 5 * 512), 0, 1);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_VERIFY, address, f->page, 7, 0);
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).content_errors);
}

CONTENT_TEST(a_write_lands_when_it_completes)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    mend_stream other = sim_fixture_stream(f);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_WRITE, address, f->page, 1, 1000);
    /* Memory taken over before the fence: the late write destroys what came after it. */
    sim_fixture_work(f, other, MEND_SIM_WORK_WRITE, address, f->page, 2, 0);
    sim_fixture_work(f, other, MEND_SIM_WORK_VERIFY, address, f->page, 2, 500);
    sim_fixture_work(f, other, MEND_SIM_WORK_VERIFY, address, f->page, 2, 1500);
    mend_sim_advance(f->sim, 500);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).content_errors);
    mend_sim_advance(f->sim, 1000);
    EXPECT_U64_EQ(f->page / 512, sim_fixture_ledger(f).content_errors);
}

CONTENT_TEST(aliases_alias)
{
    uint64_t address = 0;
    PASS(reserve, 2 * f->page, 0, 0, &address);
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    PASS(map, address, f->page, 0, handle);
    PASS(map, address + f->page, f->page, 0, handle);
    sim_fixture_allow(f, address, 2 * f->page);
    memcpy(at(address + 100), "seen through both", 18);
    EXPECT_STR_EQ("seen through both", (const char *)at(address + f->page + 100));
}

CONTENT_TEST(bytes_follow_the_chunk)
{
    uint64_t address = 0;
    PASS(reserve, 2 * f->page, 0, 0, &address);
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    sim_fixture_map_at(f, address, handle);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_WRITE, address, f->page, 9, 0);
    PASS(unmap, address, f->page);
    sim_fixture_map_at(f, address + f->page, handle);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_VERIFY, address + f->page, f->page, 9, 0);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).content_errors);
}

CONTENT_TEST(the_host_bytes_of_a_copy_are_taken_at_the_call)
{
    char sent[] = "before";
    char received[sizeof(sent)] = {0};
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    PASS(copy, address, (uint64_t)(uintptr_t)sent, sizeof(sent), f->stream);
    memcpy(sent, "after!", sizeof(sent));
    EXPECT_U64_EQ(0, mend_sim_now_ns(f->sim));
    /* A copy to the host waits for its work, and counts as a host wait. */
    PASS(copy, (uint64_t)(uintptr_t)received, address, sizeof(received), f->stream);
    EXPECT_STR_EQ("before", received);
    EXPECT_U64_EQ(1000, mend_sim_now_ns(f->sim));
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).host_syncs);
}

/* A child process that reads the address ends by a signal, or as a sanitizer makes it end. */
static bool read_faults(uint64_t address)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        (void)*(volatile char *)at(address);
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child &&
           !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

CONTENT_TEST(stray_access_faults)
{
    uint64_t address = sim_fixture_map(f, f->page, 2 * f->page);
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    EXPECT_FALSE(read_faults(address));
    EXPECT_TRUE(read_faults(address + f->page)); /* reserved */
    PASS(map, address + f->page, f->page, 0, handle);
    EXPECT_TRUE(read_faults(address + f->page)); /* mapped without access */
    sim_fixture_allow(f, address + f->page, f->page);
    EXPECT_FALSE(read_faults(address + f->page));
    PASS(unmap, address, f->page);
    EXPECT_TRUE(read_faults(address)); /* unmapped */
}

CONTENT_TEST(a_released_chunk_leaves_no_bytes)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_WRITE, address, f->page, 7, 0);
    PASS(unmap, address, f->page);
    mend_chunk_handle handle = sim_fixture_chunk(f, f->page);
    sim_fixture_map_at(f, address, handle);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_VERIFY, address, f->page, 7, 0);
    EXPECT_U64_EQ(f->page / 512, sim_fixture_ledger(f).content_errors);
}

CONTENT_TEST(released_memory_goes_back_to_the_host)
{
    struct stat file;
    for (int round = 0; round < 8; round++) {
        uint64_t address = sim_fixture_map(f, 16 * f->page, 16 * f->page);
        PASS(fill, address, 1, 16 * f->page, f->stream);
        PASS(unmap, address, 16 * f->page);
        PASS(address_free, address, 16 * f->page);
    }
    ASSERT_INT_EQ(0, fstat(f->sim->devices[0].memory_file, &file));
    EXPECT_INT_EQ(0, file.st_blocks);
}

SIM_TEST(sim_content, without_content_only_access_is_verified)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_VERIFY, address, f->page, 7, 0);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).content_errors);
    const mend_sim_work stray = {MEND_SIM_WORK_VERIFY, address, f->page + 512, 7, 0};
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_sim_launch(f->sim, f->stream, &stray));
    EXPECT_HEARD(f, 1, "a verification of");
}
