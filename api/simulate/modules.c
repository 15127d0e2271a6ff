/*
 * Kernels that a program compiles for itself, as Triton does: opaque modules, and functions that
 * take time and do nothing.
 */
#include <stdint.h>
#include <string.h>

#include "simulate/device.h"
#include "simulate/entry.h"
#include "simulate/launch.h"

/* ---- modules --------------------------------------------------------------------------------- */

SIMULATE_EXPORT int cuModuleLoadData(void **module, const void *image)
{
    *module = (void *)(uintptr_t)image;
    return image != NULL ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

SIMULATE_EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned count,
                                       const void *options, const void *values)
{
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}

SIMULATE_EXPORT int cuModuleLoad(void **module, const char *path)
{
    return cuModuleLoadData(module, path);
}

SIMULATE_EXPORT int cuModuleUnload(void *module)
{
    return module != NULL ? CUDA_SUCCESS : CUDA_INVALID_HANDLE;
}

/* Any name: modules are opaque. */
SIMULATE_EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
    *function = module;
    return module != NULL && name != NULL ? CUDA_SUCCESS : CUDA_INVALID_HANDLE;
}

/* ---- launched -------------------------------------------------------------------------------- */

SIMULATE_EXPORT int cuLaunchKernel(const void *function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, mend_stream stream,
                                   void **arguments, void **extra)
{
    (void)arguments, (void)extra, (void)shared_bytes;
    if (function == NULL || grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x == 0 ||
        block_y == 0 || block_z == 0) {
        return CUDA_INVALID_VALUE;
    }
    return simulate_launch(stream);
}

/* CUlaunchConfig, up to its stream. */
typedef struct launch_configuration {
    unsigned grid[3], block[3], shared_bytes;
    mend_stream stream;
} launch_configuration;

SIMULATE_EXPORT int cuLaunchKernelEx(const launch_configuration *c, const void *function,
                                     void **arguments, void **extra)
{
    return c == NULL ? CUDA_INVALID_VALUE
                     : cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0],
                                      c->block[1], c->block[2], c->shared_bytes, c->stream,
                                      arguments, extra);
}

SIMULATE_EXPORT int cuLaunchCooperativeKernel(const void *function, unsigned grid_x,
                                              unsigned grid_y, unsigned grid_z, unsigned block_x,
                                              unsigned block_y, unsigned block_z,
                                              unsigned shared_bytes, mend_stream stream,
                                              void **arguments)
{
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                          stream, arguments, NULL);
}

/* ---- asked about and set --------------------------------------------------------------------- */

SIMULATE_EXPORT int cuFuncGetAttribute(int *value, int attribute, const void *function)
{
    enum { MAX_THREADS = 0, REGISTERS = 4, PTX = 5, BINARY = 6 }; /* CUfunction_attribute */
    enum { MAJOR = 75, MINOR = 76 };
    if (value == NULL || function == NULL) {
        return value == NULL ? CUDA_INVALID_VALUE : CUDA_INVALID_HANDLE;
    }
    *value = attribute == MAX_THREADS ? 1024
             : attribute == REGISTERS ? 32
             : attribute == PTX || attribute == BINARY
                 ? 10 * simulate_attribute(MAJOR, 0) + simulate_attribute(MINOR, 0)
                 : 0;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuFuncSetAttribute(const void *function, int attribute, int value)
{
    (void)attribute, (void)value;
    return function != NULL ? CUDA_SUCCESS : CUDA_INVALID_HANDLE;
}

SIMULATE_EXPORT int cuFuncSetCacheConfig(const void *function, int config)
{
    (void)config;
    return function != NULL ? CUDA_SUCCESS : CUDA_INVALID_HANDLE;
}

SIMULATE_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                                int threads, size_t shared_bytes)
{
    (void)function, (void)shared_bytes;
    *blocks = threads > 0 && 2048 / threads < 32 ? 2048 / threads : 32;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuOccupancyMaxActiveClusters(int *clusters, const void *function,
                                                 const launch_configuration *c)
{
    if (clusters == NULL || function == NULL || c == NULL) {
        return CUDA_INVALID_VALUE;
    }
    *clusters = 16;
    return CUDA_SUCCESS;
}

/* Descriptions of tensors, which kernels alone read. */
enum { MAP_BYTES = 128 };

SIMULATE_EXPORT int cuTensorMapEncodeTiled(void *map)
{
    memset(map, 0, MAP_BYTES);
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuTensorMapEncodeIm2col(void *map)
{
    return cuTensorMapEncodeTiled(map);
}
