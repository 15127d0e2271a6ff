/* Memory: of the device, by the runtime's own allocators. Of the host, pinned or registered. And
 * the kind of memory at an address. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/machine.h"

/* ---- of the device --------------------------------------------------------------------------- */

/* Allocates, in the order of a stream or, without one, at once. */
static int allocate(void **pointer, size_t bytes, const mend_stream *stream)
{
    uint64_t address = 0;
    int error = simulate_enter_if(pointer != NULL);
    if (error == CUDA_SUCCESS && bytes > 0) {
        const mend_driver *driver = simulate_here.driver;
        error = stream == NULL ? driver->plain_alloc(driver, bytes, &address)
                               : driver->async_alloc(driver, bytes, *stream, &address);
    }
    if (error == CUDA_SUCCESS) {
        *pointer = (void *)(uintptr_t)address;
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaMalloc(void **pointer, size_t bytes)
{
    return allocate(pointer, bytes, NULL);
}

SIMULATE_EXPORT int cudaMallocManaged(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(pointer, bytes);
}

SIMULATE_EXPORT int cudaFree(void *pointer)
{
    int error = simulate_enter();
    if (error == CUDA_SUCCESS && pointer != NULL) {
        error = SIMULATE_DRIVER(plain_free, (uint64_t)(uintptr_t)pointer);
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaMallocAsync(void **pointer, size_t bytes, mend_stream stream)
{
    return allocate(pointer, bytes, &stream);
}

SIMULATE_EXPORT int cudaFreeAsync(void *pointer, mend_stream stream)
{
    int error = simulate_enter();
    if (error == CUDA_SUCCESS && pointer != NULL) {
        uint64_t address = (uint64_t)(uintptr_t)pointer;
        error = SIMULATE_DRIVER(async_free, address, stream);
    }
    return simulate_answer(error);
}

/* ---- the runtime's pools: one for each device, which keeps nothing --------------------------- */

SIMULATE_EXPORT int cudaDeviceGetDefaultMemPool(void **pool, int device)
{
    if (pool == NULL || device < 0 || device >= simulate_device_count()) {
        return simulate_answer(pool == NULL ? CUDA_INVALID_VALUE : CUDA_INVALID_DEVICE);
    }
    *pool = (void *)(uintptr_t)(device + 1);
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaDeviceGetMemPool(void **pool, int device)
{
    return cudaDeviceGetDefaultMemPool(pool, device);
}

static int check_pool(const void *pool)
{
    uintptr_t number = (uintptr_t)pool;
    return number >= 1 && number <= (uintptr_t)simulate_device_count() ? CUDA_SUCCESS
                                                                       : CUDA_INVALID_VALUE;
}

SIMULATE_EXPORT int cudaMemPoolSetAttribute(void *pool, int attribute, void *value)
{
    (void)attribute;
    return simulate_answer(value == NULL ? CUDA_INVALID_VALUE : check_pool(pool));
}

/* All are 0: flags of a pool (attributes 1 to 3) have 4 bytes, sums of bytes have 8. */
SIMULATE_EXPORT int cudaMemPoolGetAttribute(void *pool, int attribute, void *value)
{
    int error = value == NULL ? CUDA_INVALID_VALUE : check_pool(pool);
    if (error == CUDA_SUCCESS) {
        memset(value, 0, attribute <= 3 ? sizeof(int) : sizeof(uint64_t));
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaMemPoolSetAccess(void *pool, const void *accesses, size_t count)
{
    return simulate_answer(accesses == NULL && count > 0 ? CUDA_INVALID_VALUE : check_pool(pool));
}

SIMULATE_EXPORT int cudaMemPoolTrimTo(void *pool, size_t least_bytes)
{
    (void)least_bytes;
    return simulate_answer(check_pool(pool));
}

/* ---- of the host ----------------------------------------------------------------------------- */

/* A range that was pinned or registered. */
typedef struct host_range {
    struct host_range *next;
    char *start;
    size_t bytes;
    bool is_pinned; /* allocated by the runtime, not registered */
} host_range;

static host_range *host_ranges;
static pthread_mutex_t host_mutex = PTHREAD_MUTEX_INITIALIZER;

static bool add_range(void *start, size_t bytes, bool is_pinned)
{
    host_range *range = malloc(sizeof(*range));
    if (range == NULL) {
        return false;
    }
    *range = (host_range){.start = start, .bytes = bytes, .is_pinned = is_pinned};
    pthread_mutex_lock(&host_mutex);
    range->next = host_ranges;
    host_ranges = range;
    pthread_mutex_unlock(&host_mutex);
    return true;
}

static bool remove_range(const void *start, bool is_pinned)
{
    host_range *found = NULL;
    pthread_mutex_lock(&host_mutex);
    for (host_range **at = &host_ranges; *at != NULL && found == NULL; at = &(*at)->next) {
        if ((*at)->start == start && (*at)->is_pinned == is_pinned) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&host_mutex);
    free(found);
    return found != NULL;
}

/* The start of the range that has the address. NULL: none. */
static const char *find_range(const void *pointer)
{
    const char *start = NULL;
    pthread_mutex_lock(&host_mutex);
    for (const host_range *at = host_ranges; at != NULL && start == NULL; at = at->next) {
        uintptr_t distance = (uintptr_t)pointer - (uintptr_t)at->start;
        start =
            (uintptr_t)pointer >= (uintptr_t)at->start && distance < at->bytes ? at->start : NULL;
    }
    pthread_mutex_unlock(&host_mutex);
    return start;
}

SIMULATE_EXPORT int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    int error = simulate_enter_if(pointer != NULL);
    if (error != CUDA_SUCCESS || bytes == 0) {
        if (error == CUDA_SUCCESS) {
            *pointer = NULL;
        }
        return simulate_answer(error);
    }
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes) != 0 || !add_range(memory, bytes, true)) {
        free(memory);
        return simulate_answer(CUDA_OUT_OF_MEMORY);
    }
    *pointer = memory;
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, 0);
}

SIMULATE_EXPORT int cudaFreeHost(void *pointer)
{
    if (pointer != NULL && !remove_range(pointer, true)) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    free(pointer);
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    if (pointer == NULL || bytes == 0) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    if (find_range(pointer) != NULL) {
        return simulate_answer(CUDA_REGISTERED);
    }
    return simulate_answer(add_range(pointer, bytes, false) ? CUDA_SUCCESS : CUDA_OUT_OF_MEMORY);
}

SIMULATE_EXPORT int cudaHostUnregister(void *pointer)
{
    return simulate_answer(remove_range(pointer, false) ? CUDA_SUCCESS : CUDA_NOT_REGISTERED);
}

SIMULATE_EXPORT int cudaHostGetDevicePointer(void **device_pointer, void *pointer, unsigned flags)
{
    (void)flags;
    if (device_pointer == NULL || find_range(pointer) == NULL) {
        return simulate_answer(CUDA_INVALID_VALUE);
    }
    *device_pointer = pointer;
    return CUDA_SUCCESS;
}

/* ---- what lies at an address ----------------------------------------------------------------- */

/* cudaPointerAttributes, as far as CUDA 12 and 13 agree. */
typedef struct pointer_attributes {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
} pointer_attributes;

enum { UNREGISTERED, OF_HOST, OF_DEVICE, NO_DEVICE_NUMBER = -2 };

SIMULATE_EXPORT int cudaPointerGetAttributes(pointer_attributes *attributes, const void *pointer)
{
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    int error = simulate_enter_if(attributes != NULL);
    if (error != CUDA_SUCCESS) {
        return simulate_answer(error);
    }
    void *same = (void *)(uintptr_t)pointer;
    *attributes = (pointer_attributes){.type = UNREGISTERED, .device = NO_DEVICE_NUMBER};
    mend_sim_look_up(simulate_here.sim, 0, (uint64_t)(uintptr_t)pointer, 1, &place);
    if (place.is_of_device && place.device >= 0) {
        *attributes = (pointer_attributes){OF_DEVICE, place.device, same, NULL};
    } else if (find_range(pointer) != NULL) {
        *attributes = (pointer_attributes){OF_HOST, simulate_current(), same, same};
    }
    return CUDA_SUCCESS;
}

/* CUpointer_attribute: the ones that distinguish virtual memory from cudaMalloc's. */
SIMULATE_EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    enum { MEMORY_TYPE = 2, DEVICE_POINTER = 3, DEVICE_ORDINAL = 9, IS_LEGACY_IPC_CAPABLE = 10 };
    enum { TYPE_DEVICE = 2 };
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    int error = value == NULL ? CUDA_INVALID_VALUE : simulate_enter();
    if (error != CUDA_SUCCESS) {
        return error;
    }
    mend_sim_look_up(simulate_here.sim, 0, address, 1, &place);
    if (!place.is_of_device || place.device < 0) {
        return CUDA_INVALID_VALUE;
    }
    switch (attribute) {
    case MEMORY_TYPE:
        *(int *)value = TYPE_DEVICE;
        return CUDA_SUCCESS;
    case DEVICE_POINTER: /* from the host's: the same */
        *(uint64_t *)value = address;
        return CUDA_SUCCESS;
    case DEVICE_ORDINAL:
        *(int *)value = place.device;
        return CUDA_SUCCESS;
    case IS_LEGACY_IPC_CAPABLE:
        *(unsigned char *)value = place.is_plain != 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_NOT_SUPPORTED;
    }
}
