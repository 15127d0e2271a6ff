/*
 * The entry points. Each is declared from the list in driver/cuda_abi.h, so that its type is that
 * of the real one, and does what the driver documents by calling the simulated device. Built with
 * FAKE_CUDA_OLD it lacks what came with CUDA 12.0.
 */
#include "tests/support/fake_cuda/fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/align.h"

#define X(name, version, suffix, parameters)                                                       \
    MEND_API mend_status name parameters __asm__(#name suffix);
MEND_CU_FUNCTIONS(X)
#ifndef FAKE_CUDA_OLD
MEND_CU_OPTIONAL_FUNCTIONS(X)
#endif
#undef X

/* ---- the object --------------------------------------------------------------------------------
 */

enum { FAKE_DRIVER_VERSION = 12080 };

static fake_cuda fake;
static mend_device_info fake_info;
static pthread_once_t fake_once = PTHREAD_ONCE_INIT;

static void create_fake(void)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = MEND_GIB;
    config.content = MEND_SIM_CONTENT_BYTES;
    if (mend_sim_create(&config, &fake.sim) != MEND_OK) {
        fake.switches.init_status = MEND_DRIVER_NO_DEVICE;
        return;
    }
    fake.driver = mend_sim_driver(fake.sim);
    fake.switches.virtual_memory_claimed = true;
    fake.switches.everything_claimed = true;
    if (fake.driver->device_open(fake.driver, 0, &fake_info) == MEND_DRIVER_OK) {
        fake.driver->device_close(fake.driver, 0);
    }
}

MEND_API fake_cuda *fake_cuda_get(void);
fake_cuda *fake_cuda_get(void)
{
    pthread_once(&fake_once, create_fake);
    return &fake;
}

static const mend_driver *inner(void)
{
    return fake_cuda_get()->driver;
}

/* ---- process and devices ------------------------------------------------------------------------
 */

mend_status cuInit(unsigned int flags)
{
    return flags == 0 ? fake_cuda_get()->switches.init_status : MEND_DRIVER_INVALID_VALUE;
}

mend_status cuDriverGetVersion(int *version)
{
    *version = FAKE_DRIVER_VERSION;
    return MEND_DRIVER_OK;
}

mend_status cuGetErrorName(mend_status status, const char **name)
{
    *name = inner()->status_name(inner(), status);
    return MEND_DRIVER_OK;
}

mend_status cuDeviceGetCount(int *count)
{
    return inner()->device_count(inner(), count);
}

mend_status cuDeviceGet(mend_cu_device *device, int ordinal)
{
    if (ordinal != 0) {
        return MEND_DRIVER_INVALID_DEVICE;
    }
    *device = ordinal;
    return MEND_DRIVER_OK;
}

mend_status cuDeviceGetName(char *name, int bytes, mend_cu_device device)
{
    snprintf(name, (size_t)bytes, "fake device %d", device);
    return MEND_DRIVER_OK;
}

mend_status cuDeviceTotalMem(size_t *bytes, mend_cu_device device)
{
    (void)device;
    *bytes = fake_info.total_bytes;
    return MEND_DRIVER_OK;
}

mend_status cuDeviceGetAttribute(int *value, mend_cu_attribute attribute, mend_cu_device device)
{
    const fake_cuda_switches *switches = &fake_cuda_get()->switches;
    (void)device;
    switch (attribute) {
    case MEND_CU_COMPUTE_MAJOR:
        *value = 9;
        return MEND_DRIVER_OK;
    case MEND_CU_COMPUTE_MINOR:
        *value = 0;
        return MEND_DRIVER_OK;
    case MEND_CU_HAS_VIRTUAL_MEMORY:
        *value = switches->virtual_memory_claimed ? 1 : 0;
        return MEND_DRIVER_OK;
    case MEND_CU_HAS_FILE_DESCRIPTOR:
    case MEND_CU_HAS_RDMA:
    case MEND_CU_HAS_FABRIC:
    case MEND_CU_HAS_MULTICAST:
        *value = switches->everything_claimed ? 1 : 0;
        return MEND_DRIVER_OK;
    default:
        return MEND_DRIVER_INVALID_VALUE;
    }
}

/* ---- contexts
 * ------------------------------------------------------------------------------------ */

mend_status cuDevicePrimaryCtxRetain(mend_context *context, mend_cu_device device)
{
    mend_device_info info;
    mend_status status = inner()->device_open(inner(), device, &info);
    if (status == MEND_DRIVER_OK) {
        *context = info.context;
    }
    return status;
}

mend_status cuDevicePrimaryCtxRelease(mend_cu_device device)
{
    return inner()->device_close(inner(), device);
}

mend_status cuCtxGetCurrent(mend_context *context)
{
    mend_stream_info info = {0};
    if (inner()->stream_get_info(inner(), NULL, &info) != MEND_DRIVER_OK) {
        info.context = NULL;
    }
    *context = info.context;
    return MEND_DRIVER_OK;
}

mend_status cuCtxPushCurrent(mend_context context)
{
    return inner()->context_push(inner(), context);
}

mend_status cuCtxPopCurrent(mend_context *context)
{
    cuCtxGetCurrent(context);
    return inner()->context_pop(inner());
}

mend_status cuCtxSynchronize(void)
{
    return inner()->context_synchronize(inner());
}

mend_status cuThreadExchangeStreamCaptureMode(mend_cu_capture_mode *mode)
{
    mend_capture_mode exchanged = (mend_capture_mode)*mode;
    mend_status status = inner()->exchange_capture_mode(inner(), &exchanged);
    *mode = (mend_cu_capture_mode)exchanged;
    return status;
}

/* ---- addresses and chunks
 * ------------------------------------------------------------------------ */

mend_status cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    uint64_t free_now = 0;
    uint64_t total = 0;
    mend_status status = inner()->memory_info(inner(), &free_now, &total);
    *free_bytes = free_now;
    *total_bytes = total;
    return status;
}

mend_status cuMemGetAllocationGranularity(size_t *bytes, const mend_cu_chunk_properties *properties,
                                          mend_cu_granularity kind)
{
    const fake_cuda_switches *switches = &fake_cuda_get()->switches;
    if (properties->type != MEND_CU_ALLOCATION_PINNED ||
        properties->location.type != MEND_CU_LOCATION_DEVICE) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    bool is_larger = properties->share_types != 0 && switches->larger_page_bytes != 0;
    *bytes = is_larger ? switches->larger_page_bytes : fake_info.granularity_bytes;
    *bytes *= kind == MEND_CU_GRANULARITY_RECOMMENDED ? 2 : 1;
    return MEND_DRIVER_OK;
}

mend_status cuMemAddressReserve(mend_cu_address *address, size_t bytes, size_t alignment,
                                mend_cu_address hint, unsigned long long flags)
{
    uint64_t reserved = 0;
    if (flags != 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    mend_status status = inner()->reserve(inner(), bytes, alignment, hint, &reserved);
    *address = reserved;
    return status;
}

mend_status cuMemAddressFree(mend_cu_address address, size_t bytes)
{
    return inner()->address_free(inner(), address, bytes);
}

mend_status cuMemCreate(mend_cu_chunk *chunk, size_t bytes,
                        const mend_cu_chunk_properties *properties, unsigned long long flags)
{
    const fake_cuda_switches *switches = &fake_cuda_get()->switches;
    if (flags != 0 || properties->type != MEND_CU_ALLOCATION_PINNED ||
        properties->location.type != MEND_CU_LOCATION_DEVICE ||
        properties->windows_attributes != NULL || properties->flags.compression != 0 ||
        properties->flags.usage != 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    mend_chunk_properties wanted = {.device = properties->location.id,
                                    .share_types = properties->share_types,
                                    .rdma = properties->flags.rdma != 0};
    bool is_special = wanted.share_types != 0 || wanted.rdma;
    if (is_special && switches->create_refusal != MEND_DRIVER_OK) {
        return switches->create_refusal;
    }
    mend_chunk_handle handle = 0;
    mend_status status = inner()->create(inner(), bytes, &wanted, &handle);
    *chunk = handle;
    return status;
}

mend_status cuMemRelease(mend_cu_chunk chunk)
{
    return inner()->release(inner(), chunk);
}

/* A part of a chunk is played by a chunk of its own. */
static mend_status map_part(uint64_t address, uint64_t bytes)
{
    mend_chunk_properties properties = {0};
    mend_chunk_handle part = 0;
    mend_status status = inner()->create(inner(), bytes, &properties, &part);
    if (status == MEND_DRIVER_OK) {
        status = inner()->map(inner(), address, bytes, 0, part);
        inner()->release(inner(), part);
    }
    return status;
}

mend_status cuMemMap(mend_cu_address address, size_t bytes, size_t offset, mend_cu_chunk chunk,
                     unsigned long long flags)
{
    if (flags != 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    mend_status status = inner()->map(inner(), address, bytes, offset, chunk);
    return status == MEND_DRIVER_INVALID_VALUE && fake_cuda_get()->switches.parts_can_be_mapped
               ? map_part(address, bytes)
               : status;
}

mend_status cuMemUnmap(mend_cu_address address, size_t bytes)
{
    return inner()->unmap(inner(), address, bytes);
}

mend_status cuMemSetAccess(mend_cu_address address, size_t bytes, const mend_cu_access *access,
                           size_t count)
{
    enum { MOST_DEVICES = 8 };
    int devices[MOST_DEVICES];
    if (count > MOST_DEVICES) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != MEND_CU_LOCATION_DEVICE ||
            access[i].flags != MEND_CU_ACCESS_READ_WRITE) {
            return MEND_DRIVER_INVALID_VALUE;
        }
        devices[i] = access[i].location.id;
    }
    return inner()->set_access(inner(), address, bytes, devices, (int)count);
}

mend_status cuMemExportToShareableHandle(void *shared, mend_cu_chunk chunk, mend_cu_share_type type,
                                         unsigned long long flags)
{
    return flags != 0 ? MEND_DRIVER_INVALID_VALUE
                      : inner()->export_handle(inner(), chunk, type, shared);
}

mend_status cuMemImportFromShareableHandle(mend_cu_chunk *chunk, void *shared,
                                           mend_cu_share_type type)
{
    int descriptor = (int)(intptr_t)shared; /* by value, unlike any other type */
    const void *source = type == MEND_SHARE_FILE_DESCRIPTOR ? &descriptor : shared;
    mend_chunk_handle handle = 0;
    mend_status status = inner()->import_handle(inner(), source, type, &handle);
    *chunk = handle;
    return status;
}

/* ---- the driver's own allocators
 * ----------------------------------------------------------------- */

mend_status cuMemAlloc(mend_cu_address *address, size_t bytes)
{
    uint64_t allocated = 0;
    mend_status status = inner()->plain_alloc(inner(), bytes, &allocated);
    *address = allocated;
    return status;
}

mend_status cuMemFree(mend_cu_address address)
{
    return inner()->plain_free(inner(), address);
}

mend_status cuMemAllocAsync(mend_cu_address *address, size_t bytes, mend_stream stream)
{
    uint64_t allocated = 0;
    mend_status status = inner()->async_alloc(inner(), bytes, stream, &allocated);
    *address = allocated;
    return status;
}

mend_status cuMemFreeAsync(mend_cu_address address, mend_stream stream)
{
    return inner()->async_free(inner(), address, stream);
}

/* ---- work
 * ---------------------------------------------------------------------------------------- */

mend_status cuMemcpyAsync(mend_cu_address destination, mend_cu_address source, size_t bytes,
                          mend_stream stream)
{
    return inner()->copy(inner(), destination, source, bytes, stream);
}

mend_status cuMemsetD8Async(mend_cu_address address, unsigned char value, size_t bytes,
                            mend_stream stream)
{
    return inner()->fill(inner(), address, value, bytes, stream);
}

static const char *const entries[] = {"mend_spin", "mend_write", "mend_verify"};

mend_status cuModuleLoadData(mend_cu_module *module, const void *image)
{
    if (strncmp(image, ".version ", strlen(".version ")) != 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    fake.modules++;
    *module = (mend_cu_module)(void *)&fake;
    return MEND_DRIVER_OK;
}

mend_status cuModuleUnload(mend_cu_module module)
{
    if ((void *)module != &fake || fake.modules == 0) {
        return MEND_DRIVER_INVALID_HANDLE;
    }
    fake.modules--;
    return MEND_DRIVER_OK;
}

/* A function is the number of its kernel, from 1. */
mend_status cuModuleGetFunction(mend_cu_function *function, mend_cu_module module, const char *name)
{
    for (uintptr_t i = 0; (void *)module == &fake && i < sizeof(entries) / sizeof(*entries); i++) {
        if (strcmp(name, entries[i]) == 0) {
            *function = (mend_cu_function)(i + 1);
            return MEND_DRIVER_OK;
        }
    }
    return MEND_DRIVER_NOT_FOUND;
}

/* Reads one parameter of a kernel. */
static uint64_t parameter_u64(void **parameters, int index)
{
    uint64_t value;
    memcpy(&value, parameters[index], sizeof(value));
    return value;
}

mend_status cuLaunchKernel(mend_cu_function function, unsigned int grid_x, unsigned int grid_y,
                           unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                           unsigned int block_z, unsigned int shared_bytes, mend_stream stream,
                           void **parameters, void **extra)
{
    uintptr_t number = (uintptr_t)function;
    if (number == 0 || number > sizeof(entries) / sizeof(*entries) || extra != NULL ||
        shared_bytes != 0 || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 ||
        block_x > 1024 || block_y != 1 || block_z != 1) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    mend_kernel kernel = {.kind = (mend_kernel_kind)(number - 1),
                          .address = parameter_u64(parameters, 0),
                          .granule_bytes = parameter_u64(parameters, 1),
                          .stride_bytes = parameter_u64(parameters, 2),
                          .granule_count = parameter_u64(parameters, 3),
                          .duration_ns = parameter_u64(parameters, 5),
                          .mismatches = parameter_u64(parameters, 6)};
    memcpy(&kernel.value, parameters[4], sizeof(kernel.value));
    return inner()->launch(inner(), stream, &kernel);
}

/* ---- streams and events
 * -------------------------------------------------------------------------- */

mend_status cuStreamCreate(mend_stream *stream, unsigned int flags)
{
    return flags != MEND_CU_STREAM_NON_BLOCKING ? MEND_DRIVER_INVALID_VALUE
                                                : inner()->stream_create(inner(), stream);
}

mend_status cuStreamDestroy(mend_stream stream)
{
    return inner()->stream_destroy(inner(), stream);
}

mend_status cuStreamQuery(mend_stream stream)
{
    return inner()->stream_query(inner(), stream);
}

mend_status cuStreamSynchronize(mend_stream stream)
{
    return inner()->stream_synchronize(inner(), stream);
}

mend_status cuStreamWaitEvent(mend_stream stream, mend_event event, unsigned int flags)
{
    return flags != 0 ? MEND_DRIVER_INVALID_VALUE : inner()->stream_wait(inner(), stream, event);
}

mend_status cuStreamGetCtx(mend_stream stream, mend_context *context)
{
    mend_stream_info info = {0};
    mend_status status = inner()->stream_get_info(inner(), stream, &info);
    *context = info.context;
    return status;
}

mend_status cuStreamGetCaptureInfo(mend_stream stream, mend_cu_capture_status *capture,
                                   mend_cu_id *id, mend_cu_graph *graph,
                                   const mend_cu_graph_node **dependencies,
                                   size_t *dependency_count)
{
    mend_stream_info info = {0};
    if (graph != NULL || dependencies != NULL || dependency_count != NULL) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    if (stream == NULL && fake.switches.legacy_capture != MEND_DRIVER_OK) {
        return fake.switches.legacy_capture;
    }
    mend_status status = inner()->stream_get_info(inner(), stream, &info);
    *capture = (mend_cu_capture_status)info.capture;
    *id = info.capture_id;
    return status;
}

mend_status cuEventCreate(mend_event *event, unsigned int flags)
{
    return flags != MEND_CU_EVENT_NO_TIMING ? MEND_DRIVER_INVALID_VALUE
                                            : inner()->event_create(inner(), event);
}

mend_status cuEventRecord(mend_event event, mend_stream stream)
{
    return inner()->event_record(inner(), event, stream);
}

mend_status cuEventQuery(mend_event event)
{
    return inner()->event_query(inner(), event);
}

mend_status cuEventSynchronize(mend_event event)
{
    return inner()->event_synchronize(inner(), event);
}

mend_status cuEventDestroy(mend_event event)
{
    return inner()->event_destroy(inner(), event);
}

/* ---- what came with CUDA 12.0
 * -------------------------------------------------------------------- */

#ifndef FAKE_CUDA_OLD
mend_status cuStreamGetId(mend_stream stream, unsigned long long *id)
{
    mend_stream_info info = {0};
    mend_status status = inner()->stream_get_info(inner(), stream, &info);
    *id = info.id;
    return status;
}

typedef void (*any_function)(void);

/* Finds a function by its plain name, from the version on in which its type came. */
MEND_API mend_status
fake_get_proc_address(const char *symbol, void **function, int version, mend_cu_id flags,
                      mend_cu_symbol_status *found) __asm__("cuGetProcAddress_v2");
mend_status fake_get_proc_address(const char *symbol, void **function, int version,
                                  mend_cu_id flags, mend_cu_symbol_status *found)
{
    static const struct {
        const char *name;
        int version;
        any_function function;
    } known[] = {
#define X(name, version, suffix, parameters) {#name, version, (any_function)name},
        MEND_CU_FUNCTIONS(X) MEND_CU_OPTIONAL_FUNCTIONS(X)
#undef X
    };
    const char *missing = fake_cuda_get()->switches.missing_function;
    *function = NULL;
    *found = 1;
    if (version > FAKE_DRIVER_VERSION || flags != MEND_CU_SYMBOLS_LEGACY_STREAM) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (strcmp(symbol, known[i].name) == 0 && version >= known[i].version &&
            (missing == NULL || strcmp(symbol, missing) != 0)) {
            memcpy(function, &known[i].function, sizeof(*function));
            *found = 0;
        }
    }
    return MEND_DRIVER_OK;
}
#endif
