/*
 * The checking decorator: each rule it knows is broken once, and is refused in words without
 * reaching the device; calls that keep the rules pass, and the ledger is the device's own.
 */
#include <stdio.h>
#include <string.h>

#include "base/align.h"
#include "driver/checked.h"
#include "driver/traced.h"
#include "mend/mend_sim.h"
#include "tests/support/test.h"

/* checked -> traced -> simulated device, opened, with its context current. */
typedef struct checked_world {
    mend_sim *sim;
    mend_driver *traced;
    mend_driver *driver;
    mend_device_info info;
    uint64_t page;
    unsigned breaches; /* seen by the handler */
    mend_driver_call broken_call;
    char broken_rule[128];
} checked_world;

static void on_breach(void *context, mend_driver_call call, const char *rule)
{
    checked_world *world = context;
    world->breaches++;
    world->broken_call = call;
    snprintf(world->broken_rule, sizeof(world->broken_rule), "%s", rule);
}

static bool open_world(checked_world *world)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 64 * MEND_MIB;
    memset(world, 0, sizeof(*world));
    bool created =
        mend_sim_create(&config, &world->sim) == MEND_OK &&
        mend_traced_driver_create(mend_sim_driver(world->sim), &world->traced) == MEND_OK &&
        mend_checked_driver_create(world->traced, on_breach, world, &world->driver) == MEND_OK &&
        world->driver->device_open(world->driver, 0, &world->info) == MEND_DRIVER_OK &&
        world->driver->context_push(world->driver, world->info.context) == MEND_DRIVER_OK;
    EXPECT_TRUE(created);
    world->page = world->info.granularity_bytes;
    return created;
}

static uint64_t calls_passed_on(const checked_world *world)
{
    mend_driver_counters counters;
    uint64_t calls = 0;
    mend_traced_driver_get(world->traced, &counters);
    for (int call = 0; call < MEND_DRIVER_CALL_COUNT; call++) {
        calls += counters.call[call].calls;
    }
    return calls;
}

static void close_world(checked_world *world)
{
    mend_checked_ledger ledger;
    EXPECT_INT_EQ(MEND_DRIVER_OK, world->driver->context_pop(world->driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, world->driver->device_close(world->driver, 0));
    mend_checked_driver_get_ledger(world->driver, &ledger);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.chunk_bytes);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(0, ledger.mapped_bytes);
    EXPECT_U64_EQ(0, ledger.reservations);
    EXPECT_U64_EQ(0, ledger.reserved_address_bytes);
    EXPECT_U64_EQ(0, ledger.events);
    EXPECT_U64_EQ(world->breaches, ledger.breaches);
    EXPECT_STR_EQ("", mend_sim_first_violation(world->sim));
    mend_checked_driver_destroy(world->driver);
    mend_traced_driver_destroy(world->traced);
    mend_sim_destroy(world->sim);
}

/* The call is refused with these words, and nothing reaches the device. */
#define EXPECT_BREACH(expected_status, member, words, ...)                                         \
    do {                                                                                           \
        uint64_t passed_before = calls_passed_on(&world);                                          \
        unsigned breaches_before = world.breaches;                                                 \
        EXPECT_INT_EQ(expected_status, world.driver->member(world.driver, __VA_ARGS__));           \
        EXPECT_U64_EQ(passed_before, calls_passed_on(&world));                                     \
        EXPECT_U64_EQ(breaches_before + 1, world.breaches);                                        \
        EXPECT_INT_EQ(MEND_CALL_##member, world.broken_call);                                      \
        EXPECT_STR_EQ(words, world.broken_rule);                                                   \
    } while (0)
#define EXPECT_REFUSED(member, words, ...)                                                         \
    EXPECT_BREACH(MEND_DRIVER_INVALID_VALUE, member, words, __VA_ARGS__)
#define EXPECT_BAD_HANDLE(member, words, ...)                                                      \
    EXPECT_BREACH(MEND_DRIVER_INVALID_HANDLE, member, words, __VA_ARGS__)
#define EXPECT_PASSES(member, ...)                                                                 \
    EXPECT_INT_EQ(MEND_DRIVER_OK, world.driver->member(world.driver, __VA_ARGS__))

static const int device_zero = 0;
static const mend_chunk_properties plain;

MEND_TEST(driver_checked, devices_are_closed_as_often_as_opened)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    mend_device_info info;
    EXPECT_PASSES(device_open, 0, &info);
    EXPECT_PASSES(device_close, 0);
    EXPECT_REFUSED(device_close, "each close needs an open of the device before it", 1);
    EXPECT_REFUSED(device_close, "each close needs an open of the device before it", -1);
    close_world(&world);
}

MEND_TEST(driver_checked, nothing_is_made_before_a_device_is_open)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    mend_driver *fresh = NULL;
    uint64_t address = 0;
    mend_chunk_handle chunk = 0;
    ASSERT_RESULT(MEND_OK, mend_checked_driver_create(world.traced, NULL, NULL, &fresh));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE, fresh->reserve(fresh, world.page, 0, 0, &address));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE, fresh->create(fresh, world.page, &plain, &chunk));
    mend_checked_ledger ledger;
    mend_checked_driver_get_ledger(fresh, &ledger);
    EXPECT_U64_EQ(2, ledger.breaches);
    mend_checked_driver_destroy(fresh);
    close_world(&world);
}

MEND_TEST(driver_checked, reservations_are_whole_pages_freed_as_made)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    EXPECT_REFUSED(reserve, "a size is a whole number of pages, not 0", 0, 0, 0, &address);
    EXPECT_REFUSED(reserve, "a size is a whole number of pages, not 0", world.page + 512, 0, 0,
                   &address);
    EXPECT_REFUSED(reserve, "an alignment is 0 or a power of two", world.page, 3 * world.page, 0,
                   &address);
    EXPECT_U64_EQ(0, address);
    EXPECT_PASSES(reserve, 2 * world.page, 0, 0, &address);
    const char *whole = "a reservation is freed whole, as it was made";
    EXPECT_REFUSED(address_free, whole, address, world.page);
    EXPECT_REFUSED(address_free, whole, address + world.page, world.page);
    EXPECT_PASSES(address_free, address, 2 * world.page);
    EXPECT_REFUSED(address_free, whole, address, 2 * world.page);
    close_world(&world);
}

MEND_TEST(driver_checked, chunks_are_whole_pages_of_an_open_device)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    mend_chunk_handle chunk = 0;
    mend_chunk_properties closed = {.device = 1};
    mend_chunk_properties unknown = {.share_types = 64};
    EXPECT_REFUSED(create, "a size is a whole number of pages, not 0", world.page / 2, &plain,
                   &chunk);
    EXPECT_REFUSED(create, "a chunk is created on a device that is open", world.page, &closed,
                   &chunk);
    EXPECT_REFUSED(create, "a chunk is created with properties the driver knows", world.page,
                   &unknown, &chunk);
    EXPECT_REFUSED(create, "a chunk is created with properties the driver knows", world.page, NULL,
                   &chunk);
    EXPECT_PASSES(create, world.page, &plain, &chunk);
    EXPECT_PASSES(release, chunk);
    EXPECT_REFUSED(release, "only a handle that is held can be released", chunk);
    EXPECT_REFUSED(release, "only a handle that is held can be released", 0);
    close_world(&world);
}

/* A reservation of four pages and a chunk of one. */
static void make_range(checked_world *world, uint64_t *address, mend_chunk_handle *chunk)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK,
                  world->driver->reserve(world->driver, 4 * world->page, 0, 0, address));
    EXPECT_INT_EQ(MEND_DRIVER_OK, world->driver->create(world->driver, world->page, &plain, chunk));
}

MEND_TEST(driver_checked, a_chunk_is_mapped_whole_where_nothing_is_mapped)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    mend_chunk_handle chunk = 0;
    mend_chunk_handle large = 0;
    make_range(&world, &address, &chunk);
    EXPECT_PASSES(create, 2 * world.page, &plain, &large);
    const char *whole = "a chunk is mapped whole: offset 0, and its own size";
    EXPECT_REFUSED(map, whole, address, world.page, 0, large);
    EXPECT_REFUSED(map, whole, address, 2 * world.page, 0, chunk);
    EXPECT_REFUSED(map, whole, address, world.page, world.page, chunk);
    EXPECT_REFUSED(map, "an address of a mapping is a multiple of the page", address + 512,
                   world.page, 0, chunk);
    EXPECT_REFUSED(map, "a size is a whole number of pages, not 0", address, 0, 0, chunk);
    EXPECT_REFUSED(map, "only a chunk whose handle is held can be mapped", address, world.page, 0,
                   chunk + 77);
    const char *inside = "a mapping lies inside one reservation";
    EXPECT_REFUSED(map, inside, address + 4 * world.page, world.page, 0, chunk);
    EXPECT_REFUSED(map, inside, address + 3 * world.page, 2 * world.page, 0, large);
    EXPECT_PASSES(map, address + world.page, world.page, 0, chunk);
    const char *over = "there is no mapping over a mapping";
    EXPECT_REFUSED(map, over, address + world.page, world.page, 0, chunk);
    EXPECT_REFUSED(map, over, address, 2 * world.page, 0, large);
    EXPECT_PASSES(map, address + 2 * world.page, 2 * world.page, 0, large);
    EXPECT_REFUSED(map, over, address + 3 * world.page, world.page, 0, chunk);
    EXPECT_REFUSED(address_free, "a reservation is freed when no mapping lies in it", address,
                   4 * world.page);
    EXPECT_PASSES(unmap, address + world.page, 3 * world.page);
    EXPECT_PASSES(release, chunk);
    EXPECT_PASSES(release, large);
    EXPECT_PASSES(address_free, address, 4 * world.page);
    close_world(&world);
}

MEND_TEST(driver_checked, unmap_and_access_take_whole_mappings_without_a_hole)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    uint64_t page = world.page;
    mend_chunk_handle chunk = 0;
    mend_chunk_handle large = 0;
    make_range(&world, &address, &chunk);
    EXPECT_PASSES(create, 2 * page, &plain, &large);
    EXPECT_PASSES(map, address, 2 * page, 0, large);
    EXPECT_PASSES(map, address + 3 * page, page, 0, chunk);
    const char *begins = "the range begins where a mapping begins";
    const char *ends = "the range ends where a mapping ends";
    const char *hole = "the range has no hole";
    EXPECT_REFUSED(unmap, begins, address + page, page);
    EXPECT_REFUSED(unmap, begins, address + 2 * page, page);
    EXPECT_REFUSED(unmap, ends, address, page);
    EXPECT_REFUSED(unmap, hole, address, 4 * page);
    EXPECT_REFUSED(unmap, "a range has a size", address, 0);
    EXPECT_REFUSED(set_access, begins, address + page, page, &device_zero, 1);
    EXPECT_REFUSED(set_access, ends, address, page, &device_zero, 1);
    EXPECT_REFUSED(set_access, hole, address, 4 * page, &device_zero, 1);
    EXPECT_REFUSED(set_access, "access is given to at least one device", address, 2 * page,
                   &device_zero, 0);
    EXPECT_PASSES(set_access, address, 2 * page, &device_zero, 1);
    EXPECT_PASSES(map, address + 2 * page, page, 0, chunk); /* an alias closes the hole */
    EXPECT_PASSES(set_access, address, 4 * page, &device_zero, 1);
    EXPECT_PASSES(unmap, address, 4 * page);
    EXPECT_PASSES(release, chunk);
    EXPECT_PASSES(release, large);
    EXPECT_PASSES(address_free, address, 4 * page);
    close_world(&world);
}

MEND_TEST(driver_checked, unmap_and_access_stay_in_one_reservation)
{
    checked_world world;
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
    const char *rule = "the range lies in one reservation";
    EXPECT_REFUSED(set_access, rule, first, 2 * page, &device_zero, 1);
    EXPECT_REFUSED(unmap, rule, first, 2 * page);
    EXPECT_PASSES(unmap, first, page);
    EXPECT_PASSES(unmap, second, page);
    EXPECT_PASSES(release, chunk);
    EXPECT_PASSES(address_free, first, page);
    EXPECT_PASSES(address_free, second, page);
    close_world(&world);
}

MEND_TEST(driver_checked, work_touches_only_memory_with_access)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    uint64_t page = world.page;
    mend_chunk_handle chunk = 0;
    make_range(&world, &address, &chunk);
    mend_stream stream = NULL;
    mend_kernel kernel = {.kind = MEND_KERNEL_WRITE,
                          .address = address,
                          .granule_bytes = 512,
                          .stride_bytes = page / 2,
                          .granule_count = 3};
    EXPECT_REFUSED(fill, "work touches mapped memory only", address, 0, 512, stream);
    EXPECT_PASSES(map, address, page, 0, chunk);
    EXPECT_REFUSED(fill, "work touches memory only after access was set", address, 0, 512, stream);
    EXPECT_PASSES(set_access, address, page, &device_zero, 1);
    EXPECT_PASSES(fill, address, 0, page, stream);
    EXPECT_REFUSED(fill, "work touches mapped memory only", address, 0, page + 1, stream);
    EXPECT_REFUSED(copy, "work touches mapped memory only", address, address + page, 512, stream);
    EXPECT_REFUSED(copy, "work touches mapped memory only", address + page, address, 512, stream);
    EXPECT_REFUSED(launch, "work touches mapped memory only", stream, &kernel);
    kernel.granule_count = 2;
    EXPECT_PASSES(launch, stream, &kernel);
    kernel.stride_bytes = 256;
    EXPECT_REFUSED(launch, "the granules of a kernel do not overlap", stream, &kernel);
    kernel.granule_bytes = 7;
    EXPECT_REFUSED(launch, "a kernel touches whole words", stream, &kernel);
    kernel = (mend_kernel){.kind = MEND_KERNEL_STREAM,
                           .address = address,
                           .granule_bytes = page,
                           .stride_bytes = page,
                           .granule_count = 1};
    EXPECT_PASSES(launch, stream, &kernel);
    kernel.address = address + 8;
    EXPECT_REFUSED(launch, "a kernel touches whole words", stream, &kernel);
    kernel.address = address + page;
    EXPECT_REFUSED(launch, "work touches mapped memory only", stream, &kernel);
    kernel = (mend_kernel){.kind = MEND_KERNEL_VERIFY};
    EXPECT_REFUSED(launch, "a kernel that verifies has a counter of mismatches", stream, &kernel);
    kernel.kind = MEND_KERNEL_KINDS;
    EXPECT_REFUSED(launch, "a kernel is one of the known kinds", stream, &kernel);
    EXPECT_INT_EQ(MEND_DRIVER_OK, world.driver->context_synchronize(world.driver));
    EXPECT_PASSES(unmap, address, page);
    EXPECT_REFUSED(fill, "work touches mapped memory only", address, 0, 512, stream);
    EXPECT_PASSES(release, chunk);
    EXPECT_PASSES(address_free, address, 4 * page);
    close_world(&world);
}

MEND_TEST(driver_checked, the_own_allocators_free_what_they_gave)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t first = 0;
    uint64_t second = 0;
    EXPECT_REFUSED(plain_alloc, "an allocation has a size", 0, &first);
    EXPECT_REFUSED(async_alloc, "an allocation has a size", 0, NULL, &first);
    EXPECT_PASSES(plain_alloc, 4096, &first);
    EXPECT_PASSES(async_alloc, 4096, NULL, &second);
    const char *unknown = "only an address the driver allocated can be freed";
    EXPECT_REFUSED(plain_free, unknown, first + 512);
    EXPECT_PASSES(plain_free, first);
    EXPECT_REFUSED(plain_free, unknown, first);
    EXPECT_PASSES(async_free, second, NULL);
    EXPECT_REFUSED(async_free, unknown, second, NULL);
    EXPECT_INT_EQ(MEND_DRIVER_OK, world.driver->context_synchronize(world.driver));
    close_world(&world);
}

MEND_TEST(driver_checked, events_live_from_create_to_destroy)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    mend_event event = NULL;
    EXPECT_PASSES(event_create, &event);
    EXPECT_PASSES(event_record, event, NULL);
    EXPECT_PASSES(event_destroy, event);
    const char *unknown = "an event is used between its creation and its destruction";
    EXPECT_BAD_HANDLE(event_record, unknown, event, NULL);
    EXPECT_BAD_HANDLE(event_query, unknown, event);
    EXPECT_BAD_HANDLE(event_synchronize, unknown, event);
    EXPECT_BAD_HANDLE(event_destroy, unknown, event);
    EXPECT_BAD_HANDLE(stream_wait, unknown, NULL, event);
    close_world(&world);
}

MEND_TEST(driver_checked, streams_are_real_ones)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    const char *none = "MEND_NO_STREAM is no stream";
    mend_stream_info info;
    mend_event event = NULL;
    EXPECT_PASSES(event_create, &event);
    EXPECT_BAD_HANDLE(stream_query, none, MEND_NO_STREAM);
    EXPECT_BAD_HANDLE(stream_synchronize, none, MEND_NO_STREAM);
    EXPECT_BAD_HANDLE(stream_get_info, none, MEND_NO_STREAM, &info);
    EXPECT_BAD_HANDLE(stream_destroy, none, MEND_NO_STREAM);
    EXPECT_BAD_HANDLE(event_record, none, event, MEND_NO_STREAM);
    EXPECT_BAD_HANDLE(stream_wait, none, MEND_NO_STREAM, event);
    const char *own = "the driver's own streams are not destroyed";
    EXPECT_BAD_HANDLE(stream_destroy, own, NULL);
    EXPECT_BAD_HANDLE(stream_destroy, own, MEND_STREAM_LEGACY);
    EXPECT_BAD_HANDLE(stream_destroy, own, MEND_STREAM_PER_THREAD);
    mend_capture_mode mode = (mend_capture_mode)7;
    EXPECT_REFUSED(exchange_capture_mode, "a capture mode is one of the three", &mode);
    EXPECT_PASSES(event_destroy, event);
    close_world(&world);
}

MEND_TEST(driver_checked, a_released_chunk_lives_in_its_mappings)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    uint64_t address = 0;
    mend_chunk_handle chunk = 0;
    mend_checked_ledger ledger;
    make_range(&world, &address, &chunk);
    EXPECT_PASSES(map, address, world.page, 0, chunk);
    EXPECT_PASSES(release, chunk);
    EXPECT_REFUSED(map, "only a chunk whose handle is held can be mapped", address + world.page,
                   world.page, 0, chunk);
    mend_checked_driver_get_ledger(world.driver, &ledger);
    EXPECT_U64_EQ(1, ledger.chunks);
    EXPECT_U64_EQ(world.page, ledger.chunk_bytes);
    EXPECT_U64_EQ(world.page, ledger.mapped_bytes);
    EXPECT_U64_EQ(4 * world.page, ledger.reserved_address_bytes);
    EXPECT_PASSES(unmap, address, world.page);
    mend_checked_driver_get_ledger(world.driver, &ledger);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_PASSES(address_free, address, 4 * world.page);
    close_world(&world);
}

MEND_TEST(driver_checked, a_chunk_is_exported_as_the_type_it_was_made_for)
{
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    int descriptor = -1;
    mend_chunk_handle chunk = 0;
    EXPECT_PASSES(create, world.page, &plain, &chunk);
    EXPECT_REFUSED(export_handle, "a chunk is exported only as a type it was created for", chunk,
                   MEND_SHARE_FILE_DESCRIPTOR, &descriptor);
    EXPECT_REFUSED(export_handle, "a chunk is shared by one of the known types", chunk, 3,
                   &descriptor);
    EXPECT_REFUSED(export_handle, "only a handle that is held can be exported", chunk + 77,
                   MEND_SHARE_FILE_DESCRIPTOR, &descriptor);
    EXPECT_REFUSED(import_handle, "a chunk is shared by one of the known types", &descriptor, 3,
                   &chunk);
    EXPECT_PASSES(release, chunk);
    close_world(&world);
}

/* The device says no to each call once: nothing of it may stay in the ledger. */
MEND_TEST(driver_checked, a_call_that_fails_leaves_the_ledger_as_it_was)
{
    static const char *const calls[] = {"reserve", "create",  "map",          "set_access",
                                        "unmap",   "release", "address_free", "event_create"};
    checked_world world;
    ASSERT_TRUE(open_world(&world));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        mend_sim_fault fault = MEND_SIM_FAULT_INIT;
        fault.call = calls[i];
        ASSERT_RESULT(MEND_OK, mend_sim_fail(world.sim, &fault));
        const mend_driver *driver = world.driver;
        uint64_t address = 0;
        mend_chunk_handle chunk = 0;
        mend_event event = NULL;
        unsigned failures = 0;
        /* Each call is made again after its failure; with one fault set, exactly one fails. */
#define TWICE(call)                                                                                \
    if ((call) != MEND_DRIVER_OK) {                                                                \
        failures++;                                                                                \
        EXPECT_INT_EQ(MEND_DRIVER_OK, call);                                                       \
    }
        TWICE(driver->event_create(driver, &event));
        TWICE(driver->reserve(driver, world.page, 0, 0, &address));
        TWICE(driver->create(driver, world.page, &plain, &chunk));
        TWICE(driver->map(driver, address, world.page, 0, chunk));
        TWICE(driver->set_access(driver, address, world.page, &device_zero, 1));
        TWICE(driver->unmap(driver, address, world.page));
        TWICE(driver->release(driver, chunk));
        TWICE(driver->address_free(driver, address, world.page));
        TWICE(driver->event_destroy(driver, event));
#undef TWICE
        EXPECT_U64_EQ(1, failures);
        EXPECT_U64_EQ(0, world.breaches);
        mend_sim_clear_faults(world.sim);
    }
    close_world(&world);
}

static mend_status refuse_close(const mend_driver *driver, int device)
{
    (void)driver;
    (void)device;
    return MEND_DRIVER_UNKNOWN;
}

MEND_TEST(driver_checked, a_close_that_fails_leaves_the_device_open)
{
    mend_sim *sim = NULL;
    mend_driver *checked = NULL;
    mend_device_info info;
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    ASSERT_RESULT(MEND_OK, mend_sim_create(&config, &sim));
    mend_driver inner = *mend_sim_driver(sim);
    mend_status (*close)(const mend_driver *, int) = inner.device_close;
    ASSERT_RESULT(MEND_OK, mend_checked_driver_create(&inner, NULL, NULL, &checked));
    EXPECT_INT_EQ(MEND_DRIVER_OK, checked->device_open(checked, 0, &info));
    inner.device_close = refuse_close;
    EXPECT_INT_EQ(MEND_DRIVER_UNKNOWN, checked->device_close(checked, 0));
    inner.device_close = close;
    EXPECT_INT_EQ(MEND_DRIVER_OK, checked->device_close(checked, 0));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE, checked->device_close(checked, 0));
    mend_checked_driver_destroy(checked);
    mend_sim_destroy(sim);
}
