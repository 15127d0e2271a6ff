/* Default pools: one for each device, created at first use, and their configs. */
#include "hooks/hooks.h"

#include "alloc/fast.h"
#include "mend/mend_frameworks.h"
#include "pool/pool.h"

mend_result mend_devices_check(int device, bool may_be_all)
{
    bool is_fine =
        (device >= 0 && device < MEND_DEVICE_LIMIT) || (may_be_all && device == MEND_ALL_DEVICES);
    return is_fine ? MEND_OK
                   : mend_fail(MEND_ERROR_NO_DEVICE,
                               "device %d does not exist; default pools are for devices 0 to "
                               "%d%s",
                               device, MEND_DEVICE_LIMIT - 1,
                               may_be_all ? ", or MEND_ALL_DEVICES" : "");
}

mend_device_range mend_devices_range(int device)
{
    return device == MEND_ALL_DEVICES ? (mend_device_range){0, MEND_DEVICE_LIMIT}
                                      : (mend_device_range){device, device + 1};
}

mend_pool *mend_devices_pool(int device)
{
    assert(device >= 0);
    assert(device < MEND_DEVICE_LIMIT);
    return atomic_load_explicit(&mend_process_own_devices.device[device].pool,
                                memory_order_acquire);
}

mend_result mend_devices_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    (void)config;
    mend_process_devices *devices = &mend_process_own_devices;
    if (moment == MEND_POOL_ENDED && pool->device < MEND_DEVICE_LIMIT) {
        mend_mutex_lock(&devices->mutex);
        if (mend_devices_pool(pool->device) == pool) {
            atomic_store(&devices->device[pool->device].pool, NULL);
        }
        mend_mutex_unlock(&devices->mutex);
    }
    return MEND_OK;
}

/* ---- configs --------------------------------------------------------------------------------- */

/* The config for the pool of a device, and the number of config changes so far. */
static uint64_t read_config(int device, mend_pool_config *config)
{
    mend_process_devices *devices = &mend_process_own_devices;
    mend_mutex_lock(&devices->mutex);
    *config = devices->device[device].config;
    uint64_t change = devices->config_changes;
    mend_mutex_unlock(&devices->mutex);
    if (config->struct_size == 0) {
        *config = (mend_pool_config)MEND_POOL_CONFIG_INIT;
    }
    config->device = device;
    return change;
}

static bool have_pool(const mend_process_devices *devices, mend_device_range range)
{
    for (int i = range.first; i < range.end; i++) {
        if (atomic_load_explicit(&devices->device[i].pool, memory_order_relaxed) != NULL) {
            return true;
        }
    }
    return false;
}

int mend_has_pool(int device)
{
    const bool is_known = device == MEND_ALL_DEVICES || (device >= 0 && device < MEND_DEVICE_LIMIT);
    return is_known && have_pool(&mend_process_own_devices, mend_devices_range(device));
}

mend_result mend_set_default_config(int device, const mend_pool_config *given)
{
    mend_pool_config config = {0};
    MEND_TRY(mend_devices_check(device, true));
    if (given != NULL) {
        MEND_TRY(mend_pool_copy_config(given, &config));
    }
    if (mend_process_prepare() != MEND_OK) {
        return mend_publish(mend_no_host_memory("a config"));
    }
    const mend_device_range range = mend_devices_range(device);
    mend_process_devices *devices = &mend_process_own_devices;
    mend_mutex_lock(&devices->mutex);
    bool is_late = have_pool(devices, range);
    for (int i = range.first; i < range.end && !is_late; i++) {
        devices->device[i].config = config;
    }
    devices->config_changes++;
    mend_mutex_unlock(&devices->mutex);
    return is_late ? mend_pool_invalid("mend_set_default_config: the default pool exists already")
                   : MEND_OK;
}

/* ---- the pools ------------------------------------------------------------------------------- */

/* As mend_pool_for_device. The device is one of the table. Runs without a lock, because creating a
 * pool calls the driver and the log. Threads that come at the same time create one pool each. All
 * but one destroy theirs, which is still empty, and so does one whose config has changed. */
static mend_result find_pool(int device, mend_pool **pool)
{
    mend_process_devices *devices = &mend_process_own_devices;
    while ((*pool = mend_devices_pool(device)) == NULL) {
        mend_pool_config config;
        uint64_t change = read_config(device, &config);
        mend_pool *made;
        MEND_TRY(mend_pool_create(&config, &made));
        mend_mutex_lock(&devices->mutex);
        const bool is_first =
            mend_devices_pool(device) == NULL && devices->config_changes == change;
        if (is_first) {
            atomic_store_explicit(&devices->device[device].pool, made, memory_order_release);
        }
        mend_mutex_unlock(&devices->mutex);
        if (!is_first) {
            mend_pool_destroy(made);
        }
    }
    return MEND_OK;
}

mend_result mend_pool_for_device(int device, mend_pool **pool)
{
    MEND_INVALID_IF(pool == NULL, "mend_pool_for_device: pool is NULL");
    mend_pool *found;
    MEND_TRY(mend_devices_check(device, false));
    MEND_TRY(find_pool(device, &found));
    MEND_TRY(mend_pool_check_process(found));
    *pool = found;
    return MEND_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

mend_result mend_current_device(int *device)
{
    MEND_INVALID_IF(device == NULL, "mend_current_device: device is NULL");
    mend_pool_config config;
    read_config(0, &config);
    MEND_TRY(config.driver == NULL ? mend_cuda_driver(&config.driver) : MEND_OK);
    int found = 0;
    mend_status status = config.driver->context_device(config.driver, &found);
    /* Without a context CUDA's runtime would make the first device current. */
    if (status != MEND_DRIVER_OK && status != MEND_DRIVER_INVALID_CONTEXT) {
        return mend_publish(mend_refused(config.driver, MEND_ERROR_DRIVER, MEND_CALL_context_device,
                                         status,
                                         "the driver does not say which device is current"));
    }
    MEND_TRY(mend_devices_check(found, false));
    *device = found;
    return MEND_OK;
}

static int device_of(void *ctx)
{
    return (int)(intptr_t)ctx;
}

int mend_devices_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    int device = device_of(ctx);
    mend_pool *pool = NULL;
    mend_result result = device == MEND_ALL_DEVICES ? mend_current_device(&device) : MEND_OK;
    result = result == MEND_OK ? find_pool(device, &pool) : result;
    return (int)(result == MEND_OK ? mend_alloc(pool, size_bytes, stream, pointer) : result);
}

/* The default pool that a pointer belongs to, among all devices or only `device`. NULL: none. */
static mend_pool *pool_around(int device, const void *pointer)
{
    const mend_device_range range = mend_devices_range(device);
    for (int i = range.first; i < range.end; i++) {
        mend_pool *pool = mend_devices_pool(i);
        if (pool != NULL && (device == i || mend_pool_holds(pool, pointer))) {
            return pool;
        }
    }
    return NULL;
}

static mend_result foreign(const void *pointer)
{
    return mend_fail(MEND_ERROR_FOREIGN_POINTER, "%p is not memory of a default pool", pointer);
}

mend_result mend_pool_free_untagged(mend_pool *pool, void *pointer, mend_block_info *info)
{
    info->base = NULL;
    MEND_TRY(mend_pool_look(pool));
    mend_span *span = mend_heap_find(&pool->heap, (uint64_t)(uintptr_t)pointer);
    if (span == NULL) {
        return mend_pool_leave(pool, MEND_OK);
    }
    *info = mend_pool_describe(pool, span);
    if (span->tag != 0) {
        return mend_pool_leave(pool, MEND_OK);
    }
    if (pool->checks != NULL || mend_pool_may_be_captured(pool, span->stream)) {
        mend_heap_unlock(&pool->heap);
        return mend_free(pool, info->base, info->stream); /* which asks without the lock */
    }
    const mend_order order = {.stream = span->stream};
    MEND_TRY(mend_pool_check_to_free(pool));
    return mend_pool_leave(pool, mend_heap_free(&pool->heap, span, span->address, order));
}

int mend_devices_free(void *ctx, void *pointer, size_t size_bytes, mend_stream stream)
{
    (void)size_bytes;
    mend_pool *pool = pool_around(device_of(ctx), pointer);
    return (int)(pool != NULL ? mend_free(pool, pointer, stream) : foreign(pointer));
}

int mend_devices_record_stream(void *ctx, void *pointer, mend_stream stream)
{
    mend_pool *pool = pool_around(device_of(ctx), pointer);
    return (int)(pool != NULL ? mend_record_stream(pool, pointer, stream) : foreign(pointer));
}

int mend_devices_block_info(void *ctx, const void *pointer, mend_block_info *info)
{
    mend_pool *pool = pool_around(device_of(ctx), pointer);
    return (int)(pool != NULL ? mend_get_block_info(pool, pointer, info) : foreign(pointer));
}

int mend_devices_trim(void *ctx, uint64_t keep_bytes, mend_trim_mode mode, uint64_t *released_bytes)
{
    mend_result result = MEND_OK;
    *released_bytes = 0;
    const mend_device_range range = mend_devices_range(device_of(ctx));
    for (int i = range.first; i < range.end; i++) {
        uint64_t bytes = 0;
        mend_pool *pool = mend_devices_pool(i);
        mend_result here = pool != NULL ? mend_trim(pool, keep_bytes, mode, &bytes) : MEND_OK;
        result = result == MEND_OK ? here : result;
        *released_bytes += bytes;
    }
    return (int)result;
}

mend_result mend_device_unregister_stream(int device, mend_stream stream)
{
    MEND_TRY(mend_devices_check(device, true));
    mend_result result = MEND_OK;
    const mend_device_range range = mend_devices_range(device);
    for (int i = range.first; i < range.end; i++) {
        mend_pool *pool = mend_devices_pool(i);
        mend_result here = pool != NULL ? mend_unregister_stream(pool, stream) : MEND_OK;
        result = result == MEND_OK ? here : result;
    }
    return result;
}
