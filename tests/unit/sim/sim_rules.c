/*
 * The rules of the driver, each broken once: the simulated device refuses the call and says why in
 * words, counts one violation, and keeps nothing of it. Calls that keep the rules pass.
 */
#include "tests/unit/sim/sim_fixture.h"

#define RULES_TEST(suite, name)                                                                    \
    KIT_CASE(suite, name, sim_fixture, f, sim_fixture_open(f, NULL), close_empty(f))
#define REFUSED(member, words, ...) BREACH(INVALID_VALUE, words, member, __VA_ARGS__)

static const int device_zero = 0;
static const mend_chunk_properties plain;

static void close_empty(sim_fixture *f)
{
    PASS(context_pop);
    PASS(device_close, 0);
    mend_sim_ledger ledger = sim_fixture_ledger(f);
    EXPECT_U64_EQ(0, ledger.chunks + ledger.mappings + ledger.reservations + ledger.events);
    sim_fixture_close(f);
}

RULES_TEST(sim_rules, chunks_are_whole_pages_of_an_open_device)
{
    mend_chunk_handle chunk = 0;
    mend_chunk_properties closed = {.device = 1};
    mend_chunk_properties unknown = {.share_types = 64};
    REFUSED(create, "are not a multiple of the page", f->page / 2, &plain, &chunk);
    BREACH(INVALID_DEVICE, "there is no device 1", create, f->page, &closed, &chunk);
    ANSWER(NOT_SUPPORTED, create, f->page, &unknown, &chunk);
    PASS(create, f->page, &plain, &chunk);
    PASS(release, chunk);
    REFUSED(release, "is not a handle, or was released already", chunk);
    REFUSED(release, "is not a handle, or was released already", 0);
}

/* A reservation of four pages and chunks of one and two. */
static uint64_t make_range(sim_fixture *f, mend_chunk_handle *chunk, mend_chunk_handle *large)
{
    uint64_t address = 0;
    PASS(reserve, 4 * f->page, 0, 0, &address);
    *chunk = sim_fixture_chunk(f, f->page);
    *large = sim_fixture_chunk(f, 2 * f->page);
    return address;
}

static void drop_range(sim_fixture *f, uint64_t address, mend_chunk_handle chunk,
                       mend_chunk_handle large)
{
    PASS(release, chunk);
    PASS(release, large);
    PASS(address_free, address, 4 * f->page);
}

RULES_TEST(sim_rules, unmap_and_access_take_whole_mappings_without_a_hole)
{
    mend_chunk_handle chunk = 0;
    mend_chunk_handle large = 0;
    uint64_t page = f->page;
    uint64_t address = make_range(f, &chunk, &large);
    PASS(map, address, 2 * page, 0, large);
    PASS(map, address + 3 * page, page, 0, chunk);
    const char *part = "is only part of the mapping [0x";
    const char *hole = "has a hole: nothing is mapped at 0x";
    REFUSED(unmap, part, address + page, page);
    REFUSED(unmap, "(131072 bytes)", address + page, page);
    REFUSED(unmap, hole, address + 2 * page, page);
    REFUSED(unmap, part, address, page);
    REFUSED(unmap, hole, address, 3 * page); /* as much is mapped on both sides of it */
    REFUSED(unmap, hole, address, 4 * page);
    REFUSED(unmap, "the range is empty", address, 0);
    const mend_access both = MEND_ACCESS_READ_WRITE;
    REFUSED(set_access, part, address + page, page, &device_zero, 1, both);
    REFUSED(set_access, part, address, page, &device_zero, 1, both);
    REFUSED(set_access, hole, address, 4 * page, &device_zero, 1, both);
    REFUSED(set_access, "no device is named", address, 2 * page, &device_zero, 0, both);
    sim_fixture_allow(f, address, 2 * page);
    PASS(map, address + 2 * page, page, 0, chunk); /* an alias closes the hole */
    sim_fixture_allow(f, address, 4 * page);
    PASS(unmap, address, 4 * page);
    drop_range(f, address, chunk, large);
}

RULES_TEST(sim_rules, unmap_and_access_stay_in_one_reservation)
{
    uint64_t page = f->page;
    uint64_t first = sim_fixture_map(f, page, page);
    uint64_t second = sim_fixture_map(f, page, page);
    ASSERT_U64_EQ(first + page, second);
    const char *rule = "lies in two reservations";
    REFUSED(set_access, rule, first, 2 * page, &device_zero, 1, MEND_ACCESS_READ_WRITE);
    REFUSED(unmap, rule, first, 2 * page);
    PASS(unmap, first, page);
    PASS(unmap, second, page);
    PASS(address_free, first, page);
    PASS(address_free, second, page);
}

typedef struct bad_work {
    enum { RESERVED, MAPPED, USABLE } state; /* of a page, behind which nothing is mapped */
    int kind; /* of a kernel, or FILL from here, COPY there or from there */
    uint64_t at, granule_bytes, stride_bytes, granule_count;
    mend_status status;
    const char *words;
} bad_work;

enum { FILL = -1, COPY_THERE = -2, COPY_FROM = -3, PAGE = 64 << 10 };

static mend_status do_work(sim_fixture *f, const bad_work *w, uint64_t address)
{
    uint64_t at = w->at == UINT64_MAX ? 0 : address + w->at;
    mend_kernel kernel = sim_kernel((mend_kernel_kind)w->kind, at, w->granule_bytes,
                                    w->stride_bytes, w->granule_count);
    return w->kind == FILL         ? f->driver->fill(f->driver, at, 0, w->granule_bytes, NULL)
           : w->kind == COPY_THERE ? f->driver->copy(f->driver, at + PAGE, at, 512, NULL)
           : w->kind == COPY_FROM  ? f->driver->copy(f->driver, at, at + PAGE, 512, NULL)
                                   : f->driver->launch(f->driver, NULL, &kernel);
}

MEND_TEST(sim_rules, work_touches_only_memory_with_access)
{
    enum { ILLEGAL = MEND_DRIVER_ILLEGAL_ADDRESS, INVALID = MEND_DRIVER_INVALID_VALUE };
    enum { WRITE = MEND_KERNEL_WRITE, STREAM = MEND_KERNEL_STREAM, VERIFY = MEND_KERNEL_VERIFY };
    static const char unmapped[] = "is not mapped";
    static const char together[] = "are not separate granules";
    static const bad_work rows[] = {
        {RESERVED, FILL, 0, 512, 0, 0, ILLEGAL, unmapped},
        {MAPPED, FILL, 0, 512, 0, 0, ILLEGAL, "no access"},
        {USABLE, FILL, 0, PAGE + 1, 0, 0, ILLEGAL, unmapped},
        {USABLE, COPY_THERE, 0, 0, 0, 0, ILLEGAL, unmapped},
        {USABLE, COPY_FROM, 0, 0, 0, 0, ILLEGAL, unmapped},
        {USABLE, WRITE, 0, 512, PAGE / 2, 3, ILLEGAL, unmapped},
        {USABLE, STREAM, PAGE, PAGE, PAGE, 1, ILLEGAL, unmapped},
        {USABLE, VERIFY, UINT64_MAX, 0, 0, 0, ILLEGAL, "touches 0x0, which is not mapped"},
        {USABLE, WRITE, 0, 512, 256, 2, INVALID, together},
        {USABLE, WRITE, 0, 7, 256, 2, INVALID, together},
        {USABLE, WRITE, 2, 8, 8, 2, INVALID, "whole words"},
        {USABLE, WRITE, 0, 8, 8, UINT64_MAX, INVALID, together},
        {USABLE, STREAM, 8, PAGE, PAGE, 1, INVALID, together},
        {USABLE, STREAM, 0, 8, 8, 1, INVALID, together},
        {USABLE, VERIFY, 2, 512, 512, 1, INVALID, "whole words"},
        {USABLE, WRITE, 0, 6, 0, 1, INVALID, "whole words"},
        {USABLE, MEND_KERNEL_KINDS, 0, 0, 0, 0, INVALID, "there is no kernel"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        sim_fixture rig;
        sim_fixture *f = &rig;
        uint64_t address = 0;
        ASSERT_TRUE(sim_fixture_open(f, NULL));
        PASS(reserve, 4 * PAGE, 0, 0, &address);
        if (rows[i].state >= MAPPED) {
            PASS(map, address, PAGE, 0, sim_fixture_chunk(f, PAGE));
        }
        if (rows[i].state == USABLE) {
            sim_fixture_allow(f, address, PAGE);
            PASS(fill, address, 0, PAGE, NULL);
            PASS(launch, NULL, &(mend_kernel){.kind = MEND_KERNEL_WRITE}); /* touches nothing */
            mend_kernel verify = sim_kernel(MEND_KERNEL_VERIFY, address, 512, 512, 1);
            verify.mismatches = address + 512;
            PASS(launch, NULL, &verify);
        }
        EXPECT_STATUS(rows[i].status, do_work(f, &rows[i], address));
        EXPECT_HEARD(f, 1, rows[i].words);
        sim_fixture_close(f);
    }
}

RULES_TEST(sim_rules, the_own_allocators_free_what_they_gave)
{
    uint64_t first = 0;
    uint64_t second = 0;
    ANSWER(INVALID_VALUE, plain_alloc, 0, &first);
    ANSWER(INVALID_VALUE, async_alloc, 0, NULL, &first);
    PASS(plain_alloc, 4096, &first);
    PASS(async_alloc, 4096, NULL, &second);
    const char *unknown = "is not the start of an allocation";
    REFUSED(plain_free, unknown, first + 512);
    PASS(plain_free, first);
    REFUSED(plain_free, unknown, first);
    PASS(async_free, second, NULL);
    REFUSED(async_free, unknown, second, NULL);
    PASS(context_synchronize);
}

RULES_TEST(sim_rules, events_live_from_create_to_destroy)
{
    mend_event event = sim_fixture_event(f);
    PASS(event_record, event, NULL);
    PASS(event_destroy, event);
    const char *unknown = "is not an event, or was destroyed";
    BREACH(INVALID_HANDLE, unknown, event_record, event, NULL);
    BREACH(INVALID_HANDLE, unknown, event_query, event);
    BREACH(INVALID_HANDLE, unknown, event_synchronize, event);
    BREACH(INVALID_HANDLE, unknown, event_destroy, event);
    BREACH(INVALID_HANDLE, unknown, stream_wait, NULL, event);
}

RULES_TEST(sim_rules, streams_are_real_ones)
{
    const char *none = "is not a stream, or was destroyed";
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work), .kind = MEND_SIM_WORK_TOUCH};
    mend_stream_info info;
    mend_event event = sim_fixture_event(f);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(f->sim, f->stream));
    const mend_stream streams[] = {MEND_NO_STREAM, f->stream};
    for (int i = 0; i < 2; i++) {
        BREACH(UNKNOWN, none, stream_query, streams[i]);
        BREACH(UNKNOWN, none, stream_synchronize, streams[i]);
        BREACH(UNKNOWN, none, stream_get_info, streams[i], &info);
        BREACH(UNKNOWN, none, stream_destroy, streams[i]);
        BREACH(UNKNOWN, none, event_record, event, streams[i]);
        BREACH(UNKNOWN, none, stream_wait, streams[i], event);
        uint64_t heard = f->heard;
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_launch(f->sim, streams[i], &work));
        EXPECT_HEARD(f, heard + 1, none);
    }
    const char *own = "is not a stream that was created";
    BREACH(INVALID_HANDLE, own, stream_destroy, NULL);
    BREACH(INVALID_HANDLE, own, stream_destroy, MEND_STREAM_LEGACY);
    BREACH(INVALID_HANDLE, own, stream_destroy, MEND_STREAM_PER_THREAD);
    mend_capture_mode mode = (mend_capture_mode)3;
    REFUSED(exchange_capture_mode, "3 is not a mode", &mode);
    PASS(event_destroy, event);
}

RULES_TEST(sim_rules, a_chunk_is_exported_as_the_type_it_was_made_for)
{
    int file = -1;
    mend_chunk_handle chunk = sim_fixture_chunk(f, f->page);
    const char *words = "is not a handle of a chunk created for share type 1";
    REFUSED(export_handle, words, chunk, MEND_SHARE_FILE_DESCRIPTOR, &file);
    REFUSED(export_handle, words, chunk + 77, MEND_SHARE_FILE_DESCRIPTOR, &file);
    REFUSED(export_handle, "is not a handle of a chunk created for share type 3", chunk, 3, &file);
    ANSWER(NOT_SUPPORTED, import_handle, &file, 3, &chunk);
    PASS(release, chunk);
}
