/* Fabric handles of the simulated device. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sim/fabric.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/host_memory.h"
#include "tests/unit/sim/sim_fixture.h"

static const mend_chunk_properties by_fabric = {.share_types = MEND_SHARE_FABRIC};
static const mend_chunk_properties by_both = {.share_types =
                                                  MEND_SHARE_FABRIC | MEND_SHARE_FILE_DESCRIPTOR};

typedef struct handle {
    unsigned char bytes[MEND_FABRIC_HANDLE_BYTES];
} handle;

static bool open_with(sim_fixture *f, mend_sim_fabric fabric)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.fabric = fabric;
    config.content = MEND_SIM_CONTENT_BYTES;
    return sim_fixture_open(f, &config);
}

static uint64_t free_bytes(sim_fixture *f)
{
    uint64_t free_now = 0;
    uint64_t total = 0;
    EXPECT_OK(f->driver->memory_info(f->driver, &free_now, &total));
    return free_now;
}

static mend_chunk_handle create(sim_fixture *f, const mend_chunk_properties *properties)
{
    mend_chunk_handle chunk = 0;
    EXPECT_OK(f->driver->create(f->driver, f->page, properties, &chunk));
    return chunk;
}

static handle export(sim_fixture *f, mend_chunk_handle chunk)
{
    handle shared = {{0}};
    EXPECT_OK(f->driver->export_handle(f->driver, chunk, MEND_SHARE_FABRIC, &shared));
    return shared;
}

static mend_status import(sim_fixture *f, const handle *shared, mend_chunk_handle *chunk)
{
    return f->driver->import_handle(f->driver, shared, MEND_SHARE_FABRIC, chunk);
}

static unsigned char *map(sim_fixture *f, mend_chunk_handle chunk)
{
    uint64_t address = 0;
    EXPECT_OK(f->driver->reserve(f->driver, f->page, 0, 0, &address));
    EXPECT_OK(f->driver->map(f->driver, address, f->page, 0, chunk));
    sim_fixture_allow(f, address, f->page);
    return (unsigned char *)(uintptr_t)address;
}

static void unmap(sim_fixture *f, const unsigned char *bytes)
{
    uint64_t address = (uint64_t)(uintptr_t)bytes;
    EXPECT_OK(f->driver->unmap(f->driver, address, f->page));
    EXPECT_OK(f->driver->address_free(f->driver, address, f->page));
}

MEND_TEST(sim_fabric, two_devices_see_the_same_bytes)
{
    sim_fixture from;
    sim_fixture to;
    int files = mend_test_open_files();
    ASSERT_TRUE(open_with(&from, MEND_SIM_FABRIC_WORKS));
    ASSERT_TRUE(open_with(&to, MEND_SIM_FABRIC_WORKS));
    EXPECT_TRUE(from.info.share_fabric);
    mend_chunk_handle chunk = create(&from, &by_both);
    mend_chunk_handle imported = 0;
    handle shared = export(&from, chunk);
    handle again = export(&from, chunk);
    EXPECT_TRUE(memcmp(&shared, &again, sizeof(shared)) == 0);
    uint64_t before = free_bytes(&to);
    ASSERT_INT_EQ(MEND_DRIVER_OK, import(&to, &shared, &imported));
    EXPECT_U64_EQ(before, free_bytes(&to)); /* charged to the device that created it */
    unsigned char *ours = map(&from, chunk);
    unsigned char *theirs = map(&to, imported);
    memset(ours, 42, from.page);
    EXPECT_TRUE(theirs[0] == 42 && theirs[from.page - 1] == 42);
    unmap(&to, theirs);
    unmap(&from, ours);
    EXPECT_OK(to.driver->release(to.driver, imported));
    EXPECT_OK(from.driver->release(from.driver, chunk));
    EXPECT_U64_EQ(0, sim_fixture_ledger(&from).chunks);
    EXPECT_U64_EQ(0, sim_fixture_ledger(&to).foreign_chunks);
    sim_fixture_close(&to);
    sim_fixture_close(&from);
    EXPECT_TRUE(mend_test_files_are(files));
}

MEND_TEST(sim_fabric, a_handle_holds_no_memory_and_an_importer_does)
{
    sim_fixture from;
    sim_fixture to;
    ASSERT_TRUE(open_with(&from, MEND_SIM_FABRIC_WORKS));
    ASSERT_TRUE(open_with(&to, MEND_SIM_FABRIC_WORKS));
    uint64_t before = free_bytes(&from);
    mend_chunk_handle chunk = create(&from, &by_fabric);
    mend_chunk_handle imported = 0;
    handle shared = export(&from, chunk);
    EXPECT_OK(import(&to, &shared, &imported));
    EXPECT_OK(from.driver->release(from.driver, chunk)); /* before the device has accepted */
    EXPECT_U64_EQ(before - from.page, free_bytes(&from));
    EXPECT_OK(to.driver->release(to.driver, imported));
    EXPECT_U64_EQ(before, free_bytes(&from));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import(&to, &shared, &imported));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import(&from, &shared, &imported));
    EXPECT_U64_EQ(0, from.heard + to.heard);
    sim_fixture_close(&to);
    sim_fixture_close(&from);
}

MEND_TEST(sim_fabric, an_import_outlives_the_device_that_exported)
{
    sim_fixture from;
    sim_fixture to;
    ASSERT_TRUE(open_with(&from, MEND_SIM_FABRIC_WORKS));
    ASSERT_TRUE(open_with(&to, MEND_SIM_FABRIC_WORKS));
    mend_chunk_handle chunk = create(&from, &by_fabric);
    mend_chunk_handle imported = 0;
    handle shared = export(&from, chunk);
    memset(map(&from, chunk), 7, from.page);
    EXPECT_OK(import(&to, &shared, &imported));
    mend_sim_destroy(from.sim);
    unsigned char *theirs = map(&to, imported);
    EXPECT_TRUE(theirs[0] == 7 && theirs[to.page - 1] == 7);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import(&to, &shared, &chunk));
    unmap(&to, theirs);
    EXPECT_OK(to.driver->release(to.driver, imported));
    sim_fixture_close(&to);
}

MEND_TEST(sim_fabric, a_device_imports_its_own)
{
    sim_fixture f;
    ASSERT_TRUE(open_with(&f, MEND_SIM_FABRIC_WORKS));
    uint64_t before = free_bytes(&f);
    mend_chunk_handle chunk = create(&f, &by_fabric);
    mend_chunk_handle imported = 0;
    handle shared = export(&f, chunk);
    EXPECT_OK(import(&f, &shared, &imported));
    EXPECT_TRUE(imported != chunk);
    EXPECT_OK(f.driver->release(f.driver, chunk));
    EXPECT_U64_EQ(before - f.page, free_bytes(&f));
    EXPECT_OK(f.driver->release(f.driver, imported));
    EXPECT_U64_EQ(before, free_bytes(&f));
    sim_fixture_close(&f);
}

/* Two devices without content, where only the sizes matter. */
SIM_TEST(sim_fabric, handles_of_devices_without_content_have_no_file)
{
    sim_fixture to;
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.fabric = MEND_SIM_FABRIC_WORKS;
    mend_chunk_handle imported = 0;
    sim_fixture from;
    ASSERT_TRUE(sim_fixture_open(&from, &config));
    ASSERT_TRUE(sim_fixture_open(&to, &config));
    mend_chunk_handle chunk = create(&from, &by_fabric);
    handle shared = export(&from, chunk);
    EXPECT_OK(import(&to, &shared, &imported));
    EXPECT_U64_EQ(1, sim_fixture_ledger(&to).foreign_chunks);
    EXPECT_OK(to.driver->release(to.driver, imported));
    EXPECT_OK(from.driver->release(from.driver, chunk));
    EXPECT_STATUS(MEND_DRIVER_NOT_SUPPORTED, import(f, &shared, &imported));
    sim_fixture_close(&to);
    sim_fixture_close(&from);
}

MEND_TEST(sim_fabric, what_is_no_handle_is_a_violation)
{
    sim_fixture f;
    ASSERT_TRUE(open_with(&f, MEND_SIM_FABRIC_WORKS));
    mend_chunk_handle chunk = create(&f, &by_fabric);
    mend_chunk_handle imported = 0;
    handle shared = export(&f, chunk);
    shared.bytes[40] ^= 1;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import(&f, &shared, &imported));
    EXPECT_HEARD(&f, 1, "not a fabric handle");
    shared.bytes[0] ^= 1;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import(&f, &shared, &imported));
    EXPECT_HEARD(&f, 2, "not a fabric handle");
    int file = -1;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE,
                  f.driver->export_handle(f.driver, chunk, MEND_SHARE_FILE_DESCRIPTOR, &file));
    EXPECT_HEARD(&f, 3, "share type 1");
    EXPECT_OK(f.driver->release(f.driver, chunk));
    sim_fixture_close(&f);
}

/* A device of other pages, of other content, and without the exporter's device. */
MEND_TEST(sim_fabric, a_device_that_is_not_like_the_exporters_imports_nothing)
{
    sim_fixture from;
    mend_sim_config others[3] = {MEND_SIM_CONFIG_INIT, MEND_SIM_CONFIG_INIT, MEND_SIM_CONFIG_INIT};
    mend_sim_config two = MEND_SIM_CONFIG_INIT;
    two.device_count = 2;
    two.fabric = MEND_SIM_FABRIC_WORKS;
    two.content = MEND_SIM_CONTENT_BYTES;
    ASSERT_TRUE(sim_fixture_open(&from, &two));
    const mend_chunk_properties on_second = {.device = 1, .share_types = MEND_SHARE_FABRIC};
    mend_chunk_handle chunk = create(&from, &on_second);
    mend_chunk_handle imported = 0;
    handle shared = export(&from, chunk);
    others[0].page_bytes = 4 * from.page;
    others[0].device_count = others[1].device_count = 2;
    others[0].content = others[2].content = MEND_SIM_CONTENT_BYTES;
    for (int i = 0; i < 3; i++) {
        sim_fixture to;
        others[i].fabric = MEND_SIM_FABRIC_WORKS;
        ASSERT_TRUE(sim_fixture_open(&to, &others[i]));
        EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import(&to, &shared, &imported));
        EXPECT_U64_EQ(0, to.heard);
        sim_fixture_close(&to);
    }
    EXPECT_OK(from.driver->release(from.driver, chunk));
    sim_fixture_close(&from);
}

/* As without the hardware, and as without IMEX channels. */
MEND_TEST(sim_fabric, a_device_may_have_none_or_refuse)
{
    for (int refused = 0; refused < 2; refused++) {
        sim_fixture f;
        mend_chunk_handle chunk = 0;
        handle shared = {{0}};
        mend_status status = refused ? MEND_DRIVER_NOT_PERMITTED : MEND_DRIVER_NOT_SUPPORTED;
        ASSERT_TRUE(open_with(&f, refused ? MEND_SIM_FABRIC_REFUSED : MEND_SIM_FABRIC_NONE));
        EXPECT_TRUE(f.info.share_fabric == (refused != 0));
        EXPECT_STATUS(status, f.driver->create(f.driver, f.page, &by_fabric, &chunk));
        EXPECT_STATUS(status, f.driver->create(f.driver, f.page, &by_both, &chunk));
        EXPECT_STATUS(status, import(&f, &shared, &chunk));
        EXPECT_U64_EQ(0, f.heard);
        EXPECT_U64_EQ(0, sim_fixture_ledger(&f).chunks);
        sim_fixture_close(&f);
    }
    mend_sim *sim = NULL;
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.fabric = (mend_sim_fabric)3;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_create(&config, &sim));
}

/* ---- what the system refuses ----------------------------------------------------------------- */

/* A socket of that name exists. */
MEND_TEST(sim_fabric, a_name_that_is_taken_is_out_of_memory)
{
    sim_fixture f;
    handle shared = {{0}};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ASSERT_TRUE(open_with(&f, MEND_SIM_FABRIC_WORKS));
    mend_chunk_handle chunk = create(&f, &by_fabric);
    int length =
        snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "mend-sim-fabric-%llx-%llx-%x",
                 (unsigned long long)getpid(), (unsigned long long)(uintptr_t)f.sim, 1);
    int taken = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    ASSERT_INT_EQ(0, bind(taken, (const struct sockaddr *)&address, size));
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY,
                  f.driver->export_handle(f.driver, chunk, MEND_SHARE_FABRIC, &shared));
    close(taken);
    EXPECT_OK(f.driver->export_handle(f.driver, chunk, MEND_SHARE_FABRIC, &shared));
    EXPECT_OK(f.driver->release(f.driver, chunk));
    sim_fixture_close(&f);
}

MEND_TEST(sim_fabric, an_import_without_host_memory_leaves_nothing)
{
    sim_fixture from;
    sim_fixture to;
    mend_chunk_handle imported = 0;
    ASSERT_TRUE(open_with(&from, MEND_SIM_FABRIC_WORKS));
    ASSERT_TRUE(open_with(&to, MEND_SIM_FABRIC_WORKS));
    mend_chunk_handle chunk = create(&from, &by_fabric);
    handle shared = export(&from, chunk);
    const int files = mend_test_open_files();
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    unsigned failed = 0;
    for (uint64_t i = 0; status != MEND_DRIVER_OK && i < 100; i++) {
        mend_test_fail_host_memory_after(i, 1);
        mend_test_watch_host_memory(true);
        status = import(&to, &shared, &imported);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        (void)free_bytes(&from); /* sees who has hung up */
        failed += status == MEND_DRIVER_OUT_OF_MEMORY;
        EXPECT_TRUE(status == MEND_DRIVER_OK || mend_test_files_are(files));
    }
    EXPECT_OK(status);
    EXPECT_TRUE(failed > 0);
    EXPECT_OK(to.driver->release(to.driver, imported));
    EXPECT_OK(from.driver->release(from.driver, chunk));
    sim_fixture_close(&to);
    sim_fixture_close(&from);
}

static void allow_files(rlim_t count)
{
    struct rlimit limit;
    EXPECT_INT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = count;
    EXPECT_INT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
}

/* In a child, whose limit nobody else has: with none left, and with one. */
static bool runs_out_of_files(void *context)
{
    sim_fixture from;
    sim_fixture to;
    (void)context;
    if (!open_with(&from, MEND_SIM_FABRIC_WORKS) || !open_with(&to, MEND_SIM_FABRIC_WORKS)) {
        return false;
    }
    mend_chunk_handle exported = create(&from, &by_fabric);
    mend_chunk_handle imported = 0;
    handle shared;
    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    allow_files((rlim_t)lowest);
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY,
                  from.driver->export_handle(from.driver, exported, MEND_SHARE_FABRIC, &shared));
    allow_files(1024);
    shared = export(&from, exported);
    for (rlim_t spare = 1; spare < 3; spare++) {
        allow_files((rlim_t)lowest + spare); /* the export has one */
        EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, import(&to, &shared, &imported));
        allow_files(1024);
        (void)free_bytes(&from); /* sees who has hung up */
        EXPECT_U64_EQ(0, sim_fixture_ledger(&to).foreign_chunks);
    }
    EXPECT_OK(import(&to, &shared, &imported));
    EXPECT_OK(to.driver->release(to.driver, imported));
    EXPECT_OK(from.driver->release(from.driver, exported));
    sim_fixture_close(&to);
    sim_fixture_close(&from);
    return !mend_test_has_failed();
}

MEND_TEST(sim_fabric, without_file_descriptors_it_is_out_of_memory)
{
    EXPECT_TRUE(mend_test_holds_in_a_child(runs_out_of_files, NULL));
}
