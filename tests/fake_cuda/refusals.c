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
#include "tests/fake_cuda/found.h"

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

static void note_end(void *has_ended)
{
    *(bool *)has_ended = true;
}

/* A graph that reports its end: the program's own calls are not refused. */
static void capture(void)
{
    mend_stream stream = NULL;
    mend_sim_graph *graph = NULL;
    bool has_ended = false;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(fake->sim, NULL, &stream));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(fake->sim, stream, MEND_SIM_CAPTURE_RELAXED));
    const mend_status kept = cuda->capture_keep(cuda, stream, note_end, &has_ended);
    EXPECT_TRUE(is_answer(kept));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(fake->sim, stream, &graph));
    mend_sim_graph_destroy(fake->sim, graph);
    EXPECT_INT_EQ(kept == MEND_DRIVER_OK, has_ended);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(fake->sim, stream));
}

/* In an open device's context: memory of the driver's own, a kernel, an event, a query. */
static void use(void)
{
    static _Alignas(4096) char pages[4096];
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 10};
    mend_capture_mode mode = MEND_CAPTURE_MODE_GLOBAL;
    mend_stream_info stream;
    mend_event event = NULL;
    uint64_t address[2] = {0};
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_status made[2] = {cuda->plain_alloc(cuda, 512, &address[0]),
                           cuda->async_alloc(cuda, 512, NULL, &address[1])};
    for (int i = 0; i < 2; i++) {
        EXPECT_TRUE(is_answer(made[i]));
        EXPECT_TRUE((address[i] != 0) == (made[i] == MEND_DRIVER_OK));
    }
    void *pinned = NULL;
    mend_status kept = cuda->host_alloc(cuda, 512, &pinned);
    EXPECT_TRUE(is_answer(kept));
    EXPECT_TRUE((pinned != NULL) == (kept == MEND_DRIVER_OK));
    if (kept == MEND_DRIVER_OK) {
        EXPECT_OK(cuda->host_free(cuda, pinned));
    }
    kept = cuda->host_register(cuda, pages, sizeof(pages));
    EXPECT_TRUE(is_answer(kept));
    if (kept == MEND_DRIVER_OK) {
        EXPECT_OK(cuda->host_unregister(cuda, pages));
    }
    EXPECT_TRUE(is_answer(cuda->launch(cuda, NULL, &spin)));
    EXPECT_TRUE(is_answer(cuda->memory_info(cuda, &free_bytes, &total_bytes)));
    EXPECT_TRUE(is_answer(cuda->stream_get_info(cuda, NULL, &stream)));
    EXPECT_TRUE(is_answer(cuda->exchange_capture_mode(cuda, &mode)));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode);
    mend_status status = cuda->event_create(cuda, &event);
    EXPECT_TRUE(is_answer(status));
    if (status == MEND_DRIVER_OK) {
        EXPECT_TRUE(is_answer(cuda->event_record(cuda, event, NULL)));
        status = cuda->context_record(cuda, event);
        EXPECT_TRUE(is_old() ? status == MEND_DRIVER_NOT_SUPPORTED : is_answer(status));
        EXPECT_OK(cuda->event_destroy(cuda, event));
    }
    EXPECT_TRUE(is_answer(cuda->context_synchronize(cuda)));
    capture();
    if (made[0] == MEND_DRIVER_OK) {
        EXPECT_OK(cuda->plain_free(cuda, address[0]));
    }
    if (made[1] == MEND_DRIVER_OK) {
        EXPECT_OK(cuda->async_free(cuda, address[1], NULL));
    }
}

static bool opens(void)
{
    memset(&info, 0x5a, sizeof(info));
    mend_status status = cuda->device_open(cuda, 0, &info);
    EXPECT_TRUE(is_answer(status));
    if (status != MEND_DRIVER_OK) {
        EXPECT_INT_EQ(0x5a, info.name[0]); /* untouched */
    }
    return status == MEND_DRIVER_OK;
}

/* Opens and uses a device with the functions as `functions`, in a context that they work in. */
static void run(const mend_cu_functions *functions)
{
    mend_cuda *state = mend_cuda_of(cuda);
    mend_cu_functions all = state->functions;
    int count = 0;
    state->functions = *functions;
    EXPECT_TRUE(is_answer(cuda->device_count(cuda, &count)));
    EXPECT_TRUE(cuda->status_name(cuda, MEND_DRIVER_NOT_READY)[0] != 0);
    bool is_open = opens();
    state->functions = all;
    if (is_open) {
        EXPECT_OK(cuda->device_close(cuda, 0));
    }
    ASSERT_OK(cuda->device_open(cuda, 0, &info));
    EXPECT_STR_EQ("fake device 0", info.name);
    EXPECT_TRUE(info.virtual_memory);
    ASSERT_OK(cuda->context_push(cuda, info.context));
    state->functions = *functions;
    use();
    state->functions = all;
    use();
    EXPECT_OK(cuda->context_pop(cuda));
    EXPECT_OK(cuda->device_close(cuda, 0));
}

FAKE_TEST(any_function_may_refuse_for_any_reason)
{
    static const mend_status reasons[] = {MEND_DRIVER_OUT_OF_MEMORY,   MEND_DRIVER_NOT_SUPPORTED,
                                          MEND_DRIVER_ILLEGAL_ADDRESS, MEND_DRIVER_LAUNCH_FAILED,
                                          MEND_DRIVER_DEINITIALIZED,   MEND_DRIVER_NOT_READY};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        refusal = reasons[i];
#define X(name, version, suffix, parameters)                                                       \
    if (!gives_back(#name)) {                                                                      \
        mend_cu_functions functions = *mend_cuda_functions(cuda);                                  \
        functions.name = refuse_##name;                                                            \
        run(&functions);                                                                           \
    }
        MEND_CU_FUNCTIONS(X)
#undef X
    }
}

FAKE_TEST(bad_arguments_are_refused_before_the_driver_sees_them)
{
    mend_kernel unknown = {.kind = (mend_kernel_kind)9};
    mend_kernel uneven = {.kind = MEND_KERNEL_WRITE, .granule_bytes = 7};
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE, cuda->launch(cuda, NULL, &unknown));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_VALUE, cuda->launch(cuda, NULL, &uneven));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE, cuda->device_close(cuda, -1));
    mend_cuda *state = mend_cuda_of(cuda);
    state->init_status = MEND_DRIVER_NO_DEVICE;
    int count = 0;
    EXPECT_INT_EQ(MEND_DRIVER_NO_DEVICE, cuda->device_count(cuda, &count));
    EXPECT_INT_EQ(MEND_DRIVER_NO_DEVICE, cuda->device_open(cuda, 0, &info));
    state->init_status = MEND_DRIVER_OK;
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
FAKE_TEST(answers_out_of_the_ordinary_do_no_harm)
{
    mend_chunk_handle chunk = 77;
    unsigned char fabric[MEND_FABRIC_HANDLE_BYTES] = {0};
    mend_cuda *state = mend_cuda_of(cuda);
    mend_cu_functions all = state->functions;
    state->functions.cuDeviceGet = accept_any_device;
    state->functions.cuGetErrorName = name_nothing;
    state->functions.cuMemImportFromShareableHandle = import_nothing;
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE,
                  cuda->device_open(cuda, MEND_CUDA_DEVICE_LIMIT, &info));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE, cuda->device_close(cuda, MEND_CUDA_DEVICE_LIMIT));
    EXPECT_STR_EQ("CUDA_ERROR_NOT_READY", cuda->status_name(cuda, MEND_DRIVER_NOT_READY));
    EXPECT_INT_EQ(MEND_DRIVER_NOT_SUPPORTED,
                  cuda->import_handle(cuda, fabric, MEND_SHARE_FABRIC, &chunk));
    EXPECT_U64_EQ(77, chunk);
    state->functions = all;
}

static mend_cu_access seen[MEND_CUDA_DEVICE_LIMIT];

static mend_status see_access(mend_cu_address address, size_t bytes, const mend_cu_access *access,
                              size_t count)
{
    (void)address;
    (void)bytes;
    memcpy(seen, access, count * sizeof(*access));
    return MEND_DRIVER_OK;
}

/* For every device that is named. */
FAKE_TEST(what_may_only_be_read_may_not_be_written)
{
    static const int devices[MEND_CUDA_DEVICE_LIMIT + 1] = {0, 3};
    mend_cuda *state = mend_cuda_of(cuda);
    mend_cu_functions all = state->functions;
    state->functions.cuMemSetAccess = see_access;
    for (int count = 0; count <= MEND_CUDA_DEVICE_LIMIT + 1; count++) {
        const bool is_possible = count > 0 && count <= MEND_CUDA_DEVICE_LIMIT;
        EXPECT_INT_EQ(is_possible ? MEND_DRIVER_OK : MEND_DRIVER_INVALID_VALUE,
                      cuda->set_access(cuda, 1, 2, devices, count, MEND_ACCESS_READ));
    }
    for (int reads = 0; reads < 2; reads++) {
        EXPECT_OK(cuda->set_access(cuda, 1, 2, devices, 2,
                                   reads ? MEND_ACCESS_READ : MEND_ACCESS_READ_WRITE));
        for (int i = 0; i < 2; i++) {
            EXPECT_INT_EQ(MEND_CU_LOCATION_DEVICE, seen[i].location.type);
            EXPECT_INT_EQ(devices[i], seen[i].location.id);
            EXPECT_INT_EQ(reads ? MEND_CU_ACCESS_READ : MEND_CU_ACCESS_READ_WRITE, seen[i].flags);
        }
    }
    state->functions = all;
}
