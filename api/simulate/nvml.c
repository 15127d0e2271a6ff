/* PyTorch's queries of NVML about the devices' memory, links and programs: a library of its own,
 * found by NVML's name. There are no links and no other programs, and of clocks, heat and load
 * nothing is known. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simulate/entry.h"

/* nvmlReturn_t */
enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6, NVML_INSUFFICIENT_SIZE = 7 };

/* nvmlMemory_t */
typedef struct nvml_memory {
    unsigned long long total_bytes;
    unsigned long long free_bytes;
    unsigned long long used_bytes;
} nvml_memory;

/* The runtime's, where both libraries are preloaded. */
__attribute__((weak)) int cudaGetDeviceCount(int *count);
__attribute__((weak)) int cudaGetDevice(int *device);
__attribute__((weak)) int cudaSetDevice(int device);
__attribute__((weak)) int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);

/* Any number of calls. Nothing is kept. */
SIMULATE_EXPORT int nvmlInit_v2(void)
{
    return NVML_SUCCESS;
}

SIMULATE_EXPORT int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return NVML_SUCCESS;
}

SIMULATE_EXPORT int nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

/* A handle is the number of a device, from 1. */
SIMULATE_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, uintptr_t *device)
{
    *device = (uintptr_t)index + 1;
    return NVML_SUCCESS;
}

SIMULATE_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, uintptr_t *device)
{
    const char *domain_end = strchr(bus, ':');
    *device = domain_end == NULL ? 0 : (uintptr_t)strtoul(domain_end + 1, NULL, 16) + 1;
    return domain_end == NULL ? NVML_NOT_FOUND : NVML_SUCCESS;
}

SIMULATE_EXPORT int nvmlDeviceGetMemoryInfo(uintptr_t device, nvml_memory *memory)
{
    int count = 0;
    int current = 0;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    if (cudaMemGetInfo == NULL || cudaGetDeviceCount(&count) != 0 || cudaGetDevice(&current) != 0) {
        return NVML_NOT_SUPPORTED;
    }
    if (device == 0 || device > (uintptr_t)count) {
        return NVML_NOT_FOUND;
    }
    const bool is_told =
        cudaSetDevice((int)(device - 1)) == 0 && cudaMemGetInfo(&free_bytes, &total_bytes) == 0;
    cudaSetDevice(current);
    if (is_told) {
        *memory = (nvml_memory){total_bytes, free_bytes, total_bytes - free_bytes};
    }
    return is_told ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

SIMULATE_EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, void *type)
{
    (void)device, (void)link, (void)type;
    return NVML_NOT_SUPPORTED;
}

SIMULATE_EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info)
{
    (void)device, (void)link, (void)info;
    return NVML_NOT_SUPPORTED;
}

SIMULATE_EXPORT int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *infos)
{
    (void)device, (void)infos;
    *count = 0;
    return NVML_SUCCESS;
}

/* nvmlProcessInfo_v2_t */
typedef struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
} nvml_process;

/* This process alone, if it uses memory of the device. *count: the capacity of `processes`. */
SIMULATE_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(uintptr_t device, unsigned *count,
                                                            nvml_process *processes)
{
    nvml_memory memory;
    const int result = nvmlDeviceGetMemoryInfo(device, &memory);
    if (result != NVML_SUCCESS) {
        return result;
    }
    const unsigned room = *count;
    *count = memory.used_bytes > 0;
    if (*count > room) {
        return NVML_INSUFFICIENT_SIZE;
    }
    if (*count > 0) {
        processes[0] = (nvml_process){(unsigned)getpid(), memory.used_bytes, UINT_MAX, UINT_MAX};
    }
    return NVML_SUCCESS;
}

SIMULATE_EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(uintptr_t device, unsigned *count,
                                                            nvml_process *processes)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

SIMULATE_EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    int devices = 0;
    if (cudaGetDeviceCount == NULL || cudaGetDeviceCount(&devices) != 0) {
        return NVML_NOT_SUPPORTED;
    }
    *count = (unsigned)devices;
    return NVML_SUCCESS;
}

/* The device is in no fabric: all of nvmlGpuFabricInfoV_t behind its version is 0, as far as every
 * version of it goes. */
SIMULATE_EXPORT int nvmlDeviceGetGpuFabricInfoV(void *device, char *info)
{
    enum { VERSION_BYTES = 4, LEAST_BYTES = 32 };
    (void)device;
    memset(info + VERSION_BYTES, 0, LEAST_BYTES - VERSION_BYTES);
    return NVML_SUCCESS;
}

SIMULATE_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = SIMULATE_DRIVER_VERSION;
    return NVML_SUCCESS;
}

SIMULATE_EXPORT const char *nvmlErrorString(int error)
{
    switch (error) {
    case NVML_SUCCESS:
        return "The operation was successful";
    case NVML_NOT_SUPPORTED:
        return "Not Supported";
    default:
        return "Unknown Error";
    }
}

/* X(function): found, and refused. */
#define REFUSED(X)                                                                                 \
    X(nvmlDeviceGetHandleByUUID)                                                                   \
    X(nvmlDeviceGetUUID)                                                                           \
    X(nvmlDeviceGetP2PStatus)                                                                      \
    X(nvmlDeviceGetUtilizationRates)                                                               \
    X(nvmlDeviceGetTemperature)                                                                    \
    X(nvmlDeviceGetPowerUsage)                                                                     \
    X(nvmlDeviceGetClockInfo)

#define X(function)                                                                                \
    SIMULATE_EXPORT int function(void)                                                             \
    {                                                                                              \
        return NVML_NOT_SUPPORTED;                                                                 \
    }
REFUSED(X)
#undef X
