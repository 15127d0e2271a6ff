/*
 * Every function of the driver refuses, one after the other, for each kind of reason, while a
 * device is opened, used and closed through driver/cuda.c: the refusal is the result, or the
 * refused feature is not claimed. Results are untouched, and once the driver is well again, so is
 * Mend.
 */
#include <string.h>

#include "driver/cuda_state.h"
#include "driver/driver.h"
#include "lab/driver/kernels.h"
#include "tests/support/test.h"

static mend_status refusal;

/* The arguments belong to the driver's function. Here they only need to be there. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
/* NOLINTBEGIN(misc-unused-parameters) */
#define X(name, version, suffix, parameters)                                                       \
    static mend_status refuse_##name parameters                                                    \
    {                                                                                              \
        return refusal;                                                                            \
    }
MEND_CU_FUNCTIONS(X)
#undef X
/* NOLINTEND(misc-unused-parameters) */
#pragma GCC diagnostic pop

/* The functions that release: refused memory stays, which is their fault.
 */
static bool gives_back(const char *name)
{
    static const char *const functions[] = {"cuCtxPopCurrent",    "cuDevicePrimaryCtxRelease",
                                            "cuMemUnmap",         "cuMemRelease",
                                            "cuMemFree",          "cuMemFreeAsync",
                                            "cuStreamDestroy",    "cuEventDestroy",
                                            "cuMemAddressFree",   "cuMemFreeHost",
                                            "cuMemHostUnregister"};
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(name, functions[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_answer(mend_status status)
{
    return status == MEND_DRIVER_OK || status == refusal || status == MEND_DRIVER_OUT_OF_MEMORY;
}

/* In an open device's context: memory of the driver's own, a kernel, an event, a query. */
static void use(const mend_driver *driver)
{
    static _Alignas(4096) char pages[4096];
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 10};
    mend_capture_mode mode = MEND_CAPTURE_MODE_GLOBAL;
    mend_stream_info info;
    mend_event event = NULL;
    uint64_t address[2] = {0};
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_status made[2] = {driver->plain_alloc(driver, 512, &address[0]),
                           driver->async_alloc(driver, 512, NULL, &address[1])};
    for (int i = 0; i < 2; i++) {
        EXPECT_TRUE(is_answer(made[i]));
        EXPECT_TRUE((address[i] != 0) == (made[i] == MEND_DRIVER_OK));
    }
    void *pinned = NULL;
    mend_status kept = driver->host_alloc(driver, 512, &pinned);
    EXPECT_TRUE(is_answer(kept));
    EXPECT_TRUE((pinned != NULL) == (kept == MEND_DRIVER_OK));
    if (kept == MEND_DRIVER_OK) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->host_free(driver, pinned));
    }
    kept = driver->host_register(driver, pages, sizeof(pages));
    EXPECT_TRUE(is_answer(kept));
    if (kept == MEND_DRIVER_OK) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->host_unregister(driver, pages));
    }
    EXPECT_TRUE(is_answer(driver->launch(driver, NULL, &spin)));
    EXPECT_TRUE(is_answer(driver->memory_info(driver, &free_bytes, &total_bytes)));
    EXPECT_TRUE(is_answer(driver->stream_get_info(driver, NULL, &info)));
    EXPECT_TRUE(is_answer(driver->exchange_capture_mode(driver, &mode)));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode);
    mend_status status = driver->event_create(driver, &event);
    EXPECT_TRUE(is_answer(status));
    if (status == MEND_DRIVER_OK) {
        EXPECT_TRUE(is_answer(driver->event_record(driver, event, NULL)));
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->event_destroy(driver, event));
    }
    EXPECT_TRUE(is_answer(driver->context_synchronize(driver)));
    if (made[0] == MEND_DRIVER_OK) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->plain_free(driver, address[0]));
    }
    if (made[1] == MEND_DRIVER_OK) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->async_free(driver, address[1], NULL));
    }
}

static bool open(const mend_driver *driver, mend_device_info *info)
{
    memset(info, 0x5a, sizeof(*info));
    mend_status status = driver->device_open(driver, 0, info);
    EXPECT_TRUE(is_answer(status));
    if (status != MEND_DRIVER_OK) {
        EXPECT_INT_EQ(0x5a, info->name[0]); /* untouched */
    }
    return status == MEND_DRIVER_OK;
}

/* Opens and uses a device with the functions as `functions`, in a context that they work in. */
static void run(const mend_driver *driver, const mend_cu_functions *functions)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    mend_cu_functions all = cuda->functions;
    mend_device_info info;
    mend_device_info opened;
    int count = 0;
    cuda->functions = *functions;
    EXPECT_TRUE(is_answer(driver->device_count(driver, &count)));
    EXPECT_TRUE(driver->status_name(driver, MEND_DRIVER_NOT_READY)[0] != 0);
    bool is_open = open(driver, &opened);
    cuda->functions = all;
    if (is_open) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    }
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 0, &info));
    EXPECT_STR_EQ("fake device 0", info.name);
    EXPECT_TRUE(info.virtual_memory);
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->context_push(driver, info.context));
    cuda->functions = *functions;
    use(driver);
    cuda->functions = all;
    use(driver);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
}

MEND_TEST(fake_cuda_refusals, any_function_may_refuse_for_any_reason)
{
    static const mend_status reasons[] = {MEND_DRIVER_OUT_OF_MEMORY,   MEND_DRIVER_NOT_SUPPORTED,
                                          MEND_DRIVER_ILLEGAL_ADDRESS, MEND_DRIVER_LAUNCH_FAILED,
                                          MEND_DRIVER_DEINITIALIZED,   MEND_DRIVER_NOT_READY};
    const mend_driver *driver = NULL;
    ASSERT_RESULT(MEND_OK, mend_cuda_driver_with_kernels(&driver));
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        refusal = reasons[i];
#define X(name, version, suffix, parameters)                                                       \
    if (!gives_back(#name)) {                                                                      \
        mend_cu_functions functions = *mend_cuda_functions(driver);                                \
        functions.name = refuse_##name;                                                            \
        run(driver, &functions);                                                                   \
    }
        MEND_CU_FUNCTIONS(X)
#undef X
    }
}

MEND_TEST(fake_cuda_refusals, bad_arguments_are_refused_before_the_driver_sees_them)
{
    const mend_driver *driver = NULL;
    mend_device_info info;
    ASSERT_RESULT(MEND_OK, mend_cuda_driver_with_kernels(&driver));
    int devices[MEND_CUDA_DEVICE_LIMIT + 1] = {0};
    mend_kernel unknown = {.kind = (mend_kernel_kind)9};
    mend_kernel uneven = {.kind = MEND_KERNEL_WRITE, .granule_bytes = 7};
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE,
                  driver->set_access(driver, 0, 0, devices, 0, MEND_ACCESS_READ_WRITE));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE,
                  driver->set_access(driver, 0, 0, devices, MEND_CUDA_DEVICE_LIMIT + 1,
                                     MEND_ACCESS_READ_WRITE));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE, driver->launch(driver, NULL, &unknown));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE, driver->launch(driver, NULL, &uneven));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE, driver->device_close(driver, -1));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE, driver->device_close(driver, MEND_CUDA_DEVICE_LIMIT));
    mend_cuda *cuda = mend_cuda_of(driver);
    cuda->init_status = MEND_DRIVER_NO_DEVICE;
    int count = 0;
    EXPECT_INT_EQ(MEND_DRIVER_NO_DEVICE, driver->device_count(driver, &count));
    EXPECT_INT_EQ(MEND_DRIVER_NO_DEVICE, driver->device_open(driver, 0, &info));
    cuda->init_status = MEND_DRIVER_OK;
}

static mend_status accept_any_device(mend_cu_device *ordinal, int device)
{
    (void)device;
    *ordinal = 0;
    return MEND_DRIVER_OK;
}

static mend_status name_nothing(mend_status status, const char **name)
{
    (void)status;
    (void)name;
    return MEND_DRIVER_OK;
}

static mend_status import_nothing(mend_cu_chunk *chunk, void *source, int type)
{
    (void)chunk;
    (void)source;
    (void)type;
    return MEND_DRIVER_NOT_SUPPORTED;
}

/* The driver may say yes and mean nothing by it, or have more than Mend can hold. */
MEND_TEST(fake_cuda_refusals, answers_out_of_the_ordinary_do_no_harm)
{
    const mend_driver *driver = NULL;
    mend_device_info info;
    mend_chunk_handle chunk = 77;
    unsigned char fabric[MEND_FABRIC_HANDLE_BYTES] = {0};
    ASSERT_RESULT(MEND_OK, mend_cuda_driver_with_kernels(&driver));
    mend_cuda *cuda = mend_cuda_of(driver);
    mend_cu_functions all = cuda->functions;
    cuda->functions.cuDeviceGet = accept_any_device;
    cuda->functions.cuGetErrorName = name_nothing;
    cuda->functions.cuMemImportFromShareableHandle = import_nothing;
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE,
                  driver->device_open(driver, MEND_CUDA_DEVICE_LIMIT, &info));
    EXPECT_STR_EQ("CUDA_ERROR_NOT_READY", driver->status_name(driver, MEND_DRIVER_NOT_READY));
    EXPECT_INT_EQ(MEND_DRIVER_NOT_SUPPORTED,
                  driver->import_handle(driver, fabric, MEND_SHARE_FABRIC, &chunk));
    EXPECT_U64_EQ(77, chunk);
    cuda->functions = all;
}

static mend_cu_access seen[2];

static mend_status see_access(mend_cu_address address, size_t bytes, const mend_cu_access *access,
                              size_t count)
{
    (void)address;
    (void)bytes;
    memcpy(seen, access, count * sizeof(*access));
    return MEND_DRIVER_OK;
}

/* For every device that is named: a stray write to a page of zeros faults on each. */
MEND_TEST(fake_cuda_refusals, what_may_only_be_read_may_not_be_written)
{
    static const int devices[] = {0, 3};
    const mend_driver *driver = NULL;
    ASSERT_RESULT(MEND_OK, mend_cuda_driver_with_kernels(&driver));
    mend_cuda *cuda = mend_cuda_of(driver);
    mend_cu_functions all = cuda->functions;
    cuda->functions.cuMemSetAccess = see_access;
    for (int reads = 0; reads < 2; reads++) {
        EXPECT_INT_EQ(MEND_DRIVER_OK,
                      driver->set_access(driver, 1, 2, devices, 2,
                                         reads ? MEND_ACCESS_READ : MEND_ACCESS_READ_WRITE));
        for (int i = 0; i < 2; i++) {
            EXPECT_INT_EQ(MEND_CU_LOCATION_DEVICE, seen[i].location.type);
            EXPECT_INT_EQ(devices[i], seen[i].location.id);
            EXPECT_INT_EQ(reads ? MEND_CU_ACCESS_READ : MEND_CU_ACCESS_READ_WRITE, seen[i].flags);
        }
    }
    cuda->functions = all;
}
