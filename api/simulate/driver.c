/*
 * The driver's entry points that programs of the runtime take beside it: virtual memory, which
 * PyTorch's expandable segments are made of, and a few questions. They are found by
 * cudaGetDriverEntryPoint, or by symbol in this library, which has the driver's file name.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "driver/cuda_abi.h"
#include "simulate/device.h"
#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/machine.h"

enum { MOST_ACCESSES = 16 };
enum { SHARE_TYPES = MEND_SHARE_FILE_DESCRIPTOR | MEND_SHARE_FABRIC };

/* ---- virtual memory -------------------------------------------------------------------------- */

SIMULATE_EXPORT int cuMemAddressReserve(mend_cu_address *address, size_t bytes, size_t alignment,
                                        mend_cu_address hint, unsigned long long flags)
{
    uint64_t reserved = 0;
    int error = simulate_enter_if(address != NULL && flags == 0);
    if (error == CUDA_SUCCESS) {
        error = SIMULATE_DRIVER(reserve, bytes, alignment, hint, &reserved);
    }
    if (error == CUDA_SUCCESS) {
        *address = reserved;
    }
    return error;
}

SIMULATE_EXPORT int cuMemAddressFree(mend_cu_address address, size_t bytes)
{
    int error = simulate_enter();
    return error == CUDA_SUCCESS ? SIMULATE_DRIVER(address_free, address, bytes) : error;
}

SIMULATE_EXPORT int cuMemGetAllocationGranularity(size_t *bytes,
                                                  const mend_cu_chunk_properties *properties,
                                                  mend_cu_granularity kind)
{
    (void)kind;
    if (bytes == NULL || properties == NULL || properties->type != MEND_CU_ALLOCATION_PINNED) {
        return CUDA_INVALID_VALUE;
    }
    *bytes = (size_t)2 << 20;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuMemCreate(mend_cu_chunk *chunk, size_t bytes,
                                const mend_cu_chunk_properties *properties,
                                unsigned long long flags)
{
    mend_chunk_handle handle = 0;
    int error = simulate_enter_if(chunk != NULL && properties != NULL && flags == 0 &&
                                  properties->type == MEND_CU_ALLOCATION_PINNED &&
                                  properties->location.type == MEND_CU_LOCATION_DEVICE);
    if (error == CUDA_SUCCESS && (properties->share_types & ~SHARE_TYPES) != 0) {
        error = CUDA_NOT_SUPPORTED;
    }
    if (error == CUDA_SUCCESS) {
        const mend_chunk_properties wanted = {.device = properties->location.id,
                                              .share_types = properties->share_types};
        error = SIMULATE_DRIVER(create, bytes, &wanted, &handle);
    }
    if (error == CUDA_SUCCESS) {
        *chunk = handle;
    }
    return error;
}

SIMULATE_EXPORT int cuMemRelease(mend_cu_chunk chunk)
{
    int error = simulate_enter();
    return error == CUDA_SUCCESS ? SIMULATE_DRIVER(release, chunk) : error;
}

SIMULATE_EXPORT int cuMemMap(mend_cu_address address, size_t bytes, size_t offset,
                             mend_cu_chunk chunk, unsigned long long flags)
{
    int error = flags != 0 ? CUDA_INVALID_VALUE : simulate_enter();
    return error == CUDA_SUCCESS ? SIMULATE_DRIVER(map, address, bytes, offset, chunk) : error;
}

SIMULATE_EXPORT int cuMemUnmap(mend_cu_address address, size_t bytes)
{
    int error = simulate_enter();
    return error == CUDA_SUCCESS ? SIMULATE_DRIVER(unmap, address, bytes) : error;
}

SIMULATE_EXPORT int cuMemSetAccess(mend_cu_address address, size_t bytes,
                                   const mend_cu_access *accesses, size_t count)
{
    int devices[MOST_ACCESSES];
    int error = simulate_enter_if(accesses != NULL && count != 0 && count <= MOST_ACCESSES);
    for (size_t i = 0; error == CUDA_SUCCESS && i < count; i++) {
        bool is_sound = accesses[i].location.type == MEND_CU_LOCATION_DEVICE &&
                        (accesses[i].flags == MEND_CU_ACCESS_READ ||
                         accesses[i].flags == MEND_CU_ACCESS_READ_WRITE) &&
                        accesses[i].flags == accesses[0].flags;
        error = is_sound ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
        devices[i] = accesses[i].location.id;
    }
    if (error != CUDA_SUCCESS) {
        return error;
    }
    mend_access access =
        accesses[0].flags == MEND_CU_ACCESS_READ ? MEND_ACCESS_READ : MEND_ACCESS_READ_WRITE;
    return SIMULATE_DRIVER(set_access, address, bytes, devices, (int)count, access);
}

SIMULATE_EXPORT int cuMemExportToShareableHandle(void *shared, mend_cu_chunk chunk,
                                                 mend_cu_share_type type, unsigned long long flags)
{
    int error = flags != 0 || shared == NULL ? CUDA_INVALID_VALUE : simulate_enter();
    return error == CUDA_SUCCESS ? SIMULATE_DRIVER(export_handle, chunk, type, shared) : error;
}

SIMULATE_EXPORT int cuMemImportFromShareableHandle(mend_cu_chunk *chunk, void *shared,
                                                   mend_cu_share_type type)
{
    int descriptor = (int)(intptr_t)shared; /* by value, unlike any other type */
    mend_chunk_handle handle = 0;
    int error = chunk == NULL ? CUDA_INVALID_VALUE : simulate_enter();
    if (error == CUDA_SUCCESS && (type & ~SHARE_TYPES) != 0) {
        error = CUDA_NOT_SUPPORTED;
    }
    if (error == CUDA_SUCCESS) {
        const void *source = type == MEND_SHARE_FILE_DESCRIPTOR ? &descriptor : shared;
        error = SIMULATE_DRIVER(import_handle, source, type, &handle);
    }
    if (error == CUDA_SUCCESS) {
        *chunk = handle;
    }
    return error;
}

/* ---- questions ------------------------------------------------------------------------------- */

SIMULATE_EXPORT int cuInit(unsigned flags)
{
    if (flags != 0) {
        return CUDA_INVALID_VALUE;
    }
    simulate_initialize();
    return simulate_device_count() > 0 ? CUDA_SUCCESS : CUDA_NO_DEVICE;
}

SIMULATE_EXPORT int cuDriverGetVersion(int *version)
{
    *version = SIMULATE_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuDeviceGetCount(int *count)
{
    if (!simulate_is_initialized() || count == NULL) {
        return count == NULL ? CUDA_INVALID_VALUE : CUDA_NOT_INITIALIZED;
    }
    *count = simulate_device_count();
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuDeviceGet(mend_cu_device *device, int ordinal)
{
    if (!simulate_is_initialized()) {
        return CUDA_NOT_INITIALIZED;
    }
    if (ordinal < 0 || ordinal >= simulate_device_count()) {
        return CUDA_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuDeviceGetAttribute(int *value, mend_cu_attribute attribute,
                                         mend_cu_device device)
{
    if (value == NULL || device < 0 || device >= simulate_device_count()) {
        return value == NULL ? CUDA_INVALID_VALUE : CUDA_INVALID_DEVICE;
    }
    *value = simulate_attribute(attribute, device);
    return CUDA_SUCCESS;
}

/* ---- contexts: each device has its primary one ----------------------------------------------- */

SIMULATE_EXPORT int cuDevicePrimaryCtxGetState(mend_cu_device device, unsigned *flags,
                                               int *is_active)
{
    if (device < 0 || device >= simulate_device_count()) {
        return CUDA_INVALID_DEVICE;
    }
    *flags = 0;
    *is_active = 1;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuDevicePrimaryCtxRetain(mend_context *context, mend_cu_device device)
{
    int error = simulate_enter();
    if (error == CUDA_SUCCESS && (device < 0 || device >= simulate_here.device_count)) {
        error = CUDA_INVALID_DEVICE;
    }
    if (error == CUDA_SUCCESS) {
        *context = simulate_here.contexts[device];
    }
    return error;
}

SIMULATE_EXPORT int cuCtxGetCurrent(mend_context *context)
{
    int error = simulate_enter();
    if (error == CUDA_SUCCESS) {
        *context = simulate_here.contexts[simulate_current()];
    }
    return error;
}

SIMULATE_EXPORT int cuCtxSetCurrent(mend_context context)
{
    int error = simulate_enter();
    for (int i = 0; error == CUDA_SUCCESS && i < simulate_here.device_count; i++) {
        if (simulate_here.contexts[i] == context) {
            return simulate_select(i);
        }
    }
    return error != CUDA_SUCCESS ? error : CUDA_INVALID_VALUE;
}

SIMULATE_EXPORT int cuCtxGetDevice(mend_cu_device *device)
{
    *device = simulate_current();
    return CUDA_SUCCESS;
}

/* ---- found by name --------------------------------------------------------------------------- */

/* The entry point in place of a missing one. */
static int refuse(void)
{
    return CUDA_NOT_SUPPORTED;
}

/* Whether the name may be the driver's: cuda... and cublas... are the runtime's and cuBLAS's. */
static bool may_be_of_driver(const char *name)
{
    return strncmp(name, "cu", 2) == 0 && name[2] >= 'A' && name[2] <= 'Z';
}

/* The export of this name, or of its second version. */
static void *find_entry(const char *name)
{
    Dl_info here;
    char second[128];
    snprintf(second, sizeof(second), "%s_v2", name);
    void *library = may_be_of_driver(name) && dladdr((const void *)(uintptr_t)refuse, &here) != 0
                        ? dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                        : NULL;
    void *entry = library != NULL ? dlsym(library, name) : NULL;
    entry = library != NULL && entry == NULL ? dlsym(library, second) : entry;
    if (library != NULL) {
        dlclose(library);
    }
    return entry;
}

/* A program takes all entry points that it knows before it uses one, so a missing one is found too,
 * and returns NOT_SUPPORTED. */
SIMULATE_EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version,
                                        unsigned long long flags, int *status)
{
    enum { FOUND = 0, NOT_FOUND = 1 };
    (void)version, (void)flags;
    if (name == NULL || function == NULL) {
        return CUDA_INVALID_VALUE;
    }
    bool is_found = strncmp(name, "cu", 2) == 0;
    int (*refusal)(void) = is_found ? refuse : NULL;
    void *entry = find_entry(name);
    memcpy(function, entry != NULL ? (void *)&entry : (void *)&refusal, sizeof(*function));
    if (status != NULL) {
        *status = is_found ? FOUND : NOT_FOUND;
    }
    return is_found ? CUDA_SUCCESS : CUDA_NOT_FOUND;
}

SIMULATE_EXPORT int cuGetProcAddress(const char *name, void **function, int version,
                                     unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

/* A missing symbol shows in `status` alone. */
SIMULATE_EXPORT int cudaGetDriverEntryPoint(const char *name, void **function,
                                            unsigned long long flags, int *status)
{
    int error = cuGetProcAddress_v2(name, function, 0, flags, status);
    return simulate_answer(error == CUDA_NOT_FOUND ? CUDA_SUCCESS : error);
}

SIMULATE_EXPORT int cudaGetDriverEntryPointByVersion(const char *name, void **function,
                                                     unsigned version, unsigned long long flags,
                                                     int *status)
{
    (void)version;
    return cudaGetDriverEntryPoint(name, function, flags, status);
}
