/*
 * As much of CUDA's runtime and driver as PyTorch asks for before it allocates: one device without
 * properties. Preloaded before the runtime, and found as libcuda.so.1, it lets PyTorch's own
 * allocators, tensors and streams run without a GPU, over memory of the simulated device. Nothing
 * can be launched. Streams are the simulated device's, which a test connects.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* They are declared in CUDA's headers, which are not needed here. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, DRIVER_VERSION = 13020, PROPERTIES_BYTES = 1024 };

typedef int (*stream_maker)(void *device, void **stream);

static stream_maker make_stream;
static void *simulated_device;

EXPORT void stub_connect(stream_maker maker, void *device)
{
    make_stream = maker;
    simulated_device = device;
}

/* ---- the runtime ------------------------------------------------------------------------------
 */

EXPORT int cudaGetDevice(int *device)
{
    *device = 0;
    return SUCCESS;
}

EXPORT int cudaSetDevice(int device)
{
    (void)device;
    return SUCCESS;
}

EXPORT int cudaGetDeviceCount(int *count)
{
    *count = 1;
    return SUCCESS;
}

EXPORT int cudaGetDeviceProperties(void *properties, int device)
{
    (void)device;
    memset(properties, 0, PROPERTIES_BYTES);
    return SUCCESS;
}

/* Its name in CUDA 12. */
EXPORT int cudaGetDeviceProperties_v2(void *properties, int device)
{
    return cudaGetDeviceProperties(properties, device);
}

EXPORT int cudaDriverGetVersion(int *version)
{
    *version = DRIVER_VERSION;
    return SUCCESS;
}

EXPORT int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = (size_t)600 << 20;
    *total_bytes = (size_t)1 << 30;
    return SUCCESS;
}

EXPORT int cudaGetLastError(void)
{
    return SUCCESS;
}

EXPORT int cudaPeekAtLastError(void)
{
    return SUCCESS;
}

EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -1;
    return SUCCESS;
}

EXPORT int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    return make_stream(simulated_device, stream);
}

EXPORT int cudaStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = 0;
    return SUCCESS;
}

/* Nobody captures: the other outputs are not looked at. */
EXPORT int cudaStreamGetCaptureInfo(void *stream, int *status)
{
    return cudaStreamIsCapturing(stream, status);
}

EXPORT int cudaStreamGetCaptureInfo_v2(void *stream, int *status)
{
    return cudaStreamIsCapturing(stream, status);
}

static int does_nothing(void)
{
    return SUCCESS;
}

EXPORT int cudaGetDriverEntryPoint(const char *symbol, void **function, uint64_t flags, int *status)
{
    int (*nothing)(void) = does_nothing;
    (void)symbol;
    (void)flags;
    memcpy(function, &nothing, sizeof(*function));
    if (status != NULL) {
        *status = 0;
    }
    return SUCCESS;
}

EXPORT int cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                            uint64_t flags, int *status)
{
    (void)version;
    return cudaGetDriverEntryPoint(symbol, function, flags, status);
}

/* ---- the driver -------------------------------------------------------------------------------
 */

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active)
{
    (void)device;
    *flags = 0;
    *is_active = 1;
    return SUCCESS;
}
