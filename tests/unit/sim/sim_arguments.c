/* What the simulated device is asked for, and refuses: bad arguments. */
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "driver/traced.h"
#include "mend/mend_sim.h"
#include "tests/support/test.h"

enum { PAGE = 64 << 10 };

typedef struct device {
    mend_sim *sim;
    const mend_driver *driver;
    mend_device_info info;
} device;

static bool open_device(device *d)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 16 * MEND_MIB;
    config.page_bytes = PAGE;
    bool open = mend_sim_create(&config, &d->sim) == MEND_OK;
    EXPECT_TRUE(open);
    if (!open) {
        return false;
    }
    d->driver = mend_sim_driver(d->sim);
    open = d->driver->device_open(d->driver, 0, &d->info) == MEND_DRIVER_OK &&
           d->driver->context_push(d->driver, d->info.context) == MEND_DRIVER_OK;
    EXPECT_TRUE(open);
    return open;
}

static void close_device(device *d)
{
    EXPECT_INT_EQ(MEND_DRIVER_OK, d->driver->context_pop(d->driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, d->driver->device_close(d->driver, 0));
    mend_sim_destroy(d->sim);
}

#define EXPECT_STATUS(expected, member, ...)                                                       \
    EXPECT_INT_EQ(expected, d.driver->member(d.driver, ##__VA_ARGS__))
#define EXPECT_INVALID(call) EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, call)

MEND_TEST(sim_arguments, configurations_out_of_bounds_are_refused)
{
    mend_sim *sim = NULL;
    const mend_sim_config valid = MEND_SIM_CONFIG_INIT;
    mend_sim_config config = valid;
#define EXPECT_BAD(field, value)                                                                   \
    config = valid;                                                                                \
    config.field = value;                                                                          \
    EXPECT_INVALID(mend_sim_create(&config, &sim));
    EXPECT_BAD(struct_size, 0);
    EXPECT_BAD(page_bytes, 3 * PAGE);
    EXPECT_BAD(page_bytes, 16);
    EXPECT_BAD(page_bytes, UINT64_C(1) << 63);
    EXPECT_BAD(memory_bytes, UINT64_MAX);
    EXPECT_BAD(address_bytes, UINT64_MAX);
    EXPECT_BAD(address_bytes, 512);
    EXPECT_BAD(device_count, -1);
    EXPECT_BAD(device_count, 1 << 20);
    EXPECT_BAD(content, (mend_sim_content)2);
#undef EXPECT_BAD
    EXPECT_INVALID(mend_sim_create(NULL, &sim));
    EXPECT_INVALID(mend_sim_create(&valid, NULL));
    EXPECT_PTR_EQ(NULL, sim);
    mend_sim_destroy(NULL);
}

MEND_TEST(sim_arguments, nothing_is_asked_of_no_device)
{
    mend_stream stream = NULL;
    mend_sim_graph *graph = NULL;
    mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH};
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_INVALID(mend_sim_stream_create(NULL, &stream));
    EXPECT_INVALID(mend_sim_stream_create_blocking(NULL, &stream));
    EXPECT_INVALID(mend_sim_stream_create_on(NULL, 0, &stream));
    EXPECT_INVALID(mend_sim_stream_destroy(NULL, NULL));
    EXPECT_INVALID(mend_sim_launch(NULL, NULL, &work));
    EXPECT_INVALID(mend_sim_stream_wait(NULL, NULL, NULL));
    EXPECT_INVALID(mend_sim_begin_capture(NULL, NULL, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_INVALID(mend_sim_end_capture(NULL, NULL, &graph));
    EXPECT_INVALID(mend_sim_graph_launch(NULL, NULL, NULL, 0));
    EXPECT_INVALID(mend_sim_fail(NULL, &fault));
    EXPECT_INVALID(mend_sim_get_ledger(NULL, &ledger));
    mend_sim_graph_destroy(NULL, NULL);
}

MEND_TEST(sim_arguments, what_does_not_exist_is_refused)
{
    device d;
    ASSERT_TRUE(open_device(&d));
    mend_stream none = (mend_stream)(uintptr_t)0x77;
    mend_sim_work work = {.kind = (mend_sim_work_kind)9};
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_graph *graph = NULL;
    mend_stream stream = NULL;
    EXPECT_INVALID(mend_sim_stream_create(d.sim, NULL));
    EXPECT_INVALID(mend_sim_stream_create_on(d.sim, 0, NULL));
    EXPECT_INVALID(mend_sim_stream_create_on(d.sim, -1, &stream));
    EXPECT_INVALID(mend_sim_stream_create_on(d.sim, 64, &stream));
    EXPECT_INVALID(mend_sim_stream_destroy(d.sim, none));
    EXPECT_INVALID(mend_sim_stream_destroy(d.sim, NULL));
    EXPECT_INVALID(mend_sim_launch(d.sim, NULL, NULL));
    EXPECT_INVALID(mend_sim_launch(d.sim, NULL, &work));
    work.kind = MEND_SIM_WORK_TOUCH;
    EXPECT_INVALID(mend_sim_launch(d.sim, none, &work));
    EXPECT_INVALID(mend_sim_stream_wait(d.sim, none, NULL));
    EXPECT_INVALID(mend_sim_stream_wait(d.sim, NULL, none));
    EXPECT_INVALID(mend_sim_begin_capture(d.sim, none, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_INVALID(mend_sim_begin_capture(d.sim, NULL, (mend_sim_capture_mode)9));
    EXPECT_INVALID(mend_sim_end_capture(d.sim, none, &graph));
    EXPECT_INVALID(mend_sim_graph_launch(d.sim, NULL, NULL, 0));
    mend_sim_graph_destroy(d.sim, NULL);
    EXPECT_INVALID(mend_sim_fail(d.sim, NULL));
    fault.call = "no_such_call";
    EXPECT_INVALID(mend_sim_fail(d.sim, &fault));
    fault = (mend_sim_fault){0};
    EXPECT_INVALID(mend_sim_fail(d.sim, &fault));
    EXPECT_INVALID(mend_sim_get_ledger(d.sim, NULL));
    ledger.struct_size = 0;
    EXPECT_INVALID(mend_sim_get_ledger(d.sim, &ledger));
    mend_sim_set_foreign_bytes(d.sim, -1, PAGE);
    mend_sim_set_foreign_bytes(d.sim, 1, PAGE);
    close_device(&d);
}

MEND_TEST(sim_arguments, calls_of_the_table_know_their_devices_and_contexts)
{
    device d;
    ASSERT_TRUE(open_device(&d));
    static const int low = -1;
    static const int high = 1;
    mend_chunk_properties elsewhere = {.device = -1};
    mend_chunk_handle chunk = 0;
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, device_open, -1, &d.info);
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, device_close, -1);
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, device_close, 1);
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, context_push, NULL);
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, context_push,
                  (mend_context)((uintptr_t)d.info.context + 1));
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, create, PAGE, &elsewhere, &chunk);
    elsewhere.device = 1;
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, create, PAGE, &elsewhere, &chunk);
    mend_chunk_properties plain = {0};
    uint64_t address = 0;
    EXPECT_STATUS(MEND_DRIVER_OK, create, PAGE, &plain, &chunk);
    EXPECT_STATUS(MEND_DRIVER_OK, reserve, PAGE, 0, 0, &address);
    EXPECT_STATUS(MEND_DRIVER_OK, map, address, PAGE, 0, chunk);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, set_access, address, PAGE, &low, 0,
                  MEND_ACCESS_READ_WRITE);
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, set_access, address, PAGE, &low, 1,
                  MEND_ACCESS_READ_WRITE);
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, set_access, address, PAGE, &high, 1,
                  MEND_ACCESS_READ_WRITE);
    EXPECT_STATUS(MEND_DRIVER_OK, unmap, address, PAGE);
    EXPECT_STATUS(MEND_DRIVER_OK, release, chunk);
    EXPECT_STATUS(MEND_DRIVER_OK, address_free, address, PAGE);

    unsigned pushed = 0;
    while (pushed < 10000 && d.driver->context_push(d.driver, d.info.context) == MEND_DRIVER_OK) {
        pushed++; /* the stack has an end */
    }
    EXPECT_TRUE(pushed < 10000);
    for (unsigned i = 0; i < pushed; i++) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, d.driver->context_pop(d.driver));
    }
    close_device(&d);
}

MEND_TEST(sim_arguments, plain_memory_is_refused_without_size_context_or_beside_captures)
{
    device d;
    ASSERT_TRUE(open_device(&d));
    uint64_t address = 0;
    uint64_t plain = 0;
    mend_stream stream = NULL;
    mend_stream none = (mend_stream)(uintptr_t)0x77;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, plain_alloc, 0, &address);
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, plain_alloc, UINT64_MAX, &address);
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY, plain_alloc, 32 * MEND_MIB, &address);
    EXPECT_STATUS(MEND_DRIVER_UNKNOWN, async_alloc, 512, none, &address);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, async_alloc, 0, NULL, &address);
    EXPECT_STATUS(MEND_DRIVER_OK, plain_alloc, 512, &plain);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, plain_free, plain + 512);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, async_free, plain, NULL);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, async_free, plain + PAGE, NULL);
    EXPECT_STATUS(MEND_DRIVER_UNKNOWN, async_free, plain, none);
    EXPECT_STATUS(MEND_DRIVER_OK, plain_free, plain);

    ASSERT_RESULT(MEND_OK, mend_sim_stream_create(d.sim, &stream));
    ASSERT_RESULT(MEND_OK, mend_sim_begin_capture(d.sim, stream, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_STATUS(MEND_DRIVER_NOT_SUPPORTED, async_alloc, 512, stream, &address);
    EXPECT_STATUS(MEND_DRIVER_NOT_SUPPORTED, async_free, plain, stream);
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_UNSUPPORTED, plain_alloc, 512, &address);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(d.sim, stream, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(d.sim, stream));

    ASSERT_INT_EQ(MEND_DRIVER_OK, d.driver->context_pop(d.driver));
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, plain_alloc, 512, &address);
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, plain_free, plain);
    ASSERT_INT_EQ(MEND_DRIVER_OK, d.driver->context_push(d.driver, d.info.context));
    close_device(&d);
}

MEND_TEST(sim_arguments, kernels_are_separate_granules_of_whole_words)
{
    device d;
    ASSERT_TRUE(open_device(&d));
    const mend_kernel valid = {.kind = MEND_KERNEL_WRITE,
                               .address = 512,
                               .granule_bytes = 8,
                               .stride_bytes = 8,
                               .granule_count = 2};
    mend_kernel kernel = valid;
#define EXPECT_BAD(field, value)                                                                   \
    kernel = valid;                                                                                \
    kernel.field = value;                                                                          \
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, launch, NULL, &kernel);
    EXPECT_BAD(kind, MEND_KERNEL_KINDS);
    EXPECT_BAD(kind, MEND_KERNEL_STREAM); /* 8 bytes */
    EXPECT_BAD(granule_bytes, 7);
    EXPECT_BAD(address, 514);
    EXPECT_BAD(stride_bytes, 4);
    EXPECT_BAD(granule_count, UINT64_MAX);
#undef EXPECT_BAD
    kernel = valid;
    kernel.granule_count = 0; /* touches nothing */
    kernel.stride_bytes = 0;
    EXPECT_STATUS(MEND_DRIVER_OK, launch, NULL, &kernel);
    EXPECT_INT_EQ(MEND_DRIVER_OK, d.driver->context_synchronize(d.driver));
    close_device(&d);
}

MEND_TEST(sim_arguments, work_streams_and_waits_need_a_context)
{
    device d;
    uint8_t byte = 0;
    uint64_t host = (uint64_t)(uintptr_t)&byte;
    mend_stream stream = NULL;
    mend_stream other = NULL;
    mend_event event = NULL;
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN};
    ASSERT_TRUE(open_device(&d));
    EXPECT_STATUS(MEND_DRIVER_OK, event_create, &event);
    EXPECT_STATUS(MEND_DRIVER_OK, stream_create, &stream);
    ASSERT_INT_EQ(MEND_DRIVER_OK, d.driver->context_pop(d.driver));
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, stream_create, &other);
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, fill, 512, 1, 1, stream);
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, copy, 512, host, 1, stream);
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, launch, stream, &spin);
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, event_create, &event);
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_CONTEXT, d.driver->context_synchronize(d.driver));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_CONTEXT, d.driver->context_pop(d.driver));
    EXPECT_PTR_EQ(NULL, other);
    ASSERT_INT_EQ(MEND_DRIVER_OK, d.driver->context_push(d.driver, d.info.context));
    EXPECT_STATUS(MEND_DRIVER_OK, stream_destroy, stream);
    EXPECT_STATUS(MEND_DRIVER_UNKNOWN, stream_destroy, stream);
    EXPECT_STATUS(MEND_DRIVER_OK, event_destroy, event);
    close_device(&d);
}

/* What the copies of a capture read and its kernels count into, not only what they write; what it
 * does not touch may go. */
MEND_TEST(sim_arguments, unmapping_what_a_capture_touches_is_noticed)
{
    enum { PAGES = 5 };
    device d;
    uint64_t address = 0;
    mend_chunk_handle chunk[PAGES] = {0};
    mend_chunk_properties plain = {0};
    mend_stream stream = NULL;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    static const int device_zero = 0;
    ASSERT_TRUE(open_device(&d));
    EXPECT_STATUS(MEND_DRIVER_OK, reserve, PAGES * PAGE, 0, 0, &address);
    for (int i = 0; i < PAGES; i++) {
        EXPECT_STATUS(MEND_DRIVER_OK, create, PAGE, &plain, &chunk[i]);
        EXPECT_STATUS(MEND_DRIVER_OK, map, address + (uint64_t)i * PAGE, PAGE, 0, chunk[i]);
    }
    EXPECT_STATUS(MEND_DRIVER_OK, set_access, address, PAGES * PAGE, &device_zero, 1,
                  MEND_ACCESS_READ_WRITE);
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create(d.sim, &stream));
    ASSERT_RESULT(MEND_OK, mend_sim_begin_capture(d.sim, stream, MEND_SIM_CAPTURE_RELAXED));
    mend_kernel verify = {.kind = MEND_KERNEL_VERIFY,
                          .address = address,
                          .granule_bytes = 512,
                          .stride_bytes = 1024,
                          .granule_count = 8,
                          .mismatches = address + 1 * PAGE};
    mend_kernel none = {.kind = MEND_KERNEL_WRITE, .address = address + 4 * PAGE};
    EXPECT_STATUS(MEND_DRIVER_OK, copy, address + 2 * PAGE, address + 3 * PAGE, 512, stream);
    EXPECT_STATUS(MEND_DRIVER_OK, launch, stream, &none);
    EXPECT_STATUS(MEND_DRIVER_OK, launch, stream, &verify);
    for (int i = 0; i < PAGES; i++) {
        EXPECT_STATUS(MEND_DRIVER_OK, unmap, address + (uint64_t)i * PAGE, PAGE);
        ASSERT_RESULT(MEND_OK, mend_sim_get_ledger(d.sim, &ledger));
        EXPECT_U64_EQ(i < 4 ? (uint64_t)i + 1 : 4, ledger.violations);
    }
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(d.sim, stream, NULL));
    for (int i = 0; i < PAGES; i++) {
        EXPECT_STATUS(MEND_DRIVER_OK, release, chunk[i]);
    }
    EXPECT_STATUS(MEND_DRIVER_OK, address_free, address, PAGES * PAGE);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(d.sim, stream));
    close_device(&d);
}

MEND_TEST(sim_arguments, only_exports_of_the_device_are_imported)
{
    device d;
    ASSERT_TRUE(open_device(&d));
    mend_chunk_properties shared = {.share_types = MEND_SHARE_FILE_DESCRIPTOR};
    mend_chunk_handle chunk = 0;
    mend_chunk_handle imported = 0;
    int none = -1;
    int descriptor = -1;
    EXPECT_STATUS(MEND_DRIVER_OK, create, PAGE, &shared, &chunk);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, export_handle, chunk + 77, MEND_SHARE_FILE_DESCRIPTOR,
                  &descriptor);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, export_handle, chunk, 0, &descriptor);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, export_handle, chunk, MEND_SHARE_FABRIC, &descriptor);
    EXPECT_STATUS(MEND_DRIVER_NOT_SUPPORTED, import_handle, &none, MEND_SHARE_FABRIC, &imported);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, import_handle, &none, MEND_SHARE_FILE_DESCRIPTOR,
                  &imported);
    EXPECT_STATUS(MEND_DRIVER_OK, export_handle, chunk, MEND_SHARE_FILE_DESCRIPTOR, &descriptor);
    EXPECT_STATUS(MEND_DRIVER_OK, release, chunk);
    close_device(&d); /* with an export that is still open */
    close(descriptor);
}

MEND_TEST(sim_arguments, odd_calls_are_refused_and_leave_nothing)
{
    device d;
    ASSERT_TRUE(open_device(&d));
    mend_chunk_properties plain = {0};
    mend_chunk_properties negative = {.device = -1};
    mend_chunk_handle chunk = 0;
    uint64_t address = 0;
    int device_zero = 0;
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, create, PAGE, &negative, &chunk);
    EXPECT_STATUS(MEND_DRIVER_UNKNOWN, async_alloc, 512, MEND_NO_STREAM, &address);
    EXPECT_STATUS(MEND_DRIVER_UNKNOWN, async_free, 512, MEND_NO_STREAM);
    EXPECT_STATUS(MEND_DRIVER_OK, reserve, 2 * PAGE, PAGE, 0, &address);
    EXPECT_STATUS(MEND_DRIVER_OK, create, PAGE, &plain, &chunk);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, map, UINT64_MAX - PAGE + 1, PAGE, 0, chunk);
    EXPECT_STATUS(MEND_DRIVER_OK, map, address, PAGE, 0, chunk);
    EXPECT_STATUS(MEND_DRIVER_OK, map, address + PAGE, PAGE, 0, chunk);
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, set_access, address, PAGE, NULL, 0,
                  MEND_ACCESS_READ_WRITE);
    EXPECT_STATUS(MEND_DRIVER_OK, set_access, address, PAGE, &device_zero, 1,
                  MEND_ACCESS_READ_WRITE);
    mend_kernel verify = {.kind = MEND_KERNEL_VERIFY,
                          .address = address,
                          .granule_bytes = 512,
                          .stride_bytes = 512,
                          .granule_count = 1,
                          .mismatches = address + 512};
    mend_kernel odd = verify;
    odd.address += 2;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, launch, NULL, &odd);
    EXPECT_STATUS(MEND_DRIVER_OK, launch, NULL, &verify);
    EXPECT_STATUS(MEND_DRIVER_OK, context_synchronize);
    EXPECT_STATUS(MEND_DRIVER_OK, release, chunk);
    EXPECT_STATUS(MEND_DRIVER_OK, unmap, address, 2 * PAGE);
    EXPECT_STATUS(MEND_DRIVER_OK, address_free, address, 2 * PAGE);
    close_device(&d);
    mend_traced_driver_destroy(NULL);
}
