/* Devices: their number, the current one, their properties, and which reach each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/cuda_abi.h"
#include "simulate/device.h"
#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/machine.h"
#include "simulate/properties.h"

/* Bit n of [d]: device d was given access to the memory of device n. */
static uint64_t peers_enabled[SIMULATE_MOST_DEVICES];

/* ---- which ----------------------------------------------------------------------------------- */

SIMULATE_EXPORT int cudaGetDeviceCount(int *count)
{
    if (count == NULL) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    simulate_initialize();
    *count = simulate_device_count();
    return simulate_answer(*count > 0 ? CUDA_SUCCESS : CUDA_NO_DEVICE);
}

SIMULATE_EXPORT int cudaGetDevice(int *device)
{
    if (device == NULL) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    *device = simulate_current();
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaSetDevice(int device)
{
    return simulate_answer(simulate_select(device));
}

SIMULATE_EXPORT int cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags;
    (void)flags;
    return simulate_answer(device < 0 || device >= simulate_device_count() ? CUDA_INVALID_DEVICE
                                                                           : CUDA_SUCCESS);
}

SIMULATE_EXPORT int cudaDeviceSynchronize(void)
{
    int error = simulate_enter();
    return simulate_answer(error == CUDA_SUCCESS
                               ? simulate_here.driver->context_synchronize(simulate_here.driver)
                               : error);
}

/* ---- what they are --------------------------------------------------------------------------- */

/* The place of a member in the structures of CUDA 12 and 13, its attribute, and its value.
 */
typedef struct property {
    size_t at[2]; /* ABSENT: that structure does not have it */
    size_t bytes;
    int attribute;
    uint64_t value;
} property;
enum { ABSENT = 4096 };

static const property properties_of_all[] = {
#define X(member, type, in_12, in_13, attribute, value)                                            \
    {{in_12, in_13}, sizeof(type), attribute, (uint64_t)(value)},
    SIMULATE_PROPERTIES(X)
#undef X
#define X(member, type, in_12, attribute, value)                                                   \
    {{in_12, ABSENT}, sizeof(type), attribute, (uint64_t)(value)},
        SIMULATE_PROPERTIES_OF_12(X)
#undef X
#define X(attribute, value) {{ABSENT, ABSENT}, 0, attribute, (uint64_t)(value)},
            SIMULATE_ATTRIBUTES(X)
#undef X
};

static const struct {
#define X(member, in_12, in_13) size_t member[2];
    SIMULATE_OWN_PROPERTIES(X)
#undef X
} own_properties = {
#define X(member, in_12, in_13) .member = {in_12, in_13},
    SIMULATE_OWN_PROPERTIES(X)
#undef X
};

enum { CUDA_12, CUDA_13 };
enum { NAME_BYTES = 256, UUID_BYTES = 16 };

static const char *device_name(void)
{
    const char *name = getenv("MEND_SIMULATE_NAME");
    return name != NULL && *name != '\0' ? name : "Mend simulated GPU";
}

/* The value of an attribute: the environment's, or the usual one. */
static uint64_t value_of(int attribute, uint64_t usual)
{
    const char *text = getenv("MEND_SIMULATE_ATTRIBUTES");
    while (text != NULL && *text != '\0') {
        char *end = NULL;
        long number = strtol(text, &end, 10);
        if (end == text || *end != '=') {
            break;
        }
        unsigned long long value = strtoull(end + 1, &end, 10);
        if (number == attribute) {
            return value;
        }
        text = *end == ',' ? end + 1 : NULL;
    }
    return usual;
}

static void fill_uuid(char *uuid, int device)
{
    const char bytes[UUID_BYTES] = {'m', 'e', 'n', 'd', [15] = (char)(device + 1)};
    memcpy(uuid, bytes, sizeof(bytes));
}

static void fill_properties(char *properties, int version, int device, size_t memory_bytes)
{
    const size_t bytes[] = {SIMULATE_PROPERTIES_BYTES_12, SIMULATE_PROPERTIES_BYTES_13};
    memset(properties, 0, bytes[version]);
    for (size_t i = 0; i < sizeof(properties_of_all) / sizeof(*properties_of_all); i++) {
        const property *one = &properties_of_all[i];
        if (one->at[version] != ABSENT) {
            uint64_t value = value_of(one->attribute, one->value);
            memcpy(properties + one->at[version], &value, one->bytes); /* low bytes first */
        }
    }
    snprintf(properties + own_properties.name[version], NAME_BYTES, "%s", device_name());
    fill_uuid(properties + own_properties.uuid[version], device);
    memcpy(properties + own_properties.totalGlobalMem[version], &memory_bytes,
           sizeof(memory_bytes));
    memcpy(properties + own_properties.pciBusID[version], &device, sizeof(device));
}

static int check_device(const void *output, int device)
{
    int error = simulate_enter_if(output != NULL);
    return error == CUDA_SUCCESS && (device < 0 || device >= simulate_here.device_count)
               ? CUDA_INVALID_DEVICE
               : error;
}

static int get_properties(void *properties, int version, int device)
{
    int error = check_device(properties, device);
    if (error == CUDA_SUCCESS) {
        fill_properties(properties, version, device, simulate_here.memory_bytes);
    }
    return simulate_answer(error);
}

/* As programs of CUDA 12 call it. */
SIMULATE_EXPORT int cudaGetDeviceProperties_v2(void *properties, int device)
{
    return get_properties(properties, CUDA_12, device);
}

/* As programs of CUDA 13 call it. */
SIMULATE_EXPORT int cudaGetDeviceProperties(void *properties, int device)
{
    return get_properties(properties, CUDA_13, device);
}

int simulate_attribute(int attribute, int device)
{
    if (attribute == SIMULATE_PCI_BUS_ATTRIBUTE) {
        return device;
    }
    for (size_t i = 0; i < sizeof(properties_of_all) / sizeof(*properties_of_all); i++) {
        if (properties_of_all[i].attribute == attribute) {
            return (int)value_of(attribute, properties_of_all[i].value);
        }
    }
    return attribute == MEND_CU_HAS_FABRIC && simulate_has_fabric();
}

SIMULATE_EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    if (value == NULL || device < 0 || device >= simulate_device_count()) {
        return simulate_answer(value == NULL ? CUDA_INVALID_VALUE : CUDA_INVALID_DEVICE);
    }
    *value = simulate_attribute(attribute, device);
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaDriverGetVersion(int *version)
{
    if (version == NULL) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    *version = SIMULATE_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

/* The version of a program's own runtime is unknown here. It may be as new as the driver. */
SIMULATE_EXPORT int cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

/* As the driver has them, each alone. */
SIMULATE_EXPORT int cuDeviceGetName(char *name, int bytes, int device)
{
    bool is_sound = name != NULL && bytes > 0;
    if (!is_sound || device < 0 || device >= simulate_device_count()) {
        return is_sound ? CUDA_INVALID_DEVICE : CUDA_INVALID_VALUE;
    }
    snprintf(name, (size_t)bytes, "%s", device_name());
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuDeviceGetUuid_v2(char *uuid, int device)
{
    if (uuid == NULL || device < 0 || device >= simulate_device_count()) {
        return uuid != NULL ? CUDA_INVALID_DEVICE : CUDA_INVALID_VALUE;
    }
    fill_uuid(uuid, device);
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    int error = check_device(bytes, device);
    if (error == CUDA_SUCCESS) {
        *bytes = simulate_here.memory_bytes;
    }
    return error;
}

SIMULATE_EXPORT int cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    if (text == NULL || bytes < 13 || device < 0 || device >= simulate_device_count()) {
        return simulate_answer(text == NULL || bytes < 13 ? CUDA_INVALID_VALUE
                                                          : CUDA_INVALID_DEVICE);
    }
    snprintf(text, (size_t)bytes, "0000:%02x:00.0", (unsigned)device);
    return CUDA_SUCCESS;
}

/* ---- what they have -------------------------------------------------------------------------- */

SIMULATE_EXPORT int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    uint64_t free_now = 0;
    uint64_t total = 0;
    int error = simulate_enter_if(free_bytes != NULL && total_bytes != NULL);
    if (error == CUDA_SUCCESS) {
        error = SIMULATE_DRIVER(memory_info, &free_now, &total);
    }
    if (error == CUDA_SUCCESS) {
        *free_bytes = free_now;
        *total_bytes = total;
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaDeviceGetLimit(size_t *value, int limit)
{
    (void)limit;
    if (value == NULL) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    *value = 1024;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaDeviceSetLimit(int limit, size_t value)
{
    (void)limit;
    (void)value;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaProfilerStart(void)
{
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaProfilerStop(void)
{
    return CUDA_SUCCESS;
}

/* ---- which reach each other ------------------------------------------------------------------ */

SIMULATE_EXPORT int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    int count = simulate_device_count();
    if (can == NULL) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    if (device < 0 || peer < 0 || device >= count || peer >= count) {
        return simulate_answer(CUDA_INVALID_DEVICE);
    }
    *can = device != peer;
    return CUDA_SUCCESS;
}

static int change_peer(int peer, bool enable)
{
    int current = simulate_current();
    if (peer < 0 || peer >= simulate_device_count() || peer == current) {
        return CUDA_INVALID_DEVICE;
    }
    uint64_t bit = UINT64_C(1) << peer;
    uint64_t former = enable ? __atomic_fetch_or(&peers_enabled[current], bit, __ATOMIC_RELAXED)
                             : __atomic_fetch_and(&peers_enabled[current], ~bit, __ATOMIC_RELAXED);
    bool was_enabled = (former & bit) != 0;
    if (was_enabled == enable) {
        return enable ? CUDA_PEER_ENABLED : CUDA_PEER_NOT_ENABLED;
    }
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return simulate_answer(flags != 0 ? CUDA_INVALID_VALUE : change_peer(peer, true));
}

SIMULATE_EXPORT int cudaDeviceDisablePeerAccess(int peer)
{
    return simulate_answer(change_peer(peer, false));
}
