/*
 * The pool: wires the rooms together behind the public header, checks arguments and takes the lock.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "driver/cuda.h"
#include "heap/heap.h"
#include "observe/statistics.h"
#include "pool/pool.h"

struct mend_pool {
    mend_mutex mutex;
    const mend_driver *driver;
    int device;
    mend_heap heap; /* guarded by mutex */
};

#define DEFAULT_SMALL_REQUEST_BYTES MEND_MIB

/* Sizes of a config above this are mistakes, and their sums would overflow. */
#define LARGEST_CONFIG_BYTES (UINT64_C(1) << 60)

static mend_result invalid(const char *what)
{
    return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s", what);
}

/* A copy of the caller's config, as long as the caller knows it; defaults for the rest. */
static mend_result read_config(const mend_pool_config *given, mend_pool_config *config)
{
    *config = (mend_pool_config)MEND_POOL_CONFIG_INIT;
    if (given == NULL) {
        return MEND_OK;
    }
    if (given->struct_size == 0) {
        return invalid("mend_pool_config.struct_size is 0: start from MEND_POOL_CONFIG_INIT");
    }
    if (given->struct_size > sizeof(*config)) {
        return invalid("mend_pool_config is of a newer version than the library");
    }
    memcpy(config, given, given->struct_size);
    if (config->device < 0) {
        return invalid("mend_pool_config.device is negative");
    }
    if (config->allow_stream_waits < -1 || config->allow_stream_waits > 1) {
        return invalid("mend_pool_config.allow_stream_waits is not -1, 0 or 1");
    }
    if (config->chunk_bytes > LARGEST_CONFIG_BYTES ||
        config->small_chunk_bytes > LARGEST_CONFIG_BYTES ||
        config->reserve_bytes > LARGEST_CONFIG_BYTES) {
        return invalid("mend_pool_config: a size of chunks or of reservations is above 2^60");
    }
    return MEND_OK;
}

static mend_result open_device(const mend_driver *driver, int device, mend_device_info *info)
{
    int count;
    mend_status status = driver->device_count(driver, &count);
    if (status == MEND_DRIVER_OK && device >= count) {
        return mend_fail(MEND_ERROR_NO_DEVICE, "device %d was asked for; there are %d", device,
                         count);
    }
    mend_driver_call call = MEND_CALL_device_count;
    if (status == MEND_DRIVER_OK) {
        call = MEND_CALL_device_open;
        status = driver->device_open(driver, device, info);
    }
    if (status != MEND_DRIVER_OK) {
        return mend_fail_driver(
            status == MEND_DRIVER_NO_DEVICE ? MEND_ERROR_NO_DEVICE : MEND_ERROR_DRIVER,
            mend_driver_call_name(call), status, driver->status_name(driver, status),
            "device %d cannot be opened", device);
    }
    if (!info->virtual_memory) {
        driver->device_close(driver, device);
        return mend_fail(MEND_ERROR_NOT_SUPPORTED,
                         "device %d (%s) has no virtual memory management", device, info->name);
    }
    return MEND_OK;
}

static mend_heap_config heap_config_of(const mend_pool_config *config, const mend_device_info *info)
{
    uint64_t limit = config->limit_bytes;
    return (mend_heap_config){
        .device = config->device,
        .allow_stream_waits = config->allow_stream_waits >= 0,
        .limit_bytes = limit == 0 ? info->total_bytes : mend_min_u64(limit, info->total_bytes),
        .chunk_bytes = config->chunk_bytes,
        .small_chunk_bytes = config->small_chunk_bytes,
        .small_request_bytes =
            config->small_request_bytes ? config->small_request_bytes : DEFAULT_SMALL_REQUEST_BYTES,
        .reserve_bytes = config->reserve_bytes,
    };
}

mend_result mend_pool_create(const mend_pool_config *given, mend_pool **pool)
{
    if (pool == NULL) {
        return invalid("mend_pool_create: pool is NULL");
    }
    mend_pool_config config;
    mend_result result = read_config(given, &config);
    if (result == MEND_OK && config.driver == NULL) {
        result = mend_cuda_driver(&config.driver);
    }
    if (result != MEND_OK) {
        return result;
    }
    mend_pool *made = malloc(sizeof(*made));
    if (made == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a pool");
    }
    mend_device_info info = {0};
    result = open_device(config.driver, config.device, &info);
    if (result != MEND_OK) {
        free(made);
        return result;
    }
    mend_heap_config heap_config = heap_config_of(&config, &info);
    result = mend_heap_init(&made->heap, config.driver, &info, &heap_config);
    if (result != MEND_OK) {
        config.driver->device_close(config.driver, config.device);
        free(made);
        return result;
    }
    mend_mutex_init(&made->mutex, MEND_RANK_POOL);
    made->driver = config.driver;
    made->device = config.device;
    mend_log(MEND_LOG_INFO, "pool on device %d (%s), limit %llu bytes", config.device, info.name,
             (unsigned long long)heap_config.limit_bytes);
    *pool = made;
    return MEND_OK;
}

mend_result mend_pool_destroy(mend_pool *pool)
{
    if (pool == NULL) {
        return MEND_OK;
    }
    mend_result result = mend_heap_destroy(&pool->heap);
    mend_status status = pool->driver->device_close(pool->driver, pool->device);
    if (result == MEND_OK && status != MEND_DRIVER_OK) {
        result = mend_fail_driver(MEND_ERROR_DRIVER, mend_driver_call_name(MEND_CALL_device_close),
                                  status, pool->driver->status_name(pool->driver, status),
                                  "the device could not be closed");
    }
    mend_mutex_destroy(&pool->mutex);
    free(pool);
    return result;
}

/* Takes the lock of a pool that can still work. */
static mend_result enter(mend_pool *pool)
{
    mend_mutex_lock(&pool->mutex);
    mend_status broken =
        pool->heap.broken != MEND_DRIVER_OK ? pool->heap.broken : pool->heap.streams.broken;
    if (broken == MEND_DRIVER_OK) {
        return MEND_OK;
    }
    mend_mutex_unlock(&pool->mutex);
    return mend_fail_driver(MEND_ERROR_DEVICE_LOST, "", broken,
                            pool->driver->status_name(pool->driver, broken),
                            "the context was broken by an earlier failure");
}

static mend_result leave(mend_pool *pool, mend_result result)
{
    mend_mutex_unlock(&pool->mutex);
    return result;
}

mend_result mend_alloc_aligned(mend_pool *pool, uint64_t size_bytes, uint64_t alignment_bytes,
                               mend_stream stream, void **pointer)
{
    if (pool == NULL || pointer == NULL) {
        return invalid("mend_alloc: pool or pointer is NULL");
    }
    mend_result result = enter(pool);
    if (result != MEND_OK) {
        return result;
    }
    uint64_t address;
    result = mend_heap_alloc(&pool->heap, size_bytes, alignment_bytes, stream, &address);
    if (result == MEND_OK) {
        *pointer = (void *)(uintptr_t)address;
    }
    return leave(pool, result);
}

mend_result mend_alloc(mend_pool *pool, uint64_t size_bytes, mend_stream stream, void **pointer)
{
    return mend_alloc_aligned(pool, size_bytes, MEND_GRANULE_BYTES, stream, pointer);
}

mend_result mend_free(mend_pool *pool, void *pointer, mend_stream stream)
{
    if (pool == NULL) {
        return invalid("mend_free: pool is NULL");
    }
    if (pointer == NULL) {
        return MEND_OK;
    }
    mend_result result = enter(pool);
    return result != MEND_OK
               ? result
               : leave(pool, mend_heap_free(&pool->heap, (uint64_t)(uintptr_t)pointer, stream));
}

mend_result mend_record_stream(mend_pool *pool, void *pointer, mend_stream stream)
{
    if (pool == NULL || pointer == NULL) {
        return invalid("mend_record_stream: pool or pointer is NULL");
    }
    if (stream == MEND_NO_STREAM) {
        return invalid("mend_record_stream: MEND_NO_STREAM is no stream");
    }
    mend_result result = enter(pool);
    return result != MEND_OK
               ? result
               : leave(pool,
                       mend_heap_record_stream(&pool->heap, (uint64_t)(uintptr_t)pointer, stream));
}

mend_result mend_forget_stream(mend_pool *pool, mend_stream stream)
{
    if (pool == NULL || stream == MEND_NO_STREAM) {
        return invalid("mend_forget_stream: pool is NULL, or MEND_NO_STREAM");
    }
    mend_result result = enter(pool);
    return result != MEND_OK ? result : leave(pool, mend_heap_forget_stream(&pool->heap, stream));
}

mend_result mend_get_block_info(mend_pool *pool, const void *pointer, mend_block_info *info)
{
    if (pool == NULL || pointer == NULL || info == NULL) {
        return invalid("mend_get_block_info: pool, pointer or info is NULL");
    }
    if (info->struct_size == 0) {
        return invalid("mend_block_info.struct_size is 0: start from MEND_BLOCK_INFO_INIT");
    }
    mend_mutex_lock(&pool->mutex);
    const mend_span *span = mend_heap_span_at(&pool->heap, (uint64_t)(uintptr_t)pointer);
    if (span == NULL) {
        return leave(
            pool, mend_fail(MEND_ERROR_FOREIGN_POINTER, "%p is not memory of this pool", pointer));
    }
    if (!span->live) {
        return leave(pool, mend_fail(MEND_ERROR_DOUBLE_FREE, "%p lies in free memory", pointer));
    }
    mend_block_info all = {.struct_size = info->struct_size,
                           .base = (void *)(uintptr_t)span->address,
                           .requested_bytes = span->requested_bytes,
                           .usable_bytes = span->size_bytes,
                           .stream = span->stream,
                           .pool = pool};
    memcpy(info, &all, mend_min_u64(info->struct_size, sizeof(all)));
    return leave(pool, MEND_OK);
}

mend_result mend_trim(mend_pool *pool, uint64_t keep_bytes, uint64_t *released_bytes)
{
    if (pool == NULL) {
        return invalid("mend_trim: pool is NULL");
    }
    mend_result result = enter(pool);
    if (result != MEND_OK) {
        return result;
    }
    uint64_t bytes = 0;
    result = mend_heap_trim(&pool->heap, keep_bytes, &bytes);
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = bytes;
    }
    return leave(pool, result);
}

mend_result mend_set_limit(mend_pool *pool, uint64_t limit_bytes)
{
    if (pool == NULL) {
        return invalid("mend_set_limit: pool is NULL");
    }
    mend_result result = enter(pool);
    return result != MEND_OK ? result : leave(pool, mend_heap_set_limit(&pool->heap, limit_bytes));
}

mend_result mend_get_stats(mend_pool *pool, mend_stats *stats)
{
    if (pool == NULL || stats == NULL) {
        return invalid("mend_get_stats: pool or stats is NULL");
    }
    size_t struct_size = stats->struct_size;
    if (struct_size == 0) {
        return invalid("mend_stats.struct_size is 0: start from MEND_STATS_INIT");
    }
    mend_stats all = {.struct_size = struct_size};
    mend_mutex_lock(&pool->mutex);
    mend_observe_statistics(&pool->heap, &all);
    mend_mutex_unlock(&pool->mutex);
    memcpy(stats, &all, mend_min_u64(struct_size, sizeof(all)));
    return MEND_OK;
}

mend_result mend_reset_peak_stats(mend_pool *pool)
{
    if (pool == NULL) {
        return invalid("mend_reset_peak_stats: pool is NULL");
    }
    mend_mutex_lock(&pool->mutex);
    mend_observe_reset_peaks(&pool->heap);
    mend_mutex_unlock(&pool->mutex);
    return MEND_OK;
}

bool mend_pool_audit(mend_pool *pool, char finding[MEND_AUDIT_FINDING_BYTES])
{
    mend_mutex_lock(&pool->mutex);
    bool is_right = mend_observe_audit(&pool->heap, finding);
    mend_mutex_unlock(&pool->mutex);
    return is_right;
}
