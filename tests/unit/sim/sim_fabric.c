/* Fabric handles of the simulated device. */
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sim/shares.h"
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
    PASS(memory_info, &free_now, &total);
    return free_now;
}

static mend_chunk_handle create(sim_fixture *f, const mend_chunk_properties *properties)
{
    mend_chunk_handle chunk = 0;
    PASS(create, f->page, properties, &chunk);
    return chunk;
}

static handle export(sim_fixture *f, mend_chunk_handle chunk)
{
    handle shared = {{0}};
    PASS(export_handle, chunk, MEND_SHARE_FABRIC, &shared);
    return shared;
}

static mend_status import(sim_fixture *f, const handle *shared, mend_chunk_handle *chunk)
{
    return f->driver->import_handle(f->driver, shared, MEND_SHARE_FABRIC, chunk);
}

static void release(sim_fixture *f, mend_chunk_handle chunk)
{
    PASS(release, chunk);
}

/* Two devices. A chunk of the first, and its handle. */
typedef struct pair {
    sim_fixture from;
    sim_fixture to;
    mend_chunk_handle chunk;
    handle shared;
    mend_chunk_handle imported;
} pair;

static bool open_pair(pair *p)
{
    *p = (pair){.imported = 0};
    if (!open_with(&p->from, MEND_SIM_FABRIC_WORKS) || !open_with(&p->to, MEND_SIM_FABRIC_WORKS)) {
        return false;
    }
    p->chunk = create(&p->from, &by_both);
    p->shared = export(&p->from, p->chunk);
    return true;
}

static void close_pair(pair *p)
{
    sim_fixture_close(&p->to);
    sim_fixture_close(&p->from);
}

#define PAIR_TEST(suite, name) KIT_CASE(suite, name, pair, p, open_pair(p), close_pair(p))
#define FABRIC_TEST(suite, name)                                                                   \
    KIT_CASE(suite, name, sim_fixture, f, open_with(f, MEND_SIM_FABRIC_WORKS), sim_fixture_close(f))

PAIR_TEST(sim_fabric, a_handle_holds_no_memory_and_an_importer_does)
{
    uint64_t held = free_bytes(&p->from);
    EXPECT_PASS(import(&p->to, &p->shared, &p->imported));
    release(&p->from, p->chunk); /* before the device has accepted */
    EXPECT_U64_EQ(held, free_bytes(&p->from));
    release(&p->to, p->imported);
    EXPECT_U64_EQ(held + p->from.page, free_bytes(&p->from));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import(&p->to, &p->shared, &p->imported));
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import(&p->from, &p->shared, &p->imported));
    EXPECT_U64_EQ(0, p->from.heard + p->to.heard);
}

FABRIC_TEST(sim_fabric, what_is_no_handle_is_a_violation)
{
    mend_chunk_handle chunk = create(f, &by_fabric);
    mend_chunk_handle imported = 0;
    handle shared = export(f, chunk);
    shared.bytes[40] ^= 1;
    BREACH(INVALID_VALUE, "not a fabric handle", import_handle, &shared, MEND_SHARE_FABRIC,
           &imported);
    shared.bytes[0] ^= 1;
    BREACH(INVALID_VALUE, "not a fabric handle", import_handle, &shared, MEND_SHARE_FABRIC,
           &imported);
    int file = -1;
    BREACH(INVALID_VALUE, "share type 1", export_handle, chunk, MEND_SHARE_FILE_DESCRIPTOR, &file);
}

/* A device of other pages, of other content, and without the exporter's device, and two without
 * content, where only the sizes matter. */
MEND_TEST(sim_fabric, only_a_device_like_the_exporters_imports)
{
    const mend_sim_fabric works = MEND_SIM_FABRIC_WORKS;
    const mend_sim_content bytes = MEND_SIM_CONTENT_BYTES;
    const struct {
        const mend_sim_config *from, *to;
        int device;
        bool is_alike;
    } rows[] = {
        {SIM_CONFIG(.fabric = works, .device_count = 2, .content = bytes),
         SIM_CONFIG(.fabric = works, .device_count = 2, .content = bytes, .page_bytes = MEND_MIB),
         1, false},
        {SIM_CONFIG(.fabric = works, .device_count = 2, .content = bytes),
         SIM_CONFIG(.fabric = works, .device_count = 2), 1, false},
        {SIM_CONFIG(.fabric = works, .device_count = 2, .content = bytes),
         SIM_CONFIG(.fabric = works, .content = bytes), 1, false},
        {SIM_CONFIG(.fabric = works), SIM_CONFIG(.fabric = works), 0, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pair p;
        const mend_chunk_properties properties = {.device = rows[i].device,
                                                  .share_types = MEND_SHARE_FABRIC};
        ASSERT_TRUE(sim_fixture_open(&p.from, rows[i].from));
        ASSERT_TRUE(sim_fixture_open(&p.to, rows[i].to));
        p.chunk = create(&p.from, &properties);
        p.shared = export(&p.from, p.chunk);
        EXPECT_STATUS(rows[i].is_alike ? MEND_DRIVER_OK : MEND_DRIVER_INVALID_VALUE,
                      import(&p.to, &p.shared, &p.imported));
        EXPECT_U64_EQ(rows[i].is_alike, sim_fixture_ledger(&p.to).foreign_chunks);
        EXPECT_U64_EQ(0, p.to.heard);
        if (rows[i].is_alike) {
            release(&p.to, p.imported);
        }
        release(&p.from, p.chunk);
        close_pair(&p);
    }
}

/* ---- what the system refuses ----------------------------------------------------------------- */

FABRIC_TEST(sim_fabric, a_name_that_is_taken_is_out_of_memory)
{
    handle shared = {{0}};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    mend_chunk_handle chunk = create(f, &by_fabric);
    int length =
        snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "mend-sim-fabric-%llx-%llx-%x",
                 (unsigned long long)getpid(), (unsigned long long)(uintptr_t)f->sim, 1);
    int taken = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    ASSERT_INT_EQ(0, bind(taken, (const struct sockaddr *)&address, size));
    ANSWER(OUT_OF_MEMORY, export_handle, chunk, MEND_SHARE_FABRIC, &shared);
    close(taken);
    PASS(export_handle, chunk, MEND_SHARE_FABRIC, &shared);
}

PAIR_TEST(sim_fabric, an_import_without_host_memory_leaves_nothing)
{
    const int files = mend_test_open_files();
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    unsigned failed = 0;
    for (uint64_t i = 0; status != MEND_DRIVER_OK && i < 100; i++) {
        mend_test_fail_host_memory_after(i, 1);
        mend_test_watch_host_memory(true);
        status = import(&p->to, &p->shared, &p->imported);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        (void)free_bytes(&p->from); /* sees closed connections */
        failed += status == MEND_DRIVER_OUT_OF_MEMORY;
        EXPECT_TRUE(status == MEND_DRIVER_OK || mend_test_files_are(files));
    }
    EXPECT_PASS(status);
    EXPECT_TRUE(failed > 0);
    release(&p->to, p->imported);
}
