/* Creation and destruction of a pool, and its configuration. */
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_OF_MS UINT64_C(1000000)

enum { LEAST_GUARD_BYTES = 16, REMAINS_BYTES = 896 };

/* Bytes. Memory of the driver's own has no page. Small ones round little. */
#define PASSED_PAGE_BYTES (64 * MEND_KIB)

mend_result mend_pool_copy_config(const mend_pool_config *given, mend_pool_config *config)
{
    *config = (mend_pool_config)MEND_POOL_CONFIG_INIT;
    return mend_pool_read_struct(given, "MEND_POOL_CONFIG_INIT", config, sizeof(*config));
}

/* The fields of a config that name the environment. */
typedef struct config_paths {
    char shared_limit_file[MEND_CONFIGURATION_PATH];
    char record[MEND_CONFIGURATION_PATH];
} config_paths;

/* Ends a path that is a part of the text, unless the program has `given` one. */
static void end_path(const char **path, const char *given, char copy[MEND_CONFIGURATION_PATH])
{
    if (given == NULL && *path != NULL) {
        const size_t length = strcspn(*path, ",");
        assert(length < MEND_CONFIGURATION_PATH);
        memcpy(copy, *path, length);
        copy[length] = 0;
        *path = copy;
    }
}

/* Fills the config from the program's, and from the environment where that has a default. */
static mend_result read_config(const mend_pool_config *given, mend_pool_config *config,
                               config_paths *paths, mend_observed *observed)
{
    MEND_TRY(mend_pool_copy_config(given, config));
    const mend_pool_config own = *config;
    MEND_TRY(mend_configuration_read(mend_process_variable("MEND_CONF"), config));
    end_path(&config->shared_limit_file, own.shared_limit_file, paths->shared_limit_file);
    end_path(&config->record, own.record, paths->record);
    const char *observe = config->observe != NULL ? config->observe : "";
    const size_t length = mend_configuration_read_observe(observe, observed);
    MEND_INVALID_IF(own.observe != NULL && observe[length] != '\0',
                    "mend_pool_config.observe is not top, poison, guard and a path that begins "
                    "with /, joined by commas");
    config->record = config->record != NULL ? config->record : mend_process_variable("MEND_RECORD");
    MEND_TRY(mend_configuration_check(config));
    MEND_INVALID_IF(config->device < 0, "mend_pool_config.device is negative");
    MEND_INVALID_IF(config->limit_percent < 0 || config->limit_percent > 100,
                    "mend_pool_config.limit_percent is not 0 to 100");
    MEND_INVALID_IF(config->limit_percent != 0 && config->limit_bytes != 0,
                    "mend_pool_config.limit_bytes and limit_percent are both set; set one of them");
    MEND_INVALID_IF(config->address_reservation_bytes > MEND_LARGEST_REQUEST_BYTES,
                    "mend_pool_config.address_reservation_bytes is above 2^60");
    return MEND_OK;
}

static mend_result open_device(const mend_driver *driver, int device, mend_device_info *info)
{
    int count;
    mend_answer answer = MEND_ANSWER(device_count, driver->device_count(driver, &count));
    if (answer.status == MEND_DRIVER_OK && device >= count) {
        return mend_fail(MEND_ERROR_NO_DEVICE, "device %d does not exist; the driver has %d",
                         device, count);
    }
    if (answer.status == MEND_DRIVER_OK) {
        answer = MEND_ANSWER(device_open, driver->device_open(driver, device, info));
    }
    if (answer.status != MEND_DRIVER_OK) {
        return mend_publish(mend_refused(
            driver,
            answer.status == MEND_DRIVER_NO_DEVICE ? MEND_ERROR_NO_DEVICE : MEND_ERROR_DRIVER,
            answer.call, answer.status, "device %d cannot be opened", device));
    }
    if (!info->virtual_memory) {
        mend_warn("device %d (%s) has no virtual memory management: its pool passes each request "
                  "through to the driver%s",
                  device, info->name,
                  info->memory_pools ? "'s own pool (cuMemAllocAsync)"
                                     : " (cuMemAlloc): a program with a cache of its own is faster "
                                       "without Mend (libmend.torch leaves PyTorch its own)");
    }
    return MEND_OK;
}

/* The most physical memory the pool may hold. */
static uint64_t limit_of(const mend_pool_config *config, const mend_device_info *info,
                         uint64_t default_limit_bytes)
{
    uint64_t total_bytes = info->total_bytes;
    uint64_t percent = (uint64_t)config->limit_percent;
    if (percent != 0) {
        return mend_percent_of(total_bytes, percent);
    }
    return config->limit_bytes == 0 ? default_limit_bytes
                                    : mend_min_u64(config->limit_bytes, total_bytes);
}

/* On a device that uses the host's memory a tenth stays free: if the pool took all of it, the
 * system would end this program or others. */
enum { LEFT_PARTS_OF_HOST = 10 };

/* The limit if the config has none. */
static mend_result find_default_limit(const mend_pool_config *config, const mend_device_info *info,
                                      uint64_t *limit_bytes)
{
    const mend_driver *driver = config->driver;
    const bool is_given = config->limit_bytes != 0 || config->limit_percent != 0;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    *limit_bytes = info->total_bytes;
    if (!info->integrated) {
        return MEND_OK;
    }
    mend_answer answer = MEND_ANSWER(context_push, driver->context_push(driver, info->context));
    if (answer.status == MEND_DRIVER_OK) {
        answer = MEND_ANSWER(memory_info, driver->memory_info(driver, &free_bytes, &total_bytes));
        driver->context_pop(driver);
    }
    if (answer.status != MEND_DRIVER_OK && is_given) {
        *limit_bytes = limit_of(config, info, 0);
        return MEND_OK;
    }
    if (answer.status != MEND_DRIVER_OK) {
        return mend_publish(
            mend_refused(driver, MEND_ERROR_DRIVER, answer.call, answer.status,
                         "the free memory of the host is not known, and no limit is given"));
    }
    free_bytes = mend_min_u64(free_bytes, info->total_bytes);
    *limit_bytes = free_bytes - free_bytes / LEFT_PARTS_OF_HOST;
    mend_log(MEND_LOG_INFO,
             "%s uses the memory of the host, of which %llu bytes are free: without a limit a pool "
             "takes %llu bytes at most",
             info->name, (unsigned long long)free_bytes, (unsigned long long)*limit_bytes);
    return MEND_OK;
}

static mend_heap_config heap_config_of(const mend_pool_config *config, int checks,
                                       const mend_device_info *info, uint64_t default_limit_bytes)
{
    const bool has_fabric = info->share_fabric && config->shareable == MEND_SHAREABLE_FABRIC;
    const int share_types =
        (info->share_file_descriptor ? MEND_SHARE_FILE_DESCRIPTOR : MEND_SHARE_NONE) |
        (has_fabric ? MEND_SHARE_FABRIC : MEND_SHARE_NONE);
    return (mend_heap_config){
        .device = config->device,
        .allow_stream_waits = config->allow_stream_waits >= 0,
        .allow_context_fences = config->allow_context_fences >= 0,
        .detect_destroyed_streams = config->detect_destroyed_streams == 1,
        .front_cache = checks == 0,
        .capture_checks = config->capture_checks >= 0,
        .rdma = config->rdma >= 0,
        .share_types = config->shareable > 0 ? share_types : MEND_SHARE_NONE,
        .peers = config->peers != MEND_PEERS_NONE ? config->peers : 0,
        .limit_bytes = limit_of(config, info, default_limit_bytes),
        .default_limit_bytes = default_limit_bytes,
        .soft_limit_bytes = config->soft_limit_bytes,
        .growth_percent = config->growth_percent,
        .guard_bytes = (checks & MEND_CHECK_GUARD) != 0 ? LEAST_GUARD_BYTES : 0,
        .in_one_chunk_bytes =
            config->in_one_chunk_bytes != 0 ? config->in_one_chunk_bytes : UINT64_MAX,
        .address_reservation_bytes = config->address_reservation_bytes,
        .strategy = config->strategy,
        .helpers = &mend_pool_helpers,
    };
}

static mend_result tell(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    mend_result result = MEND_OK;
    MEND_FEATURES_TRY(result, pool, pool, moment, config);
    return result;
}

/* Makes the heap on an open device: on its driver, or behind the quota for others. */
static mend_result make_heap(mend_pool *pool, const mend_pool_config *config,
                             mend_device_info *info)
{
    uint64_t default_limit_bytes = 0;
    mend_passes passes = MEND_PASSES_NONE;
    if (!info->virtual_memory || config->plain == 1) { /* no chunks, and none of their features */
        passes = config->plain != 1 && info->memory_pools ? MEND_PASSES_IN_ORDER : MEND_PASSES_ALL;
        info->granularity_bytes = info->recommended_bytes = PASSED_PAGE_BYTES;
        info->share_file_descriptor = info->share_fabric = info->rdma = info->multicast = false;
        info->peers = 0;
    }
    MEND_TRY(find_default_limit(config, info, &default_limit_bytes));
    mend_heap_config heap_config =
        heap_config_of(config, pool->observed.checks, info, default_limit_bytes);
    if (heap_config.limit_bytes < info->granularity_bytes) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "mend_pool_config.%s: a limit of %llu bytes is less than a page of device "
                         "%d, %llu bytes: nothing could ever be allocated",
                         config->limit_percent != 0 ? "limit_percent" : "limit_bytes",
                         (unsigned long long)heap_config.limit_bytes, config->device,
                         (unsigned long long)info->granularity_bytes);
    }
    heap_config.passes = passes;
    heap_config.home = &pool->member;
    mend_pool_config known = *config;
    known.limit_bytes = heap_config.limit_bytes;
    mend_result result = tell(pool, MEND_POOL_OPENS, &known);
    heap_config.others = pool->others;
    if (result == MEND_OK) {
        result = mend_heap_init(&pool->heap,
                                pool->others != NULL ? pool->others->driver : config->driver, info,
                                &heap_config);
    }
    if (result != MEND_OK) {
        (void)tell(pool, MEND_POOL_ENDED, NULL);
    }
    return result;
}

/* Opens the device, creates the heap on it, makes the pool known to others of the process, and
 * starts its threads. On failure nothing is left. */
static mend_result fill_pool(mend_pool *pool, const mend_pool_config *config)
{
    mend_device_info info = {0};
    MEND_TRY(open_device(config->driver, config->device, &info));
    pool->meets_peers = config->peers == 0;
    pool->driver = config->driver;
    pool->device = config->device;
    pool->idle_ns = config->idle_ms * NS_OF_MS;
    pool->generation = mend_process_generation();
    pool->member = (mend_process_member){.domain = config->driver, .device = config->device};
    mend_result result = make_heap(pool, config, &info);
    if (result != MEND_OK) {
        config->driver->device_close(config->driver, config->device);
        return result;
    }
    mend_list_init(&pool->callbacks.entries);
    pthread_cond_init(&pool->callbacks.changed, NULL);
    mend_process_join(&mend_process_pools, &pool->member);
    result = tell(pool, MEND_POOL_BEGINS, config);
    if (result != MEND_OK) {
        const mend_thread_error why = *mend_process_failure(); /* and not the failure of its end */
        mend_process_leave(&mend_process_pools, &pool->member);
        (void)tell(pool, MEND_POOL_IS_LEFT, NULL);
        mend_heap_destroy(&pool->heap);
        (void)tell(pool, MEND_POOL_ENDED, NULL);
        mend_callbacks_destroy(&pool->callbacks);
        config->driver->device_close(config->driver, config->device);
        *mend_process_failure() = why;
        return result;
    }
    mend_log(MEND_LOG_INFO, "pool on device %d (%s), limit %llu bytes", config->device, info.name,
             (unsigned long long)pool->heap.config.limit_bytes);
    return MEND_OK;
}

mend_result mend_pool_create(const mend_pool_config *given, mend_pool **pool)
{
    MEND_INVALID_IF(pool == NULL, "mend_pool_create: pool is NULL");
    mend_pool_config config;
    config_paths paths;
    mend_observed observed;
    MEND_TRY(read_config(given, &config, &paths, &observed));
    if (config.log_level != 0) {
        mend_log_show(config.log_level);
    }
    if (mend_process_prepare() != MEND_OK) {
        return mend_publish(mend_no_host_memory("a pool"));
    }
    (void)tell(NULL, MEND_POOL_IS_MADE, &config);
    if (config.driver == NULL) {
        MEND_TRY(mend_cuda_driver(&config.driver));
    }
    mend_pool *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return mend_publish(mend_no_host_memory("a pool"));
    }
    made->observed = observed;
    mend_result result = fill_pool(made, &config);
    if (result != MEND_OK) {
        free(made);
        return mend_publish(result);
    }
    *pool = made;
    return MEND_OK;
}

/* First the pool is left alone: its threads end, and no peer pool visits it any more. Remaining
 * blocks are then noted for the log, and the guards are read. If a capture forbids the wait for the
 * context, the pool joins the process again, and its threads start. Otherwise the heap is gone, and
 * the rest ends whatever the driver refuses. */
mend_result mend_pool_destroy(mend_pool *pool)
{
    if (pool == NULL) {
        return MEND_OK;
    }
    MEND_TRY(mend_pool_check_process(pool));
    mend_process_leave(&mend_process_pools, &pool->member);
    mend_owner owners[MEND_OWNERS_TOLD] = {0};
    char remains[REMAINS_BYTES] = "";
    mend_heap_lock(&pool->heap);
    const uint64_t blocks = MEND_HEAP_SUM(&pool->heap, live_blocks);
    if (blocks > 0) {
        snprintf(remains, sizeof(remains), "%llu live blocks", (unsigned long long)blocks);
    }
    MEND_FEATURES_CALL(describe, &pool->heap, NULL, owners, remains, sizeof(remains));
    mend_heap_unlock(&pool->heap);
    const mend_result damage = tell(pool, MEND_POOL_IS_LEFT, NULL);
    const mend_thread_error found = *mend_process_failure();
    mend_result result = mend_publish(mend_heap_destroy(&pool->heap));
    if (result == MEND_ERROR_CAPTURING) {
        mend_process_join(&mend_process_pools, &pool->member);
        const mend_result stays = tell(pool, MEND_POOL_STAYS, NULL);
        return stays == MEND_OK ? result : mend_publish(stays);
    }
    (void)tell(pool, MEND_POOL_ENDED, NULL);
    mend_status status = pool->driver->device_close(pool->driver, pool->device);
    if (result == MEND_OK && status != MEND_DRIVER_OK && status != MEND_DRIVER_DEINITIALIZED) {
        result = mend_publish(mend_refused(pool->driver, MEND_ERROR_DRIVER, MEND_CALL_device_close,
                                           status, "the device could not be closed"));
    }
    mend_graph_pools_free(&pool->heap);
    mend_callbacks_destroy(&pool->callbacks);
    if (damage != MEND_OK) {
        mend_warn("damage at the end of the pool on device %d: %s", pool->device, found.message);
    }
    if (damage != MEND_OK && result == MEND_OK) {
        *mend_process_failure() = found;
        result = mend_publish(damage);
    }
    if (remains[0] != '\0') {
        mend_warn("the pool on device %d was destroyed with %s", pool->device, remains);
    }
    pool->generation = 0;
    free(mend_process_bury(pool));
    return result;
}
