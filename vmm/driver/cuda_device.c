/* Opening a device: its primary context, its properties, and what its memory can do. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "driver/cuda_state.h"

static int attribute(const mend_cu_functions *functions, mend_cu_attribute which,
                     mend_cu_device device)
{
    int value = 0;
    return functions->cuDeviceGetAttribute(&value, which, device) == MEND_DRIVER_OK ? value : 0;
}

static_assert(MEND_CUDA_DEVICE_LIMIT <= sizeof(uint64_t) * CHAR_BIT, "a device is a bit of peers");

/* The devices that can be given access to the memory of this one. */
static uint64_t peers_of(const mend_cu_functions *functions, mend_cu_device device)
{
    uint64_t peers = 0;
    int count = 0;
    if (functions->cuDeviceGetCount(&count) != MEND_DRIVER_OK) {
        return 0;
    }
    for (int i = 0; i < count && i < MEND_CUDA_DEVICE_LIMIT; i++) {
        mend_cu_device other = 0;
        int can = 0;
        bool is_told = i != device && functions->cuDeviceGet(&other, i) == MEND_DRIVER_OK &&
                       functions->cuDeviceCanAccessPeer(&can, other, device) == MEND_DRIVER_OK;
        peers |= is_told && can != 0 ? UINT64_C(1) << i : 0;
    }
    return peers;
}

/* Properties that the driver reports. The last fields are only claims: the probe checks them. */
static mend_status describe(const mend_cuda *cuda, mend_cu_device device, mend_device_info *info)
{
    const mend_cu_functions *functions = &cuda->functions;
    size_t total_bytes = 0;
    MEND_TRY_CALL(functions->cuDeviceTotalMem(&total_bytes, device));
    if (functions->cuDeviceGetName(info->name, (int)sizeof(info->name), device) != MEND_DRIVER_OK) {
        snprintf(info->name, sizeof(info->name), "CUDA device %d", device);
    }
    info->total_bytes = total_bytes;
    info->driver_version = cuda->driver_version;
    info->compute_major = attribute(functions, MEND_CU_COMPUTE_MAJOR, device);
    info->compute_minor = attribute(functions, MEND_CU_COMPUTE_MINOR, device);
    info->integrated = attribute(functions, MEND_CU_INTEGRATED, device) != 0;
    info->peers = peers_of(functions, device);
    info->multicast = attribute(functions, MEND_CU_HAS_MULTICAST, device) != 0;
    info->virtual_memory = attribute(functions, MEND_CU_HAS_VIRTUAL_MEMORY, device) != 0;
    info->memory_pools = attribute(functions, MEND_CU_HAS_MEMORY_POOLS, device) != 0;
    info->share_file_descriptor = attribute(functions, MEND_CU_HAS_FILE_DESCRIPTOR, device) != 0;
    info->share_fabric = attribute(functions, MEND_CU_HAS_FABRIC, device) != 0;
    info->rdma = attribute(functions, MEND_CU_HAS_RDMA, device) != 0;
    return MEND_DRIVER_OK;
}

/* The probe creates memory and waits, which a thread may not do in the stricter capture modes. Its
 * result is kept for the process (the table is per process; a child of fork loads another one).
 * Only the properties are asked for at each open. */
static mend_status probe_in_context(const mend_driver *driver, int device, mend_device_info *info)
{
    bool is_final = false;
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_cu_capture_mode mode = MEND_CAPTURE_MODE_RELAXED;
    MEND_TRY_CALL(functions->cuCtxPushCurrent(info->context));
    mend_status status = functions->cuThreadExchangeStreamCaptureMode(&mode);
    if (status == MEND_DRIVER_OK) {
        status = mend_cuda_probe_memory(driver, device, info, &is_final);
        functions->cuThreadExchangeStreamCaptureMode(&mode);
    }
    mend_context popped = NULL;
    functions->cuCtxPopCurrent(&popped);
    if (status == MEND_DRIVER_OK && is_final) {
        mend_cuda *cuda = mend_cuda_of(driver);
        mend_mutex_lock(&cuda->mutex);
        cuda->probed[device] = *info;
        mend_mutex_unlock(&cuda->mutex);
    }
    return status;
}

static bool recall_probe(mend_cuda *cuda, int device, mend_device_info *info)
{
    assert(device >= 0);
    assert(device < MEND_CUDA_DEVICE_LIMIT);
    mend_mutex_lock(&cuda->mutex);
    const mend_device_info probed = cuda->probed[device];
    mend_mutex_unlock(&cuda->mutex);
    const bool is_known = probed.granularity_bytes != 0;
    if (is_known) {
        info->granularity_bytes = probed.granularity_bytes;
        info->recommended_bytes = probed.recommended_bytes;
        info->virtual_memory = probed.virtual_memory;
        info->share_file_descriptor = probed.share_file_descriptor;
        info->share_fabric = probed.share_fabric;
        info->rdma = probed.rdma;
    }
    return is_known;
}

mend_status mend_cuda_device_open(const mend_driver *driver, int device, mend_device_info *info)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    const mend_cu_functions *functions = &cuda->functions;
    MEND_TRY_CALL(cuda->init_status);
    mend_cu_device ordinal = 0;
    mend_status status = functions->cuDeviceGet(&ordinal, device);
    if (status != MEND_DRIVER_OK || device >= MEND_CUDA_DEVICE_LIMIT) {
        return status != MEND_DRIVER_OK ? status : MEND_DRIVER_INVALID_DEVICE;
    }
    mend_device_info found = {0};
    MEND_TRY_CALL(describe(cuda, ordinal, &found));
    MEND_TRY_CALL(functions->cuDevicePrimaryCtxRetain(&found.context, ordinal));
    if (!recall_probe(cuda, device, &found)) {
        status = probe_in_context(driver, device, &found);
    }
    if (status != MEND_DRIVER_OK) {
        functions->cuDevicePrimaryCtxRelease(ordinal);
        return status;
    }
    mend_mutex_lock(&cuda->mutex);
    cuda->device[device].opens++;
    cuda->device[device].context = found.context;
    mend_mutex_unlock(&cuda->mutex);
    *info = found;
    return MEND_DRIVER_OK;
}

mend_status mend_cuda_device_close(const mend_driver *driver, int device)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    if (device < 0 || device >= MEND_CUDA_DEVICE_LIMIT) {
        return MEND_DRIVER_INVALID_DEVICE;
    }
    mend_mutex_lock(&cuda->mutex);
    mend_cuda_device *open = &cuda->device[device];
    bool was_open = open->opens > 0;
    if (was_open && --open->opens == 0) {
        memset(open, 0, sizeof(*open));
    }
    mend_mutex_unlock(&cuda->mutex);
    if (!was_open) {
        return MEND_DRIVER_INVALID_CONTEXT;
    }
    mend_cu_device ordinal = 0;
    MEND_TRY_CALL(cuda->functions.cuDeviceGet(&ordinal, device));
    return cuda->functions.cuDevicePrimaryCtxRelease(ordinal);
}
