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

/* So that aligned addresses lie at the same distance from there in every run. */
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
    /* Memory taken over before the fence: the late write destroys later contents. */
    sim_fixture_work(f, other, MEND_SIM_WORK_WRITE, address, f->page, 2, 0);
    sim_fixture_work(f, other, MEND_SIM_WORK_VERIFY, address, f->page, 2, 500);
    sim_fixture_work(f, other, MEND_SIM_WORK_VERIFY, address, f->page, 2, 1500);
    mend_sim_advance(f->sim, 500);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).content_errors);
    mend_sim_advance(f->sim, 1000);
    EXPECT_U64_EQ(f->page / 512, sim_fixture_ledger(f).content_errors);
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
    /* A copy to the host waits for its work, and counts as a CPU stall. */
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

/* A word that lies in the middle of a page of the host. */
static uint32_t word_of(sim_fixture *f, uint64_t address)
{
    uint32_t word = 0;
    PASS(copy, (uint64_t)(uintptr_t)&word, address + 2048, sizeof(word), f->stream);
    return word;
}

/* The pages that the file of the device's memory takes of the host. */
static long host_pages(const sim_fixture *f)
{
    struct stat file = {.st_blocks = 0};
    fstat(f->sim->devices[0].memory_file, &file);
    return file.st_blocks / 8;
}

/* Fresh memory, its rest beside writes of every kind, and dropped memory. */
CONTENT_TEST(what_nothing_has_written_is_poison)
{
    enum { POISON = (int)0xdbdbdbdb };
    const uint64_t address = sim_fixture_map(f, 16 * f->page, 16 * f->page);
    mend_kernel kernel = sim_kernel(MEND_KERNEL_WRITE, address, 512, 8192, 2);
    kernel.value = 7;
    PASS(launch, f->stream, &kernel); /* the first and the third page of the host */
    PASS(fill, address + 3 * 4096, 1, 512, f->stream);
    PASS(copy, address + 4 * 4096, address, 512, f->stream);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_WRITE, address + 5 * 4096, 512, 7, 0);
    for (uint64_t page = 0; page < 8; page++) {
        EXPECT_INT_EQ(POISON, (int)word_of(f, address + page * 4096));
    }
    EXPECT_INT_EQ(8, host_pages(f)); /* nothing else costs memory */
    PASS(fill, address, 0, 16 * f->page, f->stream);
    EXPECT_INT_EQ(0, (int)word_of(f, address));
    PASS(unmap, address, 16 * f->page);
    sim_fixture_map_at(f, address, sim_fixture_chunk(f, f->page));
    EXPECT_INT_EQ(POISON, (int)word_of(f, address));
}

/* Before others see it: importers, and a checkpoint of the process. */
CONTENT_TEST(exported_and_saved_memory_is_poison_throughout)
{
    const mend_chunk_properties shared = {.share_types = MEND_SHARE_FILE_DESCRIPTOR};
    const uint64_t address = sim_fixture_map(f, f->page, 2 * f->page);
    EXPECT_RESULT(MEND_OK, mend_sim_checkpoint(f->sim, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_restore(f->sim));
    EXPECT_INT_EQ((int)0xdbdbdbdb, (int)word_of(f, address));
    mend_chunk_handle handle = 0;
    int descriptor = -1;
    const long before = host_pages(f);
    PASS(create, f->page, &shared, &handle);
    EXPECT_INT_EQ(before, host_pages(f));
    PASS(export_handle, handle, MEND_SHARE_FILE_DESCRIPTOR, &descriptor);
    EXPECT_INT_EQ(before + (long)(f->page / 4096), host_pages(f));
    close(descriptor);
    PASS(release, handle);
}

SIM_TEST_AS(sim_content, fresh_memory_is_zero_on_request, .content = MEND_SIM_CONTENT_BYTES,
            .fresh_is_zero = 1)
{
    EXPECT_INT_EQ(0, (int)word_of(f, sim_fixture_map(f, f->page, f->page)));
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
    const mend_sim_work stray = {
        sizeof(mend_sim_work), MEND_SIM_WORK_VERIFY, address, f->page + 512, 7, 0};
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_sim_launch(f->sim, f->stream, &stray));
    EXPECT_HEARD(f, 1, "a verification of");
}
