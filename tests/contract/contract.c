/* The device under test, and the few steps most tests are made of. */
#include "tests/contract/contract.h"

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "lab/driver/kernels.h"
#include "tests/support/files.h"

#define SIMULATED_BYTES  (256 * MEND_MIB)
#define DRIVER_OWN_BYTES (8 * MEND_MIB)

enum { KERNEL_GRANULE_BYTES = 512 };

static bool open_driver(contract *c)
{
    const char *device = getenv("MEND_TEST_DEVICE");
    if (device != NULL && strcmp(device, "cuda") == 0) {
        mend_test_files_stay = true;
        return mend_cuda_driver_with_kernels(&c->driver) == MEND_OK;
    }
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = SIMULATED_BYTES;
    config.content = MEND_SIM_CONTENT_BYTES;
    config.fabric = MEND_SIM_FABRIC_WORKS;
    if (mend_sim_create(&config, &c->sim) != MEND_OK) {
        return false;
    }
    c->driver = mend_sim_driver(c->sim);
    return true;
}

bool contract_begin(contract *c)
{
    *c = (contract){0};
    bool open = open_driver(c) && c->driver->device_open(c->driver, 0, &c->info) == MEND_DRIVER_OK;
    EXPECT_TRUE(open);
    if (!open) {
        mend_sim_destroy(c->sim);
        return false;
    }
    c->page = c->info.granularity_bytes;
    PASS(context_push, c->info.context);
    PASS(stream_create, &c->stream);
    return true;
}

static void expect_nothing_left(contract *c)
{
    mend_sim_ledger left = MEND_SIM_LEDGER_INIT;
    ASSERT_RESULT(MEND_OK, mend_sim_get_ledger(c->sim, &left));
    EXPECT_U64_EQ(0, left.chunks);
    EXPECT_U64_EQ(0, left.handles);
    EXPECT_U64_EQ(0, left.mappings);
    EXPECT_U64_EQ(0, left.accessible_bytes);
    EXPECT_U64_EQ(0, left.reservations);
    EXPECT_U64_EQ(0, left.plain_allocations);
    EXPECT_U64_EQ(0, left.events);
    EXPECT_U64_EQ(0, left.streams);
    EXPECT_U64_EQ(0, left.contexts_open);
    EXPECT_U64_EQ(0, left.pending_work);
    MEND_TEST_CHECK(left.violations == c->refused, (void)0,
                    "%llu rules broken, %llu on purpose; the first: %s",
                    (unsigned long long)left.violations, (unsigned long long)c->refused,
                    mend_sim_first_violation(c->sim));
}

void contract_end(contract *c)
{
    PASS(context_synchronize);
    PASS(stream_destroy, c->stream);
    PASS(context_pop);
    PASS(device_close, 0);
    if (c->sim != NULL) {
        expect_nothing_left(c);
        mend_sim_destroy(c->sim);
    }
}

uint64_t contract_reserve(contract *c, uint64_t size_bytes)
{
    uint64_t address = 0;
    PASS(reserve, size_bytes, 0, 0, &address);
    return address;
}

mend_chunk_handle contract_create(contract *c, uint64_t size_bytes)
{
    const mend_chunk_properties properties = {0};
    mend_chunk_handle handle = 0;
    PASS(create, size_bytes, &properties, &handle);
    return handle;
}

mend_event contract_event(contract *c)
{
    mend_event event = NULL;
    PASS(event_create, &event);
    return event;
}

mend_stream contract_stream(contract *c)
{
    mend_stream stream = NULL;
    PASS(stream_create, &stream);
    return stream;
}

void contract_allow(contract *c, uint64_t address, uint64_t size_bytes)
{
    const int device = 0;
    PASS(set_access, address, size_bytes, &device, 1, MEND_ACCESS_READ_WRITE);
}

void contract_map_new(contract *c, uint64_t address, uint64_t size_bytes)
{
    mend_chunk_handle handle = contract_create(c, size_bytes);
    PASS(map, address, size_bytes, 0, handle);
    contract_allow(c, address, size_bytes);
    PASS(release, handle);
}

void contract_drop(contract *c, uint64_t address, uint64_t mapped_bytes, uint64_t reserved_bytes)
{
    PASS(unmap, address, mapped_bytes);
    PASS(address_free, address, reserved_bytes);
}

uint64_t contract_free_bytes(contract *c)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    PASS(memory_info, &free_bytes, &total_bytes);
    EXPECT_TRUE(total_bytes > 0 && total_bytes >= free_bytes);
    return free_bytes;
}

void contract_expect_free(contract *c, uint64_t expected_bytes)
{
    uint64_t free_bytes = contract_free_bytes(c);
    uint64_t slack = c->sim != NULL ? 0 : DRIVER_OWN_BYTES;
    MEND_TEST_CHECK(free_bytes <= expected_bytes + slack && free_bytes + slack >= expected_bytes,
                    (void)0, "%llu bytes are free, expected %llu", (unsigned long long)free_bytes,
                    (unsigned long long)expected_bytes);
}

void contract_write(contract *c, mend_stream stream, uint64_t address, uint64_t size_bytes,
                    uint32_t value, uint64_t duration_ns)
{
    const mend_kernel kernel = {
        .kind = MEND_KERNEL_WRITE,
        .value = value,
        .duration_ns = duration_ns,
        .address = address,
        .granule_bytes = KERNEL_GRANULE_BYTES,
        .stride_bytes = KERNEL_GRANULE_BYTES,
        .granule_count = size_bytes / KERNEL_GRANULE_BYTES,
    };
    PASS(launch, stream, &kernel);
}

void contract_spin(contract *c, mend_stream stream, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    PASS(launch, stream, &kernel);
}

uint64_t contract_mismatches(contract *c, uint64_t address, uint64_t size_bytes, uint32_t value)
{
    uint64_t counter = 0;
    uint64_t count = UINT64_MAX;
    PASS(plain_alloc, sizeof(count), &counter);
    PASS(fill, counter, 0, sizeof(count), c->stream);
    const mend_kernel kernel = {
        .kind = MEND_KERNEL_VERIFY,
        .value = value,
        .address = address,
        .granule_bytes = KERNEL_GRANULE_BYTES,
        .stride_bytes = KERNEL_GRANULE_BYTES,
        .granule_count = size_bytes / KERNEL_GRANULE_BYTES,
        .mismatches = counter,
    };
    PASS(launch, c->stream, &kernel);
    PASS(copy, (uint64_t)(uintptr_t)&count, counter, sizeof(count), c->stream);
    PASS(stream_synchronize, c->stream);
    PASS(plain_free, counter);
    return count;
}
