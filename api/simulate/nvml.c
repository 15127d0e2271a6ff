/* What PyTorch asks of NVML about the devices' links and other programs: a library of its own,
 * found by NVML's name. There are no links and no other programs. */
#include <string.h>

#include "simulate/entry.h"

/* nvmlReturn_t */
enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3 };

/* Any number of calls; nothing is kept. */
SIMULATE_EXPORT int nvmlInit_v2(void)
{
    return NVML_SUCCESS;
}

SIMULATE_EXPORT int nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

SIMULATE_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, const void **device)
{
    *device = bus; /* any pointer: no function here looks at it */
    return NVML_SUCCESS;
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

/* X(function): asked for by name, and refused. */
#define REFUSED(X)                                                                                 \
    X(nvmlDeviceGetCount_v2)                                                                       \
    X(nvmlDeviceGetHandleByIndex_v2)                                                               \
    X(nvmlDeviceGetHandleByUUID)                                                                   \
    X(nvmlDeviceGetUUID)                                                                           \
    X(nvmlDeviceGetP2PStatus)

#define X(function)                                                                                \
    SIMULATE_EXPORT int function(void)                                                             \
    {                                                                                              \
        return NVML_NOT_SUPPORTED;                                                                 \
    }
REFUSED(X)
#undef X
