/*
 * The driver's own allocators, one call for each block. There is no portable way to ask how much
 * they reserve, so the sum of live blocks is used.
 */
#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "lab/peers/models.h"

typedef struct cuda_malloc {
    mend_peer peer;
    mend_peer_config config;
    bool is_async;
    mend_mutex mutex;
    mend_pointer_map live; /* from a block's address to its size */
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
