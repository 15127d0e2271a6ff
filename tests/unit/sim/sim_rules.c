/*
 * The rules of the driver, each broken once: the simulated device refuses the call and says why in
 * words, counts one violation, and keeps nothing of it; calls that keep the rules pass.
 */
#include <stdio.h>
#include <string.h>

#include "base/align.h"
#include "driver/driver.h"
#include "mend/mend_sim.h"
#include "tests/support/test.h"

/* A simulated device, opened, with its context current. */
typedef struct rules_world {
    mend_sim *sim;
    const mend_driver *driver;
    mend_device_info info;
    uint64_t page;
    unsigned violations; /* seen by the handler */
    char explanation[256];
} rules_world;

static void on_violation(void *context, const char *explanation)
{
    rules_world *world = context;
    world->violations++;
    snprintf(world->explanation, sizeof(world->explanation), "%s", explanation);
}

static bool open_world(rules_world *world)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 64 * MEND_MIB;
    config.on_violation = on_violation;
    config.violation_context = world;
    memset(world, 0, sizeof(*world));
    bool created = mend_sim_create(&config, &world->sim) == MEND_OK;
    EXPECT_TRUE(created);
    if (!created) {
        return false;
    }
    world->driver = mend_sim_driver(world->sim);
    created = world->driver->device_open(world->driver, 0, &world->info) == MEND_DRIVER_OK &&
              world->driver->context_push(world->driver, world->info.context) == MEND_DRIVER_OK;
    EXPECT_TRUE(created);
    world->page = world->info.granularity_bytes;
    return created;
}

static void close_world(rules_world *world)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_INT_EQ(MEND_DRIVER_OK, world->driver->context_pop(world->driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, world->driver->device_close(world->driver, 0));
    mend_sim_get_ledger(world->sim, &ledger);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(0, ledger.reservations);
    EXPECT_U64_EQ(0, ledger.events);
    EXPECT_U64_EQ(world->violations, ledger.violations);
    mend_sim_destroy(world->sim);
}

/* The call is refused, and why is said in words: these are part of them. */
#define EXPECT_BREACH(expected_status, member, words, ...)                                         \
    do {                                                                                           \
        unsigned violations_before = world.violations;                                             \
        EXPECT_INT_EQ(expected_status, world.driver->member(world.driver, __VA_ARGS__));           \
        EXPECT_U64_EQ(violations_before + 1, world.violations);                                    \
        EXPECT_TRUE(strstr(world.explanation, words) != NULL);                                     \
    } while (0)
#define EXPECT_REFUSED(member, words, ...)                                                         \
    EXPECT_BREACH(MEND_DRIVER_INVALID_VALUE, member, words, __VA_ARGS__)
#define EXPECT_BAD_HANDLE(member, words, ...)                                                      \
    EXPECT_BREACH(MEND_DRIVER_INVALID_HANDLE, member, words, __VA_ARGS__)
#define EXPECT_STATUS(expected_status, member, ...)                                                \
    EXPECT_INT_EQ(expected_status, world.driver->member(world.driver, __VA_ARGS__))
#define EXPECT_PASSES(member, ...) EXPECT_STATUS(MEND_DRIVER_OK, member, __VA_ARGS__)

static const int device_zero = 0;
static const mend_chunk_properties plain;

MEND_TEST(sim_rules, devices_are_closed_as_often_as_opened)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    mend_device_info info;
    EXPECT_PASSES(device_open, 0, &info);
    EXPECT_PASSES(device_close, 0);
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, device_close, 1);
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, device_close, -1);
    close_world(&world);
}

MEND_TEST(sim_rules, a_device_that_is_not_open_is_not_closed)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    EXPECT_INT_EQ(MEND_DRIVER_OK, world.driver->context_pop(world.driver));
    EXPECT_PASSES(device_close, 0);
    EXPECT_BREACH(MEND_DRIVER_INVALID_CONTEXT, device_close, "device_close: device 0 is not open",
                  0);
    mend_sim_destroy(world.sim);
}

MEND_TEST(sim_rules, reservations_are_whole_pages_freed_as_made)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    EXPECT_REFUSED(reserve, "reserve: 0 bytes are not a multiple of the page", 0, 0, 0, &address);
    EXPECT_REFUSED(reserve, "bytes are not a multiple of the page", world.page + 512, 0, 0,
                   &address);
    EXPECT_REFUSED(reserve, "is not a power of two", world.page, 3 * world.page, 0, &address);
    EXPECT_U64_EQ(0, address);
    EXPECT_PASSES(reserve, 2 * world.page, 0, 0, &address);
    const char *whole = "is not a reservation as it was made";
    EXPECT_REFUSED(address_free, whole, address, world.page);
    EXPECT_REFUSED(address_free, whole, address + world.page, world.page);
    EXPECT_PASSES(address_free, address, 2 * world.page);
    EXPECT_REFUSED(address_free, whole, address, 2 * world.page);
    close_world(&world);
}

MEND_TEST(sim_rules, chunks_are_whole_pages_of_an_open_device)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    mend_chunk_handle chunk = 0;
    mend_chunk_properties closed = {.device = 1};
    mend_chunk_properties unknown = {.share_types = 64};
    EXPECT_REFUSED(create, "are not a multiple of the page", world.page / 2, &plain, &chunk);
    EXPECT_BREACH(MEND_DRIVER_INVALID_DEVICE, create, "create: there is no device 1", world.page,
                  &closed, &chunk);
    EXPECT_STATUS(MEND_DRIVER_NOT_SUPPORTED, create, world.page, &unknown, &chunk);
    EXPECT_PASSES(create, world.page, &plain, &chunk);
    EXPECT_PASSES(release, chunk);
    EXPECT_REFUSED(release, "is not a handle, or was released already", chunk);
    EXPECT_REFUSED(release, "is not a handle, or was released already", 0);
    close_world(&world);
}

/* A reservation of four pages and a chunk of one. */
static void make_range(rules_world *world, uint64_t *address, mend_chunk_handle *chunk)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK,
                  world->driver->reserve(world->driver, 4 * world->page, 0, 0, address));
    EXPECT_INT_EQ(MEND_DRIVER_OK, world->driver->create(world->driver, world->page, &plain, chunk));
}

MEND_TEST(sim_rules, a_chunk_is_mapped_whole_where_nothing_is_mapped)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    mend_chunk_handle chunk = 0;
    mend_chunk_handle large = 0;
    make_range(&world, &address, &chunk);
    EXPECT_PASSES(create, 2 * world.page, &plain, &large);
    const char *whole = "but a chunk is mapped whole";
    EXPECT_REFUSED(map, whole, address, world.page, 0, large);
    EXPECT_REFUSED(map, whole, address, 2 * world.page, 0, chunk);
    EXPECT_REFUSED(map, "the offset must be 0", address, world.page, world.page, chunk);
    EXPECT_REFUSED(map, "is not aligned to the page", address + 512, world.page, 0, chunk);
    EXPECT_REFUSED(map, whole, address, 0, 0, chunk);
    EXPECT_REFUSED(map, "is not a handle", address, world.page, 0, chunk + 77);
    const char *inside = "does not lie in a reservation";
    EXPECT_REFUSED(map, inside, address + 4 * world.page, world.page, 0, chunk);
    EXPECT_REFUSED(map, inside, address + 3 * world.page, 2 * world.page, 0, large);
    EXPECT_PASSES(map, address + world.page, world.page, 0, chunk);
    const char *over = "lies over the mapping";
    EXPECT_REFUSED(map, over, address + world.page, world.page, 0, chunk);
    EXPECT_REFUSED(map, over, address, 2 * world.page, 0, large);
    EXPECT_PASSES(map, address + 2 * world.page, 2 * world.page, 0, large);
    EXPECT_REFUSED(map, over, address + 3 * world.page, world.page, 0, chunk);
    EXPECT_REFUSED(address_free, "2 mappings lie in the reservation", address, 4 * world.page);
    EXPECT_PASSES(unmap, address + world.page, 3 * world.page);
    EXPECT_PASSES(release, chunk);
    EXPECT_PASSES(release, large);
    EXPECT_PASSES(address_free, address, 4 * world.page);
    close_world(&world);
}

MEND_TEST(sim_rules, unmap_and_access_take_whole_mappings_without_a_hole)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    uint64_t page = world.page;
    mend_chunk_handle chunk = 0;
    mend_chunk_handle large = 0;
    make_range(&world, &address, &chunk);
    EXPECT_PASSES(create, 2 * page, &plain, &large);
    EXPECT_PASSES(map, address, 2 * page, 0, large);
    EXPECT_PASSES(map, address + 3 * page, page, 0, chunk);
    const char *part = "is only part of the mapping";
    const char *hole = "has a hole: nothing is mapped at";
    EXPECT_REFUSED(unmap, part, address + page, page);
    EXPECT_REFUSED(unmap, hole, address + 2 * page, page);
    EXPECT_REFUSED(unmap, part, address, page);
    EXPECT_REFUSED(unmap, hole, address, 4 * page);
    EXPECT_REFUSED(unmap, "the range is empty", address, 0);
    EXPECT_REFUSED(set_access, part, address + page, page, &device_zero, 1, MEND_ACCESS_READ_WRITE);
    EXPECT_REFUSED(set_access, part, address, page, &device_zero, 1, MEND_ACCESS_READ_WRITE);
    EXPECT_REFUSED(set_access, hole, address, 4 * page, &device_zero, 1, MEND_ACCESS_READ_WRITE);
    EXPECT_REFUSED(set_access, "no device is named", address, 2 * page, &device_zero, 0,
                   MEND_ACCESS_READ_WRITE);
    EXPECT_PASSES(set_access, address, 2 * page, &device_zero, 1, MEND_ACCESS_READ_WRITE);
    EXPECT_PASSES(map, address + 2 * page, page, 0, chunk); /* an alias closes the hole */
    EXPECT_PASSES(set_access, address, 4 * page, &device_zero, 1, MEND_ACCESS_READ_WRITE);
    EXPECT_PASSES(unmap, address, 4 * page);
    EXPECT_PASSES(release, chunk);
    EXPECT_PASSES(release, large);
    EXPECT_PASSES(address_free, address, 4 * page);
    close_world(&world);
}

MEND_TEST(sim_rules, unmap_and_access_stay_in_one_reservation)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t page = world.page;
    uint64_t first = 0;
    uint64_t second = 0;
    mend_chunk_handle chunk = 0;
    EXPECT_PASSES(reserve, page, page, 0, &first);
    EXPECT_PASSES(reserve, page, page, first + page, &second);
    ASSERT_U64_EQ(first + page, second);
    EXPECT_PASSES(create, page, &plain, &chunk);
    EXPECT_PASSES(map, first, page, 0, chunk);
    EXPECT_PASSES(map, second, page, 0, chunk);
    const char *rule = "lies in two reservations";
    EXPECT_REFUSED(set_access, rule, first, 2 * page, &device_zero, 1, MEND_ACCESS_READ_WRITE);
    EXPECT_REFUSED(unmap, rule, first, 2 * page);
    EXPECT_PASSES(unmap, first, page);
    EXPECT_PASSES(unmap, second, page);
    EXPECT_PASSES(release, chunk);
    EXPECT_PASSES(address_free, first, page);
    EXPECT_PASSES(address_free, second, page);
    close_world(&world);
}

/* A device on which `make` queues work that breaks a rule; what it touches begins at `address`,
 * where one page is mapped, and has access where that is asked for. */
typedef struct bad_work {
    bool is_mapped;
    bool has_access;
    mend_status status;
    mend_status (*make)(const rules_world *world, uint64_t address);
    const char *words;
} bad_work;

static mend_status fill_first(const rules_world *world, uint64_t address)
{
    return world->driver->fill(world->driver, address, 0, 512, NULL);
}

static mend_status fill_too_much(const rules_world *world, uint64_t address)
{
    return world->driver->fill(world->driver, address, 0, world->page + 1, NULL);
}

static mend_status copy_to_nowhere(const rules_world *world, uint64_t address)
{
    return world->driver->copy(world->driver, address + world->page, address, 512, NULL);
}

static mend_status copy_from_nowhere(const rules_world *world, uint64_t address)
{
    return world->driver->copy(world->driver, address, address + world->page, 512, NULL);
}

static mend_status launch(const rules_world *world, mend_kernel kernel)
{
    return world->driver->launch(world->driver, NULL, &kernel);
}

static mend_status write_too_far(const rules_world *world, uint64_t address)
{
    return launch(world, (mend_kernel){.kind = MEND_KERNEL_WRITE,
                                       .address = address,
                                       .granule_bytes = 512,
                                       .stride_bytes = world->page / 2,
                                       .granule_count = 3});
}

static mend_status write_overlapping(const rules_world *world, uint64_t address)
{
    return launch(world, (mend_kernel){.kind = MEND_KERNEL_WRITE,
                                       .address = address,
                                       .granule_bytes = 512,
                                       .stride_bytes = 256,
                                       .granule_count = 2});
}

static mend_status write_parts_of_words(const rules_world *world, uint64_t address)
{
    return launch(world, (mend_kernel){.kind = MEND_KERNEL_WRITE,
                                       .address = address,
                                       .granule_bytes = 7,
                                       .stride_bytes = 256,
                                       .granule_count = 2});
}

static mend_status stream_from(const rules_world *world, uint64_t address)
{
    return launch(world, (mend_kernel){.kind = MEND_KERNEL_STREAM,
                                       .address = address,
                                       .granule_bytes = world->page,
                                       .stride_bytes = world->page,
                                       .granule_count = 1});
}

static mend_status stream_from_a_word(const rules_world *world, uint64_t address)
{
    return stream_from(world, address + 8);
}

static mend_status stream_from_nowhere(const rules_world *world, uint64_t address)
{
    return stream_from(world, address + world->page);
}

static mend_status verify_for_nobody(const rules_world *world, uint64_t address)
{
    (void)address;
    return launch(world, (mend_kernel){.kind = MEND_KERNEL_VERIFY});
}

static mend_status launch_unknown(const rules_world *world, uint64_t address)
{
    (void)address;
    return launch(world, (mend_kernel){.kind = MEND_KERNEL_KINDS});
}

MEND_TEST(sim_rules, work_touches_only_memory_with_access)
{
    static const bad_work works[] = {
        {false, false, MEND_DRIVER_ILLEGAL_ADDRESS, fill_first, "is not mapped"},
        {true, false, MEND_DRIVER_ILLEGAL_ADDRESS, fill_first, "access"},
        {true, true, MEND_DRIVER_ILLEGAL_ADDRESS, fill_too_much, "is not mapped"},
        {true, true, MEND_DRIVER_ILLEGAL_ADDRESS, copy_to_nowhere, "is not mapped"},
        {true, true, MEND_DRIVER_ILLEGAL_ADDRESS, copy_from_nowhere, "is not mapped"},
        {true, true, MEND_DRIVER_ILLEGAL_ADDRESS, write_too_far, "is not mapped"},
        {true, true, MEND_DRIVER_INVALID_VALUE, write_overlapping, "are not separate granules"},
        {true, true, MEND_DRIVER_INVALID_VALUE, write_parts_of_words, "are not separate granules"},
        {true, true, MEND_DRIVER_INVALID_VALUE, stream_from_a_word, "are not separate granules"},
        {true, true, MEND_DRIVER_ILLEGAL_ADDRESS, stream_from_nowhere, "is not mapped"},
        {true, true, MEND_DRIVER_ILLEGAL_ADDRESS, verify_for_nobody,
         "touches 0x0, which is not mapped"},
        {true, true, MEND_DRIVER_INVALID_VALUE, launch_unknown, "there is no kernel"},
    };
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        rules_world world;
        uint64_t address = 0;
        mend_chunk_handle chunk = 0;
        ASSERT_TRUE(open_world(&world));
        make_range(&world, &address, &chunk);
        if (works[i].is_mapped) {
            EXPECT_PASSES(map, address, world.page, 0, chunk);
        }
        if (works[i].has_access) {
            EXPECT_PASSES(set_access, address, world.page, &device_zero, 1, MEND_ACCESS_READ_WRITE);
            EXPECT_PASSES(fill, address, 0, world.page, NULL);
            EXPECT_INT_EQ(MEND_DRIVER_OK, stream_from(&world, address));
        }
        EXPECT_U64_EQ(0, world.violations);
        EXPECT_INT_EQ(works[i].status, works[i].make(&world, address));
        EXPECT_U64_EQ(1, world.violations);
        EXPECT_TRUE(strstr(world.explanation, works[i].words) != NULL);
        mend_sim_destroy(world.sim);
    }
}

MEND_TEST(sim_rules, the_own_allocators_free_what_they_gave)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t first = 0;
    uint64_t second = 0;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, plain_alloc, 0, &first);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, async_alloc, 0, NULL, &first);
    EXPECT_PASSES(plain_alloc, 4096, &first);
    EXPECT_PASSES(async_alloc, 4096, NULL, &second);
    const char *unknown = "is not the start of an allocation";
    EXPECT_REFUSED(plain_free, unknown, first + 512);
    EXPECT_PASSES(plain_free, first);
    EXPECT_REFUSED(plain_free, unknown, first);
    EXPECT_PASSES(async_free, second, NULL);
    EXPECT_REFUSED(async_free, unknown, second, NULL);
    EXPECT_INT_EQ(MEND_DRIVER_OK, world.driver->context_synchronize(world.driver));
    close_world(&world);
}

MEND_TEST(sim_rules, events_live_from_create_to_destroy)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    mend_event event = NULL;
    EXPECT_PASSES(event_create, &event);
    EXPECT_PASSES(event_record, event, NULL);
    EXPECT_PASSES(event_destroy, event);
    const char *unknown = "is not an event, or was destroyed";
    EXPECT_BAD_HANDLE(event_record, unknown, event, NULL);
    EXPECT_BAD_HANDLE(event_query, unknown, event);
    EXPECT_BAD_HANDLE(event_synchronize, unknown, event);
    EXPECT_BAD_HANDLE(event_destroy, unknown, event);
    EXPECT_BAD_HANDLE(stream_wait, unknown, NULL, event);
    close_world(&world);
}

MEND_TEST(sim_rules, streams_are_real_ones)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    const char *none = "is not a stream, or was destroyed";
    mend_stream_info info;
    mend_event event = NULL;
    EXPECT_PASSES(event_create, &event);
    EXPECT_BREACH(MEND_DRIVER_UNKNOWN, stream_query, none, MEND_NO_STREAM);
    EXPECT_BREACH(MEND_DRIVER_UNKNOWN, stream_synchronize, none, MEND_NO_STREAM);
    EXPECT_BREACH(MEND_DRIVER_UNKNOWN, stream_get_info, none, MEND_NO_STREAM, &info);
    EXPECT_BREACH(MEND_DRIVER_UNKNOWN, stream_destroy, none, MEND_NO_STREAM);
    EXPECT_BREACH(MEND_DRIVER_UNKNOWN, event_record, none, event, MEND_NO_STREAM);
    EXPECT_BREACH(MEND_DRIVER_UNKNOWN, stream_wait, none, MEND_NO_STREAM, event);
    const char *own = "is not a stream that was created";
    EXPECT_BAD_HANDLE(stream_destroy, own, NULL);
    EXPECT_BAD_HANDLE(stream_destroy, own, MEND_STREAM_LEGACY);
    EXPECT_BAD_HANDLE(stream_destroy, own, MEND_STREAM_PER_THREAD);
    mend_capture_mode mode = (mend_capture_mode)7;
    EXPECT_REFUSED(exchange_capture_mode, "7 is not a mode", &mode);
    EXPECT_PASSES(event_destroy, event);
    close_world(&world);
}

MEND_TEST(sim_rules, a_released_chunk_lives_in_its_mappings)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    mend_chunk_handle chunk = 0;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    make_range(&world, &address, &chunk);
    EXPECT_PASSES(map, address, world.page, 0, chunk);
    EXPECT_PASSES(release, chunk);
    EXPECT_REFUSED(map, "is not a handle", address + world.page, world.page, 0, chunk);
    mend_sim_get_ledger(world.sim, &ledger);
    EXPECT_U64_EQ(1, ledger.chunks);
    EXPECT_U64_EQ(world.page, ledger.chunk_bytes);
    EXPECT_U64_EQ(world.page, ledger.mapped_bytes);
    EXPECT_U64_EQ(4 * world.page, ledger.address_bytes);
    EXPECT_PASSES(unmap, address, world.page);
    mend_sim_get_ledger(world.sim, &ledger);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_PASSES(address_free, address, 4 * world.page);
    close_world(&world);
}

MEND_TEST(sim_rules, a_chunk_is_exported_as_the_type_it_was_made_for)
{
    rules_world world;
    ASSERT_TRUE(open_world(&world));
    int descriptor = -1;
    mend_chunk_handle chunk = 0;
    EXPECT_PASSES(create, world.page, &plain, &chunk);
    EXPECT_REFUSED(export_handle, "is not a handle of a chunk created for share type 1", chunk,
                   MEND_SHARE_FILE_DESCRIPTOR, &descriptor);
    EXPECT_REFUSED(export_handle, "is not a handle of a chunk created for share type 3", chunk, 3,
                   &descriptor);
    EXPECT_REFUSED(export_handle, "is not a handle of a chunk created for share type 1", chunk + 77,
                   MEND_SHARE_FILE_DESCRIPTOR, &descriptor);
    EXPECT_STATUS(MEND_DRIVER_NOT_SUPPORTED, import_handle, &descriptor, 3, &chunk);
    EXPECT_PASSES(release, chunk);
    close_world(&world);
}
