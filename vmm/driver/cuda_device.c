/* Opening a device: its primary context, its properties, and the features of its memory. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "driver/cuda_state.h"

static int attribute(const mend_cu_functions *functions, mend_cu_attribute which,
                     mend_cu_device device)
{
    int value = 0;
    return functions->cuDeviceGetAttribute(&value, which, device) == MEND_DRIVER_OK ? value : 0;
}

static_assert(MEND_CUDA_DEVICE_LIMIT <= sizeof(uint64_t) * CHAR_BIT, "a device is a bit of peers");

/* Properties that the driver reports. The last fields are only claims: the probe checks them. */
static mend_status describe(const mend_cu_functions *functions, mend_cu_device device,
                            mend_device_info *info)
{
    size_t total_bytes = 0;
    MEND_TRY_CALL(functions->cuDeviceTotalMem(&total_bytes, device));
    if (functions->cuDeviceGetName(info->name, (int)sizeof(info->name), device) != MEND_DRIVER_OK) {
        snprintf(info->name, sizeof(info->name), "CUDA device %d", device);
    }
    info->total_bytes = total_bytes;
    info->driver_version = 0;
    (void)functions->cuDriverGetVersion(&info->driver_version);
    info->compute_major = attribute(functions, MEND_CU_COMPUTE_MAJOR, device);
    info->compute_minor = attribute(functions, MEND_CU_COMPUTE_MINOR, device);
    info->integrated = attribute(functions, MEND_CU_INTEGRATED, device) != 0;
    info->peers = 0; /* those that can be given access to the memory */
    int count = 0;
    (void)functions->cuDeviceGetCount(&count);
    for (int i = 0; i < count && i < MEND_CUDA_DEVICE_LIMIT; i++) {
        mend_cu_device other = 0;
        int can = 0;
        if (i != device && functions->cuDeviceGet(&other, i) == MEND_DRIVER_OK &&
            functions->cuDeviceCanAccessPeer(&can, other, device) == MEND_DRIVER_OK && can != 0) {
            info->peers |= UINT64_C(1) << i;
        }
    }
    info->multicast = attribute(functions, MEND_CU_HAS_MULTICAST, device) != 0;
    info->virtual_memory = attribute(functions, MEND_CU_HAS_VIRTUAL_MEMORY, device) != 0;
    info->memory_pools = attribute(functions, MEND_CU_HAS_MEMORY_POOLS, device) != 0;
    info->share_file_descriptor = attribute(functions, MEND_CU_HAS_FILE_DESCRIPTOR, device) != 0;
    info->share_fabric = attribute(functions, MEND_CU_HAS_FABRIC, device) != 0;
    info->host_register = attribute(functions, MEND_CU_HAS_HOST_REGISTER, device) != 0;
    info->rdma = attribute(functions, MEND_CU_HAS_RDMA, device) != 0;
    return MEND_DRIVER_OK;
}

/* ---- what its memory can do ------------------------------------------------------------------ */

/*
 * Tests each feature of a device's memory by using it: on some devices the attributes say yes and
 * the calls fail. A probe uses one page of addresses, and creates one page of memory at a time.
 */
typedef struct memory_probe {
    const mend_driver *driver;
    const char *device_name;
    int device;
    uint64_t page_bytes;
    uint64_t address; /* a page */
    mend_chunk_handle chunk;
    bool is_mapped;
    bool was_short; /* of memory that a pool can do without */
} memory_probe;

static bool is_lack_of_memory(mend_status status)
{
    return status == MEND_DRIVER_OUT_OF_MEMORY || status == MEND_DRIVER_NOT_READY;
}

/* Turns the result of a trial into yes or no. Logs a no with the driver's reason. */
static mend_status conclude(memory_probe *probe, const char *what, mend_status status, bool *works)
{
    probe->was_short |= is_lack_of_memory(status);
    *works = status == MEND_DRIVER_OK;
    if (*works || mend_status_is_fatal(status)) {
        return status;
    }
    mend_log(MEND_LOG_INFO, "%s: %s: no (%s)", probe->device_name, what,
             probe->driver->status_name(probe->driver, status));
    return MEND_DRIVER_OK;
}

static mend_status map_chunk(memory_probe *probe, const mend_chunk_properties *properties)
{
    const mend_driver *driver = probe->driver;
    MEND_TRY_CALL(driver->create(driver, probe->page_bytes, properties, &probe->chunk));
    MEND_TRY_CALL(driver->map(driver, probe->address, probe->page_bytes, 0, probe->chunk));
    probe->is_mapped = true;
    return driver->set_access(driver, probe->address, probe->page_bytes, &probe->device, 1,
                              MEND_ACCESS_READ_WRITE);
}

static void drop_chunk(memory_probe *probe)
{
    const mend_driver *driver = probe->driver;
    if (probe->is_mapped) {
        driver->unmap(driver, probe->address, probe->page_bytes);
        probe->is_mapped = false;
    }
    if (probe->chunk != 0) {
        driver->release(driver, probe->chunk);
        probe->chunk = 0;
    }
}

/* Creates a page with special properties and accesses it, which some drivers refuse only then (RDMA
 * on WSL, pytorch#192330). Exports it as `share_type`, if that is not NONE. */
static mend_status try_properties(memory_probe *probe, const mend_chunk_properties *properties,
                                  int share_type)
{
    const mend_driver *driver = probe->driver;
    mend_cu_chunk_properties wanted = mend_cuda_chunk_properties(properties);
    size_t page_bytes = 0;
    MEND_TRY_CALL(mend_cuda_functions(driver)->cuMemGetAllocationGranularity(
        &page_bytes, &wanted, MEND_CU_GRANULARITY_MINIMUM));
    if (page_bytes != probe->page_bytes) {
        return MEND_DRIVER_NOT_SUPPORTED; /* refused: all pages of a pool have one size */
    }
    MEND_TRY_CALL(map_chunk(probe, properties));
    if (share_type != MEND_SHARE_NONE) {
        union {
            int descriptor;
            unsigned char fabric[MEND_FABRIC_HANDLE_BYTES];
        } shared;
        MEND_TRY_CALL(driver->export_handle(driver, probe->chunk, share_type, &shared));
        if (share_type == MEND_SHARE_FILE_DESCRIPTOR) {
            close(shared.descriptor);
        }
    }
    return MEND_DRIVER_OK;
}

/* Too little memory for the first page says nothing about the device. A share type is tried beside
 * those that work, with which a pool would ask for it. */
static mend_status probe_all(memory_probe *probe, mend_device_info *info)
{
    const mend_driver *driver = probe->driver;
    mend_chunk_properties properties = {.device = probe->device};
    mend_status status = driver->reserve(driver, probe->page_bytes, 0, 0, &probe->address);
    status = status == MEND_DRIVER_OK ? map_chunk(probe, &properties) : status;
    drop_chunk(probe);
    if (is_lack_of_memory(status)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    MEND_TRY_CALL(conclude(probe, "virtual memory", status, &info->virtual_memory));
    const struct {
        const char *what;
        int share_type;
        bool *works;
    } trials[] = {
        {"sharing by file descriptor", MEND_SHARE_FILE_DESCRIPTOR, &info->share_file_descriptor},
        {"sharing by fabric handle", MEND_SHARE_FABRIC, &info->share_fabric},
        {"RDMA", MEND_SHARE_NONE, &info->rdma},
    };
    int shared = MEND_SHARE_NONE;
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]) && info->virtual_memory; i++) {
        if (!*trials[i].works) {
            continue; /* the driver does not even claim it */
        }
        properties.rdma = trials[i].works == &info->rdma;
        properties.share_types = properties.rdma ? MEND_SHARE_NONE : trials[i].share_type | shared;
        status = try_properties(probe, &properties, trials[i].share_type);
        drop_chunk(probe);
        MEND_TRY_CALL(conclude(probe, trials[i].what, status, trials[i].works));
        shared |= *trials[i].works ? trials[i].share_type : MEND_SHARE_NONE;
    }
    return MEND_DRIVER_OK;
}

/*
 * Fills granularity_bytes, recommended_bytes, virtual_memory, rdma and share_... A refused feature
 * is false and logged. *is_final is false if a refusal may be for missing memory: another probe may
 * find more. The device's context is current. Leaves nothing behind. OK. OUT_OF_MEMORY if not even
 * one page could be created, or the code of a broken context: *info is then of no use.
 */
static mend_status probe_memory(const mend_driver *driver, int device, mend_device_info *info,
                                bool *is_final)
{
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_chunk_properties plain = {.device = device};
    mend_cu_chunk_properties wanted = mend_cuda_chunk_properties(&plain);
    size_t page_bytes = 0;
    size_t recommended_bytes = 0;
    mend_status status = info->virtual_memory ? MEND_DRIVER_OK : MEND_DRIVER_NOT_SUPPORTED;
    if (status == MEND_DRIVER_OK) {
        status = functions->cuMemGetAllocationGranularity(&page_bytes, &wanted,
                                                          MEND_CU_GRANULARITY_MINIMUM);
    }
    if (status == MEND_DRIVER_OK) {
        status = functions->cuMemGetAllocationGranularity(&recommended_bytes, &wanted,
                                                          MEND_CU_GRANULARITY_RECOMMENDED);
    }
    memory_probe probe = {
        .driver = driver, .device_name = info->name, .device = device, .page_bytes = page_bytes};
    if (status != MEND_DRIVER_OK) {
        status = conclude(&probe, "virtual memory", status, &info->virtual_memory);
    } else {
        info->granularity_bytes = page_bytes;
        info->recommended_bytes = recommended_bytes;
        status = probe_all(&probe, info);
    }
    if (probe.address != 0) {
        driver->address_free(driver, probe.address, page_bytes);
    }
    if (!info->virtual_memory) { /* nothing that needs chunks works without */
        info->share_file_descriptor = info->share_fabric = info->rdma = false;
    }
    *is_final = info->virtual_memory && !probe.was_short;
    return status;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* The probe creates memory, which a thread may not do in the stricter capture modes. */
static mend_status probe_in_context(const mend_driver *driver, int device, mend_device_info *info,
                                    bool *is_final)
{
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_cu_capture_mode mode = MEND_CAPTURE_MODE_RELAXED;
    MEND_TRY_CALL(functions->cuCtxPushCurrent(info->context));
    mend_status status = functions->cuThreadExchangeStreamCaptureMode(&mode);
    if (status == MEND_DRIVER_OK) {
        status = probe_memory(driver, device, info, is_final);
        functions->cuThreadExchangeStreamCaptureMode(&mode);
    }
    mend_context popped = NULL;
    functions->cuCtxPopCurrent(&popped);
    return status;
}

/* What a device is and can do is found out once for the process, unless memory was short. The table
 * is per process: a child of fork loads another one. */
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
    mend_mutex_lock(&cuda->mutex);
    mend_device_info found = cuda->probed[device];
    mend_mutex_unlock(&cuda->mutex);
    bool is_final = found.granularity_bytes != 0;
    const bool is_known = is_final;
    MEND_TRY_CALL(is_known ? MEND_DRIVER_OK : describe(functions, ordinal, &found));
    MEND_TRY_CALL(functions->cuDevicePrimaryCtxRetain(&found.context, ordinal));
    if (!is_known) {
        status = probe_in_context(driver, device, &found, &is_final);
    }
    if (status != MEND_DRIVER_OK) {
        functions->cuDevicePrimaryCtxRelease(ordinal);
        return status;
    }
    mend_mutex_lock(&cuda->mutex);
    cuda->device[device].opens++;
    cuda->device[device].context = found.context;
    if (is_final) {
        cuda->probed[device] = found;
    }
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
