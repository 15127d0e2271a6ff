/*
 * The driver's own allocators, one call for each block. No query gives the reserved memory of
 * cudaMalloc, so the sum of live blocks is used. The pool of cudaMallocAsync reports its memory. It
 * retains freed memory, as programs are advised to set it, until the driver needs it elsewhere.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "base/pointer_map.h"
#include "base/thread.h"
#include "driver/driver.h"
#include "lab/peers/cuda_pool.h"
#include "lab/peers/models.h"

typedef struct cuda_malloc {
    mend_peer peer;
    mend_peer_config config;
    bool is_async;
    mend_mutex mutex;
    mend_pointer_map live; /* from a block's address to its size */
    mend_cu_pool pool;     /* NULL: it cannot be asked */
#define X(name, version, suffix, parameters) mend_status(*name) parameters;
    MEND_CU_POOL_FUNCTIONS(X)
#undef X
    mend_peer_usage usage;
} cuda_malloc;

static cuda_malloc *self_of(mend_peer *peer)
{
    return MEND_CONTAINER_OF(peer, cuda_malloc, peer);
}

static mend_status call_alloc(const cuda_malloc *self, uint64_t size_bytes, mend_stream stream,
                              uint64_t *address)
{
    const mend_driver *driver = self->config.driver;
    return self->is_async ? driver->async_alloc(driver, size_bytes, stream, address)
                          : driver->plain_alloc(driver, size_bytes, address);
}

static mend_status call_free(const cuda_malloc *self, uint64_t address, mend_stream stream)
{
    const mend_driver *driver = self->config.driver;
    return self->is_async ? driver->async_free(driver, address, stream)
                          : driver->plain_free(driver, address);
}

static mend_result fail(mend_status status, const char *call)
{
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_fail_driver(MEND_ERROR_DRIVER, call, status, mend_status_name(status),
                            "the driver's allocator failed");
}

/* ---- the driver's pool ----------------------------------------------------------------------- */

/* Finds the pool and lets it retain freed memory. Without it the sum of live blocks is used. */
static void open_pool(cuda_malloc *self)
{
    uint64_t everything = UINT64_MAX;
    uint64_t none = 0;
    mend_cu_pool pool = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = NULL;
#define X(name, version, suffix, parameters)                                                       \
    found = library != NULL ? dlsym(library, #name suffix) : NULL;                                 \
    if (found == NULL) {                                                                           \
        return;                                                                                    \
    }                                                                                              \
    memcpy(&self->name, &found, sizeof(found));
    MEND_CU_POOL_FUNCTIONS(X)
#undef X
    if (self->cuDeviceGetDefaultMemPool(&pool, self->config.device) == MEND_DRIVER_OK &&
        self->cuMemPoolSetAttribute(pool, MEND_CU_POOL_RELEASE_THRESHOLD, &everything) ==
            MEND_DRIVER_OK) {
        self->cuMemPoolSetAttribute(pool, MEND_CU_POOL_RESERVED_HIGH, &none);
        self->pool = pool;
    }
}

/* Releases retained memory of the pool: the next allocator has the same device. */
static mend_status close_pool(const cuda_malloc *self)
{
    uint64_t nothing = 0;
    if (self->pool == NULL) {
        return MEND_DRIVER_OK;
    }
    mend_status status = self->config.driver->context_synchronize(self->config.driver);
    self->cuMemPoolSetAttribute(self->pool, MEND_CU_POOL_RELEASE_THRESHOLD, &nothing);
    mend_status trimmed = self->cuMemPoolTrimTo(self->pool, 0);
    return status == MEND_DRIVER_OK ? trimmed : status;
}

static uint64_t pool_bytes(const cuda_malloc *self, mend_cu_pool_attribute attribute,
                           uint64_t otherwise)
{
    uint64_t bytes = 0;
    mend_status status = self->cuMemPoolGetAttribute(self->pool, attribute, &bytes);
    return status == MEND_DRIVER_OK ? bytes : otherwise;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Checks that the block fits under the limit, and reserves its entry in the table. */
static mend_result begin_alloc(cuda_malloc *self, uint64_t size_bytes)
{
    mend_peer_usage *usage = &self->usage;
    uint64_t limit_bytes = self->config.limit_bytes;
    if (limit_bytes != 0 &&
        (size_bytes > limit_bytes || usage->reserved_bytes > limit_bytes - size_bytes)) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_pointer_map_reserve(&self->live) ? MEND_OK : MEND_ERROR_OUT_OF_HOST_MEMORY;
}

static mend_result cuda_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                              uint64_t *address)
{
    cuda_malloc *self = self_of(peer);
    mend_peer_usage *usage = &self->usage;
    mend_mutex_lock(&self->mutex);
    mend_result result = begin_alloc(self, size_bytes);
    if (result == MEND_OK) {
        mend_status status = call_alloc(self, size_bytes, stream, address);
        result = status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuMemAlloc");
    }
    if (result == MEND_OK) {
        mend_pointer_map_insert(&self->live, *address, (void *)(uintptr_t)size_bytes);
        usage->reserved_bytes += size_bytes;
        usage->peak_reserved_bytes =
            mend_max_u64(usage->peak_reserved_bytes, usage->reserved_bytes);
    }
    mend_mutex_unlock(&self->mutex);
    return result;
}

static mend_result cuda_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    cuda_malloc *self = self_of(peer);
    mend_mutex_lock(&self->mutex);
    void *size = mend_pointer_map_remove(&self->live, address);
    self->usage.reserved_bytes -= (uintptr_t)size;
    mend_status status = call_free(self, address, stream);
    mend_mutex_unlock(&self->mutex);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuMemFree");
}

static void cuda_get_usage(mend_peer *peer, mend_peer_usage *usage)
{
    cuda_malloc *self = self_of(peer);
    mend_mutex_lock(&self->mutex);
    *usage = self->usage;
    if (self->pool != NULL) {
        usage->reserved_bytes = pool_bytes(self, MEND_CU_POOL_RESERVED, usage->reserved_bytes);
        usage->peak_reserved_bytes =
            pool_bytes(self, MEND_CU_POOL_RESERVED_HIGH, usage->peak_reserved_bytes);
    }
    mend_mutex_unlock(&self->mutex);
}

static mend_result cuda_destroy(mend_peer *peer)
{
    cuda_malloc *self = self_of(peer);
    mend_status status = MEND_DRIVER_OK;
    for (size_t i = 0; i < self->live.capacity; i++) {
        if (self->live.entries[i].key != 0) {
            mend_status freed = call_free(self, self->live.entries[i].key, NULL);
            status = status == MEND_DRIVER_OK ? freed : status;
        }
    }
    mend_status closed = close_pool(self);
    status = status == MEND_DRIVER_OK ? closed : status;
    mend_pointer_map_clear(&self->live);
    mend_mutex_destroy(&self->mutex);
    free(self);
    return status == MEND_DRIVER_OK ? MEND_OK : fail(status, "cuMemFree");
}

static const mend_peer_operations cuda_operations = {cuda_alloc, cuda_free, cuda_get_usage,
                                                     cuda_destroy};

static mend_result create(const mend_peer_config *config, bool is_async, mend_peer **peer)
{
    cuda_malloc *self = calloc(1, sizeof(cuda_malloc));
    if (self == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    self->peer.operations = &cuda_operations;
    self->config = *config;
    self->is_async = is_async;
    mend_mutex_init(&self->mutex, MEND_RANK_POOL);
    mend_pointer_map_init(&self->live);
    if (is_async) {
        open_pool(self);
    }
    *peer = &self->peer;
    return MEND_OK;
}

mend_result mend_peer_create_cuda_malloc(const mend_peer_config *config, mend_peer **peer)
{
    return create(config, false, peer);
}

mend_result mend_peer_create_cuda_malloc_async(const mend_peer_config *config, mend_peer **peer)
{
    return create(config, true, peer);
}
