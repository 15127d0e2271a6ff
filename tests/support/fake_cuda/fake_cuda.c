/* The entry points of devices, contexts and memory, and the object behind all of them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/align.h"
#include "tests/support/fake_cuda/entries.h"

/* ---- the object -------------------------------------------------------------------------- */

static fake_cuda fake;
static mend_device_info fake_info;
static pthread_once_t fake_once = PTHREAD_ONCE_INIT;

static void create_fake(void)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = MEND_GIB;
    config.content = MEND_SIM_CONTENT_BYTES;
    config.has_rdma = 1;
    config.fabric = MEND_SIM_FABRIC_WORKS;
    config.copy_ns = 1; /* nothing is done before a wait for it */
    if (mend_sim_create(&config, &fake.sim) != MEND_OK) {
        fake.switches.init_status = MEND_DRIVER_NO_DEVICE;
        return;
    }
    fake.driver = mend_sim_driver(fake.sim);
    fake.switches.virtual_memory_claimed = true;
    fake.switches.everything_claimed = true;
    fake.switches.mappings_forget = getenv("MEND_FAKE_CUDA_FORGETS") != NULL;
    if (fake.driver->device_open(fake.driver, 0, &fake_info) == MEND_DRIVER_OK) {
        fake.driver->device_close(fake.driver, 0);
    }
}

fake_cuda *fake_cuda_get(void)
{
    pthread_once(&fake_once, create_fake);
    return &fake;
}

const mend_driver *inner(void)
{
    return fake_cuda_get()->driver;
}

/* ---- process and devices ----------------------------------------------------------------- */

mend_status cuInit(unsigned int flags)
{
    fake_cuda_get()->was_initialized = true;
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
    mend_status status = fake_cuda_get()->was_initialized ? inner()->device_count(inner(), count)
                                                          : MEND_DRIVER_NOT_INITIALIZED;
    *count += status == MEND_DRIVER_OK ? fake_cuda_get()->switches.more_devices : 0;
    return status;
}

mend_status cuDeviceGet(mend_cu_device *device, int ordinal)
{
    if (ordinal < 0 || ordinal > fake_cuda_get()->switches.more_devices) {
        return MEND_DRIVER_INVALID_DEVICE;
    }
    *device = ordinal;
    return MEND_DRIVER_OK;
}

mend_status cuDeviceCanAccessPeer(int *can, mend_cu_device device, mend_cu_device peer)
{
    const fake_cuda_switches *switches = &fake_cuda_get()->switches;
    if (device == peer) {
        return MEND_DRIVER_INVALID_DEVICE;
    }
    *can = peer == 0 && (switches->peers >> device & 1) != 0;
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
    case MEND_CU_INTEGRATED:
        *value = switches->is_integrated ? 1 : 0;
        return MEND_DRIVER_OK;
    case MEND_CU_COMPUTE_MAJOR:
        *value = 9;
        return MEND_DRIVER_OK;
    case MEND_CU_COMPUTE_MINOR:
        *value = 1;
        return MEND_DRIVER_OK;
    case MEND_CU_HAS_VIRTUAL_MEMORY:
        *value = switches->virtual_memory_claimed ? 1 : 0;
        return MEND_DRIVER_OK;
    case MEND_CU_HAS_FILE_DESCRIPTOR:
    case MEND_CU_HAS_HOST_REGISTER:
    case MEND_CU_HAS_RDMA:
    case MEND_CU_HAS_MEMORY_POOLS:
    case MEND_CU_HAS_FABRIC:
    case MEND_CU_HAS_MULTICAST:
        *value = switches->everything_claimed ? 1 : 0;
        return MEND_DRIVER_OK;
    default:
        return MEND_DRIVER_INVALID_VALUE;
    }
}

/* Whether the location is the device, or that node of the host which the device names. */
static bool is_location(const mend_cu_chunk_properties *properties)
{
    return properties->location.type == MEND_CU_LOCATION_DEVICE;
}

/* ---- contexts ---------------------------------------------------------------------------- */

mend_status cuDevicePrimaryCtxRetain(mend_context *context, mend_cu_device device)
{
    mend_device_info info;
    mend_status status = inner()->device_open(inner(), device, &info);
    if (status == MEND_DRIVER_OK) {
        *context = info.context;
    }
    return status;
}

FORWARD(cuDevicePrimaryCtxRelease, device_close, (mend_cu_device device), device)

mend_status cuCtxGetCurrent(mend_context *context)
{
    mend_stream_info info = {0};
    if (inner()->stream_get_info(inner(), NULL, &info) != MEND_DRIVER_OK) {
        info.context = NULL;
    }
    *context = info.context;
    return MEND_DRIVER_OK;
}

FORWARD(cuCtxPushCurrent, context_push, (mend_context context), context)

mend_status cuCtxPopCurrent(mend_context *context)
{
    cuCtxGetCurrent(context);
    return inner()->context_pop(inner());
}

mend_status cuCtxGetDevice(mend_cu_device *device)
{
    int found = 0;
    mend_status status = inner()->context_device(inner(), &found);
    *device = found;
    return status;
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

/* ---- addresses and chunks ---------------------------------------------------------------- */

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
    if (properties->type != MEND_CU_ALLOCATION_PINNED || !is_location(properties)) {
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

FORWARD(cuMemAddressFree, address_free, (mend_cu_address address, size_t bytes), address, bytes)

mend_status cuMemCreate(mend_cu_chunk *chunk, size_t bytes,
                        const mend_cu_chunk_properties *properties, unsigned long long flags)
{
    const fake_cuda_switches *switches = &fake_cuda_get()->switches;
    if (flags != 0 || properties->type != MEND_CU_ALLOCATION_PINNED || !is_location(properties) ||
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
    if ((wanted.share_types & MEND_SHARE_FABRIC) != 0 && switches->fabric_is_refused) {
        return MEND_DRIVER_NOT_PERMITTED;
    }
    mend_chunk_handle handle = 0;
    mend_status status = inner()->create(inner(), bytes, &wanted, &handle);
    *chunk = handle;
    return status;
}

FORWARD(cuMemRelease, release, (mend_cu_chunk chunk), chunk)

/* Memory of its own instead of the chunk's. */
static mend_status map_other(uint64_t address, uint64_t bytes)
{
    mend_chunk_properties properties = {0};
    mend_chunk_handle other = 0;
    mend_status status = inner()->create(inner(), bytes, &properties, &other);
    if (status == MEND_DRIVER_OK) {
        status = inner()->map(inner(), address, bytes, 0, other);
        inner()->release(inner(), other);
    }
    return status;
}

mend_status cuMemMap(mend_cu_address address, size_t bytes, size_t offset, mend_cu_chunk chunk,
                     unsigned long long flags)
{
    if (flags != 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    return fake_cuda_get()->switches.mappings_forget
               ? map_other(address, bytes)
               : inner()->map(inner(), address, bytes, offset, chunk);
}

FORWARD(cuMemUnmap, unmap, (mend_cu_address address, size_t bytes), address, bytes)

mend_status cuMemSetAccess(mend_cu_address address, size_t bytes, const mend_cu_access *access,
                           size_t count)
{
    enum { MOST_DEVICES = 8 };
    int devices[MOST_DEVICES];
    if (count == 0 || count > MOST_DEVICES) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    const bool is_reading = access[0].flags == MEND_CU_ACCESS_READ;
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != MEND_CU_LOCATION_DEVICE ||
            access[i].flags != (is_reading ? MEND_CU_ACCESS_READ : MEND_CU_ACCESS_READ_WRITE)) {
            return MEND_DRIVER_INVALID_VALUE;
        }
        devices[i] = access[i].location.id;
    }
    return inner()->set_access(inner(), address, bytes, devices, (int)count,
                               is_reading ? MEND_ACCESS_READ : MEND_ACCESS_READ_WRITE);
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

/* ---- the driver's own allocators --------------------------------------------------------- */

mend_status cuMemAlloc(mend_cu_address *address, size_t bytes)
{
    uint64_t allocated = 0;
    mend_status status = inner()->plain_alloc(inner(), bytes, &allocated);
    *address = allocated;
    return status;
}

FORWARD(cuMemFree, plain_free, (mend_cu_address address), address)

mend_status cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    return flags != 0 ? MEND_DRIVER_INVALID_VALUE : inner()->host_alloc(inner(), bytes, pointer);
}

FORWARD(cuMemFreeHost, host_free, (void *pointer), pointer)

/* Counted, and no more: to the simulation it is memory of the host like any other. */
mend_status cuMemHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    fake_cuda *self = fake_cuda_get();
    if (self->switches.register_refusal != MEND_DRIVER_OK) {
        return self->switches.register_refusal;
    }
    if (flags != 0 || bytes == 0 || (uintptr_t)pointer % 4096 != 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    self->registered++;
    return MEND_DRIVER_OK;
}

mend_status cuMemHostUnregister(void *pointer)
{
    fake_cuda *self = fake_cuda_get();
    if (self->switches.register_refusal != MEND_DRIVER_OK) {
        return self->switches.register_refusal;
    }
    if (pointer == NULL || self->registered == 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    self->registered--;
    return MEND_DRIVER_OK;
}

uint64_t fake_cuda_taken_bytes(void)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_status status = inner()->memory_info(inner(), &free_bytes, &total_bytes);
    return status == MEND_DRIVER_OK ? total_bytes - free_bytes : 0;
}

mend_status cuMemAllocAsync(mend_cu_address *address, size_t bytes, mend_stream stream)
{
    uint64_t allocated = 0;
    mend_status status = inner()->async_alloc(inner(), bytes, stream, &allocated);
    fake_cuda *self = fake_cuda_get();
    uint64_t taken_bytes = fake_cuda_taken_bytes();
    self->pool_high_bytes =
        taken_bytes > self->pool_high_bytes ? taken_bytes : self->pool_high_bytes;
    *address = allocated;
    return status;
}

FORWARD(cuMemFreeAsync, async_free, (mend_cu_address address, mend_stream stream), address, stream)
