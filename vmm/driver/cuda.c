/*
 * The table of the CUDA driver: thin functions that convert the table's types to the driver's.
 * Longer ones are in cuda_device.c and cuda_stream.c.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/process.h"
#include "driver/cuda_state.h"

static_assert(sizeof(mend_chunk_handle) == sizeof(mend_cu_chunk), "a handle is the driver's own");
static_assert(sizeof(uint64_t) == sizeof(mend_cu_address), "an address is the driver's own");
static_assert((int)MEND_CUDA_DEVICE_LIMIT == (int)MEND_DEVICE_LIMIT,
              "a process has a place for each device of the driver's table");

/* ---- calls that the driver takes as they are ------------------------------------------------- */

/* clang-format off */
#define CALLS(X)                                                                                   \
    X(context_push, (const mend_driver *driver, mend_context context), cuCtxPushCurrent(context))  \
    X(context_pop, (const mend_driver *driver), cuCtxPopCurrent(&(mend_context){NULL}))            \
    X(context_synchronize, (const mend_driver *driver), cuCtxSynchronize())                        \
    X(address_free, (const mend_driver *driver, uint64_t address, uint64_t size_bytes),            \
      cuMemAddressFree(address, size_bytes))                                                       \
    X(release, (const mend_driver *driver, mend_chunk_handle handle), cuMemRelease(handle))        \
    X(map, (const mend_driver *driver, uint64_t address, uint64_t size_bytes,                      \
       uint64_t offset_bytes, mend_chunk_handle handle),                                           \
      cuMemMap(address, size_bytes, offset_bytes, handle, 0))                                      \
    X(unmap, (const mend_driver *driver, uint64_t address, uint64_t size_bytes),                   \
      cuMemUnmap(address, size_bytes))                                                             \
    X(export_handle, (const mend_driver *driver, mend_chunk_handle handle, int share_type,         \
       void *out),                                                                                 \
      cuMemExportToShareableHandle(out, handle, share_type, 0))                                    \
    X(plain_free, (const mend_driver *driver, uint64_t address), cuMemFree(address))               \
    X(async_free, (const mend_driver *driver, uint64_t address, mend_stream stream),               \
      cuMemFreeAsync(address, stream))                                                             \
    X(host_free, (const mend_driver *driver, void *pointer), cuMemFreeHost(pointer))               \
    X(host_register, (const mend_driver *driver, void *pointer, uint64_t size_bytes),              \
      cuMemHostRegister(pointer, size_bytes, 0))                                                   \
    X(host_unregister, (const mend_driver *driver, void *pointer), cuMemHostUnregister(pointer))   \
    X(copy, (const mend_driver *driver, uint64_t destination, uint64_t source,                     \
       uint64_t size_bytes, mend_stream stream),                                                   \
      cuMemcpyAsync(destination, source, size_bytes, stream))                                      \
    X(fill, (const mend_driver *driver, uint64_t address, uint8_t value, uint64_t size_bytes,      \
       mend_stream stream),                                                                        \
      cuMemsetD8Async(address, value, size_bytes, stream))                                         \
    X(stream_create, (const mend_driver *driver, mend_stream *stream),                             \
      cuStreamCreate(stream, MEND_CU_STREAM_NON_BLOCKING))                                         \
    X(stream_destroy, (const mend_driver *driver, mend_stream stream), cuStreamDestroy(stream))    \
    X(stream_query, (const mend_driver *driver, mend_stream stream), cuStreamQuery(stream))        \
    X(stream_synchronize, (const mend_driver *driver, mend_stream stream),                         \
      cuStreamSynchronize(stream))                                                                 \
    X(event_create, (const mend_driver *driver, mend_event *event),                                \
      cuEventCreate(event, MEND_CU_EVENT_NO_TIMING))                                               \
    X(event_record, (const mend_driver *driver, mend_event event, mend_stream stream),             \
      cuEventRecord(event, stream))                                                                \
    X(event_destroy, (const mend_driver *driver, mend_event event), cuEventDestroy(event))

/* Of an event that a capture recorded, and whose graph is gone, the driver says INVALID_VALUE (seen
 * with CUDA 13.0). Nothing else can be invalid where this is asked. */
#define CALLS_ON_EVENTS(X)                                                                         \
    X(stream_wait, (const mend_driver *driver, mend_stream stream, mend_event event),              \
      cuStreamWaitEvent(stream, event, 0))                                                         \
    X(event_query, (const mend_driver *driver, mend_event event), cuEventQuery(event))             \
    X(event_synchronize, (const mend_driver *driver, mend_event event), cuEventSynchronize(event))

/* Those with an output, of the driver's type, which a failure leaves as it was. The handle of a
 * device is its ordinal. */
#define CALLS_WITH_OUTPUT(X)                                                                       \
    X(context_device, (const mend_driver *driver, int *device), mend_cu_device, device,            \
      cuCtxGetDevice(&made))                                                                       \
    X(reserve, (const mend_driver *driver, uint64_t size_bytes, uint64_t alignment_bytes,          \
       uint64_t hint, uint64_t *address), mend_cu_address, address,                                \
      cuMemAddressReserve(&made, size_bytes, alignment_bytes, hint, 0))                            \
    X(plain_alloc, (const mend_driver *driver, uint64_t size_bytes, uint64_t *address),            \
      mend_cu_address, address, cuMemAlloc(&made, size_bytes))                                     \
    X(create, (const mend_driver *driver, uint64_t size_bytes,                                     \
       const mend_chunk_properties *properties, mend_chunk_handle *handle), mend_cu_chunk, handle, \
      cuMemCreate(&made, size_bytes,                                                               \
                  &(mend_cu_chunk_properties[]){mend_cuda_chunk_properties(properties)}[0], 0))    \
    X(async_alloc, (const mend_driver *driver, uint64_t size_bytes, mend_stream stream,            \
       uint64_t *address), mend_cu_address, address, cuMemAllocAsync(&made, size_bytes, stream))   \
    X(host_alloc, (const mend_driver *driver, uint64_t size_bytes, void **pointer), void *,        \
      pointer, cuMemHostAlloc(&made, size_bytes, 0))
/* clang-format on */

#define X(member, parameters, call)                                                                \
    mend_status mend_cuda_##member parameters                                                      \
    {                                                                                              \
        return mend_cuda_functions(driver)->call;                                                  \
    }
CALLS(X)
#undef X

#define X(member, parameters, call)                                                                \
    mend_status mend_cuda_##member parameters                                                      \
    {                                                                                              \
        mend_status status = mend_cuda_functions(driver)->call;                                    \
        return status == MEND_DRIVER_INVALID_VALUE ? MEND_DRIVER_CAPTURED_EVENT : status;          \
    }
CALLS_ON_EVENTS(X)
#undef X

#define X(member, parameters, type, output, call)                                                  \
    mend_status mend_cuda_##member parameters                                                      \
    {                                                                                              \
        type made = 0;                                                                             \
        MEND_TRY_CALL(mend_cuda_functions(driver)->call);                                          \
        *output = made;                                                                            \
        return MEND_DRIVER_OK;                                                                     \
    }
CALLS_WITH_OUTPUT(X)
#undef X

/* ---- devices and contexts -------------------------------------------------------------------- */

mend_status mend_cuda_device_count(const mend_driver *driver, int *count)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    MEND_TRY_CALL(cuda->init_status);
    return cuda->functions.cuDeviceGetCount(count);
}

mend_status mend_cuda_memory_info(const mend_driver *driver, uint64_t *free_bytes,
                                  uint64_t *total_bytes)
{
    size_t free_now = 0;
    size_t total = 0;
    MEND_TRY_CALL(mend_cuda_functions(driver)->cuMemGetInfo(&free_now, &total));
    *free_bytes = free_now;
    *total_bytes = total;
    return MEND_DRIVER_OK;
}

mend_status mend_cuda_exchange_capture_mode(const mend_driver *driver, mend_capture_mode *mode)
{
    mend_cu_capture_mode exchanged = (mend_cu_capture_mode)*mode;
    MEND_TRY_CALL(mend_cuda_functions(driver)->cuThreadExchangeStreamCaptureMode(&exchanged));
    *mode = (mend_capture_mode)exchanged;
    return MEND_DRIVER_OK;
}

/* ---- addresses and chunks -------------------------------------------------------------------- */

mend_status mend_cuda_set_access(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                                 const int *devices, int device_count, mend_access access)
{
    if (device_count < 1 || device_count > MEND_CUDA_DEVICE_LIMIT) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    mend_cu_access wanted[MEND_CUDA_DEVICE_LIMIT];
    for (int i = 0; i < device_count; i++) {
        wanted[i].location.type = MEND_CU_LOCATION_DEVICE;
        wanted[i].location.id = devices[i];
        wanted[i].flags =
            access == MEND_ACCESS_READ ? MEND_CU_ACCESS_READ : MEND_CU_ACCESS_READ_WRITE;
    }
    return mend_cuda_functions(driver)->cuMemSetAccess(address, size_bytes, wanted,
                                                       (size_t)device_count);
}

mend_status mend_cuda_import_handle(const mend_driver *driver, const void *shared, int share_type,
                                    mend_chunk_handle *handle)
{
    /* The driver takes a file descriptor by value in the pointer, a fabric handle by address. */
    void *source = share_type == MEND_SHARE_FILE_DESCRIPTOR
                       ? (void *)(intptr_t) * (const int *)shared
                       : (void *)(uintptr_t)shared;
    mend_cu_chunk chunk = 0;
    MEND_TRY_CALL(
        mend_cuda_functions(driver)->cuMemImportFromShareableHandle(&chunk, source, share_type));
    *handle = chunk;
    return MEND_DRIVER_OK;
}

/* ---- work, streams and events ---------------------------------------------------------------- */

mend_status mend_cuda_context_record(const mend_driver *driver, mend_event event)
{
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_context current = NULL;
    if (functions->cuCtxRecordEvent == NULL) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    MEND_TRY_CALL(functions->cuCtxGetCurrent(&current));
    return current != NULL ? functions->cuCtxRecordEvent(current, event)
                           : MEND_DRIVER_INVALID_CONTEXT;
}

/* Only tools and tests have a table that launches. */
mend_status mend_cuda_launch(const mend_driver *driver, mend_stream stream,
                             const mend_kernel *kernel)
{
    (void)driver;
    (void)stream;
    (void)kernel;
    return MEND_DRIVER_NOT_SUPPORTED;
}

/* ---- what cannot fail ------------------------------------------------------------------------ */

static uint64_t cuda_clock_ns(const mend_driver *driver)
{
    (void)driver;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void cuda_pause(const mend_driver *driver, uint64_t duration_ns)
{
    (void)driver;
    struct timespec left = {.tv_sec = (time_t)(duration_ns / UINT64_C(1000000000)),
                            .tv_nsec = (long)(duration_ns % UINT64_C(1000000000))};
    nanosleep(&left, NULL);
}

static const char *cuda_status_name(const mend_driver *driver, mend_status status)
{
    const char *name = NULL;
    if (mend_cuda_functions(driver)->cuGetErrorName(status, &name) != MEND_DRIVER_OK ||
        name == NULL) {
        return mend_status_name(status);
    }
    return name;
}

static const mend_driver cuda_table = {
    .name = "cuda",
#define X(member, name, bytes, parameters, arguments) .member = mend_cuda_##member,
    MEND_DRIVER_CALLS(X)
#undef X
        .clock_ns = cuda_clock_ns,
    .pause = cuda_pause,
    .status_name = cuda_status_name,
};

/* ---- loading --------------------------------------------------------------------------------- */

/* Functions are found by cuGetProcAddress_v2 or, in drivers before 12.0, by their versioned names.
 * The library is never unloaded: other code of the process uses it, and it has threads. */

typedef struct cuda_library {
    void *handle;
    mend_cu_get_proc_address get_proc_address; /* NULL in drivers before 12.0 */
} cuda_library;

/* dlsym returns an object pointer. POSIX promises the same bytes as the function pointer's. */
static void copy_function(void *target, void *const *source)
{
    memcpy(target, source, sizeof(*source));
}

static void *find_function(const cuda_library *library, const char *name, int version,
                           const char *symbol)
{
    void *function = NULL;
    if (library->get_proc_address == NULL) {
        return dlsym(library->handle, symbol);
    }
    mend_cu_symbol_status found = 0;
    mend_status status =
        library->get_proc_address(name, &function, version, MEND_CU_SYMBOLS_LEGACY_STREAM, &found);
    return status == MEND_DRIVER_OK && found == 0 ? function : NULL;
}

mend_result mend_cuda_load(mend_cu_functions *functions)
{
    cuda_library library = {dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), NULL};
    if (library.handle == NULL) {
        const char *reason = dlerror();
        return mend_fail(MEND_ERROR_NO_DRIVER,
                         "the CUDA driver cannot be loaded (%s); install the NVIDIA driver, or use "
                         "the simulated device",
                         reason != NULL ? reason : "libcuda.so.1");
    }
    void *function = dlsym(library.handle, "cuGetProcAddress_v2");
    copy_function(&library.get_proc_address, &function);

    mend_cu_functions found;
#define X(name, version, suffix, parameters)                                                       \
    function = find_function(&library, #name, version, #name suffix);                              \
    copy_function(&found.name, &function);
    MEND_CU_OPTIONAL_FUNCTIONS(X)
#undef X
#define X(name, version, suffix, parameters)                                                       \
    function = find_function(&library, #name, version, #name suffix);                              \
    if (function == NULL) {                                                                        \
        dlclose(library.handle);                                                                   \
        return mend_fail(MEND_ERROR_NO_DRIVER,                                                     \
                         "libcuda.so.1 has no %s; Mend needs a driver of CUDA 11.3 or later",      \
                         #name suffix);                                                            \
    }                                                                                              \
    copy_function(&found.name, &function);
    MEND_CU_FUNCTIONS(X)
#undef X
    *functions = found;
    return MEND_OK;
}

/* The table lives as long as the process: see mend_cuda_driver. */
static mend_result load_driver(const mend_driver **driver)
{
    assert(mend_mutex_none_is_held_from(MEND_RANK_GROW));
    mend_cuda *cuda = calloc(1, sizeof(*cuda));
    if (cuda == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no memory for the CUDA driver's table");
    }
    mend_result result = mend_cuda_load(&cuda->functions);
    if (result != MEND_OK) {
        free(cuda);
        return result;
    }
    cuda->init_status = cuda->functions.cuInit(0);
    mend_mutex_init(&cuda->mutex, MEND_RANK_DRIVER);
    cuda->table = cuda_table;
    cuda->table.state = cuda;
    *driver = &cuda->table;
    return MEND_OK;
}

mend_result mend_cuda_driver(const mend_driver **driver)
{
    return mend_process_cuda_driver(load_driver, driver);
}
