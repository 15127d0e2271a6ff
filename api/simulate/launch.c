/* Kernels: registered when a program's libraries are loaded, launched, asked about. They take time
 * on their stream and do nothing. PyTorch's torch.cuda._sleep, which is a kernel that only waits,
 * takes as long as its argument says. */
#include <pthread.h>
#include <string.h>

#include "simulate/device.h"
#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/launch.h"
#include "simulate/work.h"

typedef struct dimensions {
    unsigned x, y, z;
} dimensions;

/* The configuration that a launch leaves for the kernel's stub. */
typedef struct configuration {
    dimensions grid, block;
    size_t shared_bytes;
    mend_stream stream;
} configuration;

enum { MOST_PUSHED = 16, MOST_WAITING = 16 };

/* Kernels that wait for the cycles that are their first argument. A cycle is a nanosecond, as the
 * device's clock rate says. */
static const char waiting_name[] = "spin_kernel";
static const void *waiting_kernels[MOST_WAITING];
static int waiting_count;
static pthread_mutex_t waiting_mutex = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local configuration pushed[MOST_PUSHED];
static _Thread_local int pushed_count;

/* ---- registered ------------------------------------------------------------------------------ */

SIMULATE_EXPORT void **__cudaRegisterFatBinary(void *binary)
{
    static void *nothing;
    (void)binary;
    return &nothing;
}

SIMULATE_EXPORT void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

SIMULATE_EXPORT void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

SIMULATE_EXPORT char __cudaInitModule(void **handle)
{
    (void)handle;
    return 0;
}

SIMULATE_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device,
                                            const char *name, int limit, void *thread, void *block,
                                            void *block_size, void *grid_size, int *warp)
{
    (void)handle, (void)device, (void)limit;
    (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp;
    if (strstr(name, waiting_name) != NULL) {
        pthread_mutex_lock(&waiting_mutex);
        if (waiting_count < MOST_WAITING) {
            waiting_kernels[waiting_count++] = host;
        }
        pthread_mutex_unlock(&waiting_mutex);
    }
}

SIMULATE_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
                                       int external, size_t bytes, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name;
    (void)external, (void)bytes, (void)constant, (void)global;
}

SIMULATE_EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *device,
                                              const char *name, int external, size_t bytes,
                                              int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name;
    (void)external, (void)bytes, (void)constant, (void)global;
}

/* ---- launched -------------------------------------------------------------------------------- */

static int queue(mend_stream stream, uint64_t duration_ns)
{
    int error = simulate_enter();
    return error == CUDA_SUCCESS ? simulate_work_kernel(stream, duration_ns) : error;
}

int simulate_launch(mend_stream stream)
{
    return queue(stream, simulate_kernel_ns());
}

static uint64_t duration_of(const void *function, void **arguments)
{
    bool waits = false;
    pthread_mutex_lock(&waiting_mutex);
    for (int i = 0; i < waiting_count && !waits; i++) {
        waits = waiting_kernels[i] == function;
    }
    pthread_mutex_unlock(&waiting_mutex);
    int64_t cycles = 0;
    if (waits && arguments != NULL) {
        memcpy(&cycles, arguments[0], sizeof(cycles));
    }
    return simulate_kernel_ns() + (cycles > 0 ? (uint64_t)cycles : 0);
}

static bool is_empty(dimensions d)
{
    return d.x == 0 || d.y == 0 || d.z == 0;
}

static int launch(const void *function, dimensions grid, dimensions block, void **arguments,
                  mend_stream stream)
{
    if (function == NULL || is_empty(grid) || is_empty(block)) {
        return simulate_answer(function == NULL ? CUDA_INVALID_VALUE : 9); /* a bad configuration */
    }
    return simulate_answer(queue(stream, duration_of(function, arguments)));
}

SIMULATE_EXPORT unsigned __cudaPushCallConfiguration(dimensions grid, dimensions block,
                                                     size_t shared_bytes, mend_stream stream)
{
    if (pushed_count == MOST_PUSHED) {
        return CUDA_OUT_OF_MEMORY;
    }
    pushed[pushed_count++] = (configuration){grid, block, shared_bytes, stream};
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int __cudaPopCallConfiguration(dimensions *grid, dimensions *block,
                                               size_t *shared_bytes, mend_stream *stream)
{
    if (pushed_count == 0) {
        return simulate_answer(CUDA_MISSING_CONFIGURATION);
    }
    const configuration *last = &pushed[--pushed_count];
    *grid = last->grid;
    *block = last->block;
    *shared_bytes = last->shared_bytes;
    *stream = last->stream;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaLaunchKernel(const void *function, dimensions grid, dimensions block,
                                     void **arguments, size_t shared_bytes, mend_stream stream)
{
    (void)shared_bytes;
    return launch(function, grid, block, arguments, stream);
}

SIMULATE_EXPORT int cudaLaunchCooperativeKernel(const void *function, dimensions grid,
                                                dimensions block, void **arguments,
                                                size_t shared_bytes, mend_stream stream)
{
    (void)shared_bytes;
    return launch(function, grid, block, arguments, stream);
}

/* cudaLaunchConfig_t, up to its stream. */
typedef struct launch_configuration {
    dimensions grid, block;
    size_t shared_bytes;
    mend_stream stream;
} launch_configuration;

SIMULATE_EXPORT int cudaLaunchKernelExC(const launch_configuration *config, const void *function,
                                        void **arguments)
{
    return config == NULL
               ? simulate_answer(CUDA_INVALID_VALUE)
               : launch(function, config->grid, config->block, arguments, config->stream);
}

/* How programs of CUDA 13 launch: a kernel's handle is the function it is asked for by. */
SIMULATE_EXPORT int __cudaGetKernel(const void **kernel, const void *function)
{
    *kernel = function;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int __cudaLaunchKernel(const void *kernel, dimensions grid, dimensions block,
                                       void **arguments, size_t shared_bytes, mend_stream stream)
{
    (void)shared_bytes;
    return launch(kernel, grid, block, arguments, stream);
}

/* ---- asked about ----------------------------------------------------------------------------- */

/* cudaFuncAttributes: the members that are not 0, by their offset. CUDA 12 and 13 agree. */
enum { MAJOR = 75, MINOR = 76 };
enum { FUNCTION_BYTES = 144, MAX_THREADS_AT = 24, REGISTERS_AT = 28, PTX_AT = 32, BINARY_AT = 36 };

SIMULATE_EXPORT int cudaFuncGetAttributes(void *attributes, const void *function)
{
    const int max_threads = 1024;
    const int registers = 32;
    const int version = 10 * simulate_attribute(MAJOR, 0) + simulate_attribute(MINOR, 0);
    if (attributes == NULL || function == NULL) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    char *bytes = attributes;
    memset(bytes, 0, FUNCTION_BYTES);
    memcpy(bytes + MAX_THREADS_AT, &max_threads, sizeof(int));
    memcpy(bytes + REGISTERS_AT, &registers, sizeof(int));
    memcpy(bytes + PTX_AT, &version, sizeof(int));
    memcpy(bytes + BINARY_AT, &version, sizeof(int));
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaFuncSetAttribute(const void *function, int attribute, int value)
{
    (void)attribute, (void)value;
    return simulate_answer(function == NULL ? CUDA_INVALID_VALUE : CUDA_SUCCESS);
}

SIMULATE_EXPORT int cudaFuncSetCacheConfig(const void *function, int config)
{
    (void)config;
    return simulate_answer(function == NULL ? CUDA_INVALID_VALUE : CUDA_SUCCESS);
}

SIMULATE_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                                  int threads, size_t shared_bytes)
{
    (void)function, (void)shared_bytes;
    if (blocks == NULL || threads <= 0 || threads > 1024) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    *blocks = 2048 / threads < 32 ? 2048 / threads : 32;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared_bytes, unsigned flags)
{
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}
