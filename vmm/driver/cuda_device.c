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
 * result is kept for the process (the table is per process, a child of fork loads another one).
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

/* ---- what a device can do -------------------------------------------------------------------- */

/*
 * Tests each feature of a device's memory by using it: on some devices the attributes say yes and
 * the calls fail. A probe uses one page of addresses, and creates one page of memory at a time.
 */

/* All resources of a probe. `clean_up` gives it back. */
typedef struct memory_probe {
    const mend_driver *driver;
    const char *device_name;
    int device;
    uint64_t page_bytes;
    uint64_t address; /* a page */
    mend_chunk_handle chunk;
    mend_stream stream;
    bool is_mapped;
    bool was_short; /* of memory that a pool can do without */
    bool may_run;   /* a wait was refused: work may use the mapping */
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

/* The same for the needs of a pool: too little memory then says nothing about the device. */
static mend_status conclude_needed(memory_probe *probe, const char *what, mend_status status,
                                   bool *works)
{
    if (is_lack_of_memory(status)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    return conclude(probe, what, status, works);
}

static mend_status map_chunk(memory_probe *probe, const mend_chunk_properties *properties)
{
    const mend_driver *driver = probe->driver;
    if (probe->chunk != 0) {
        return MEND_DRIVER_NOT_SUPPORTED; /* the driver refused to release the one before */
    }
    MEND_TRY_CALL(driver->create(driver, probe->page_bytes, properties, &probe->chunk));
    MEND_TRY_CALL(driver->map(driver, probe->address, probe->page_bytes, 0, probe->chunk));
    probe->is_mapped = true;
    return driver->set_access(driver, probe->address, probe->page_bytes, &probe->device, 1,
                              MEND_ACCESS_READ_WRITE);
}

static mend_status wait_for(memory_probe *probe, mend_stream stream)
{
    const mend_driver *driver = probe->driver;
    const mend_status status = driver->stream_synchronize(driver, stream);
    probe->may_run |= status != MEND_DRIVER_OK;
    return status;
}

/* Releases the chunk and its mapping. If work may use them, they stay for ever. */
static void drop_chunk(memory_probe *probe)
{
    const mend_driver *driver = probe->driver;
    if (probe->may_run) { /* asks again where a wait was refused */
        probe->may_run = false;
        (void)wait_for(probe, probe->stream);
    }
    if (probe->may_run) {
        return;
    }
    if (probe->is_mapped) {
        driver->unmap(driver, probe->address, probe->page_bytes);
        probe->is_mapped = false;
    }
    if (probe->chunk != 0) {
        driver->release(driver, probe->chunk);
        probe->chunk = 0;
    }
}

static void give_addresses_back(memory_probe *probe)
{
    if (probe->address != 0 && !probe->may_run) {
        probe->driver->address_free(probe->driver, probe->address, probe->page_bytes);
        probe->address = 0;
    }
}

static void clean_up(memory_probe *probe)
{
    const mend_driver *driver = probe->driver;
    drop_chunk(probe);
    give_addresses_back(probe);
    if (probe->stream != NULL) {
        driver->stream_destroy(driver, probe->stream);
    }
}

/* Writes the page and reads the same bytes. */
static mend_status pass_bytes(memory_probe *probe)
{
    enum { BYTES = 64, VALUE = 0x5a };
    const mend_driver *driver = probe->driver;
    uint8_t seen[BYTES] = {0};
    uint8_t expected[BYTES];
    memset(expected, VALUE, sizeof(expected));
    const mend_status status =
        driver->fill(driver, probe->address, VALUE, probe->page_bytes, probe->stream);
    const mend_status copied =
        driver->copy(driver, (uint64_t)(uintptr_t)seen, probe->address, BYTES, probe->stream);
    /* The copy may be in flight in any case: nothing is unmapped before it is done. */
    const mend_status waited = wait_for(probe, probe->stream);
    MEND_TRY_CALL(status);
    MEND_TRY_CALL(copied);
    MEND_TRY_CALL(waited);
    return memcmp(seen, expected, BYTES) == 0 ? MEND_DRIVER_OK : MEND_DRIVER_NOT_SUPPORTED;
}

static mend_status try_mapping(memory_probe *probe)
{
    const mend_driver *driver = probe->driver;
    mend_chunk_properties properties = {.device = probe->device};
    MEND_TRY_CALL(driver->stream_create(driver, &probe->stream));
    MEND_TRY_CALL(driver->reserve(driver, probe->page_bytes, 0, 0, &probe->address));
    MEND_TRY_CALL(map_chunk(probe, &properties));
    return pass_bytes(probe);
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

/* `beside` are share types that work, with which a pool would ask for this one. */
static mend_status probe_properties(memory_probe *probe, const char *what, int share_type,
                                    int beside, bool rdma, bool *works)
{
    mend_chunk_properties properties = {
        .device = probe->device, .share_types = share_type | beside, .rdma = rdma};
    if (!*works) {
        return MEND_DRIVER_OK; /* the driver does not even claim it */
    }
    mend_status status =
        conclude(probe, what, try_properties(probe, &properties, share_type), works);
    drop_chunk(probe);
    return status;
}

/* Nothing that needs chunks works without them. */
static void drop_claims(mend_device_info *info)
{
    info->share_file_descriptor = info->share_fabric = info->rdma = false;
}

static mend_status probe_all(memory_probe *probe, mend_device_info *info)
{
    mend_status status =
        conclude_needed(probe, "virtual memory", try_mapping(probe), &info->virtual_memory);
    drop_chunk(probe);
    if (status != MEND_DRIVER_OK || !info->virtual_memory) {
        drop_claims(info);
        return status;
    }
    MEND_TRY_CALL(probe_properties(probe, "sharing by file descriptor", MEND_SHARE_FILE_DESCRIPTOR,
                                   MEND_SHARE_NONE, false, &info->share_file_descriptor));
    int beside = info->share_file_descriptor ? MEND_SHARE_FILE_DESCRIPTOR : MEND_SHARE_NONE;
    MEND_TRY_CALL(probe_properties(probe, "sharing by fabric handle", MEND_SHARE_FABRIC, beside,
                                   false, &info->share_fabric));
    return probe_properties(probe, "RDMA", MEND_SHARE_NONE, MEND_SHARE_NONE, true, &info->rdma);
}

mend_status mend_cuda_probe_memory(const mend_driver *driver, int device, mend_device_info *info,
                                   bool *is_final)
{
    const mend_cu_functions *functions = mend_cuda_functions(driver);
    mend_chunk_properties plain = {.device = device};
    mend_cu_chunk_properties wanted = mend_cuda_chunk_properties(&plain);
    size_t page_bytes = 0;
    size_t recommended_bytes = 0;
    mend_status status =
        functions->cuMemGetAllocationGranularity(&page_bytes, &wanted, MEND_CU_GRANULARITY_MINIMUM);
    if (status == MEND_DRIVER_OK) {
        status = functions->cuMemGetAllocationGranularity(&recommended_bytes, &wanted,
                                                          MEND_CU_GRANULARITY_RECOMMENDED);
    }
    memory_probe probe = {
        .driver = driver, .device_name = info->name, .device = device, .page_bytes = page_bytes};
    if (status != MEND_DRIVER_OK || !info->virtual_memory) {
        drop_claims(info);
        status = status != MEND_DRIVER_OK ? status : MEND_DRIVER_NOT_SUPPORTED;
        *is_final = false;
        return conclude(&probe, "virtual memory", status, &info->virtual_memory);
    }
    info->granularity_bytes = page_bytes;
    info->recommended_bytes = recommended_bytes;
    status = probe_all(&probe, info);
    clean_up(&probe);
    *is_final = info->virtual_memory && !probe.was_short;
    return status;
}
