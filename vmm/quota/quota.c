/* The quota of a pool on a device that others use too: a decorator of the driver's table. It leaves
 * a part of the device's memory free, and keeps to a limit that pools of other processes share. A
 * creation beyond either is refused as if the device had no more memory, and memory_info answers
 * accordingly. So all steps of a pool on a full device work here too. */
#include "quota/quota.h"

#include <poll.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/system.h"
#include "base/thread.h"
#include "pool/pool.h"

/* How often it looks whether others have given memory back. */
enum { LOOK_MS = 1 };

static void unlock(mend_quota *quota)
{
    if (quota->others.has_members && quota->slot.is_broken) {
        atomic_store_explicit(&quota->others.is_lost, true, memory_order_relaxed);
    }
    mend_mutex_unlock(&quota->mutex);
}

/* ---- the calls within the quota -------------------------------------------------------------- */

/* A handle as the key of a pointer map, which spreads multiples of 512: it is a small number on
 * some devices, an address on others. */
static uint64_t key_of(mend_chunk_handle handle)
{
    assert(handle != 0);
    return handle << 9 | handle >> 55;
}

static mend_status free_bytes_of(const mend_quota *quota, uint64_t *free_bytes,
                                 uint64_t *total_bytes)
{
    return quota->pass.inner->memory_info(quota->pass.inner, free_bytes, total_bytes);
}

/* Whether the device keeps enough free. Where the driver does not say, it decides itself. */
static bool leaves_enough(const mend_quota *quota, uint64_t size_bytes)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    return quota->others.min_free_bytes == 0 ||
           free_bytes_of(quota, &free_bytes, &total_bytes) != MEND_DRIVER_OK ||
           (free_bytes >= size_bytes && free_bytes - size_bytes >= quota->others.min_free_bytes);
}

/* Claims the size of a future creation. True without a shared limit file. */
static bool claim(mend_quota *quota, mend_pointer_map *sizes, uint64_t size_bytes)
{
    if (!quota->others.has_members) {
        return true;
    }
    mend_mutex_lock(&quota->mutex);
    bool has_room = mend_pointer_map_promise(sizes);
    bool is_claimed = has_room && mend_shared_limit_file_claim(&quota->slot, size_bytes);
    if (has_room && !is_claimed) {
        mend_pointer_map_end_promise(sizes);
    }
    unlock(quota);
    return is_claimed;
}

/* The claimed memory was created, and has this key. 0: it was refused. */
static void settle(mend_quota *quota, mend_pointer_map *sizes, uint64_t key, uint64_t size_bytes)
{
    if (!quota->others.has_members) {
        return;
    }
    mend_mutex_lock(&quota->mutex);
    mend_pointer_map_end_promise(sizes);
    if (key != 0) {
        mend_pointer_map_insert(sizes, key, (void *)(uintptr_t)size_bytes);
    } else {
        mend_shared_limit_file_give(&quota->slot, size_bytes);
    }
    unlock(quota);
}

/* The driver has released the memory with this key. None was claimed if it was imported. */
static void give(mend_quota *quota, mend_pointer_map *sizes, uint64_t key)
{
    if (!quota->others.has_members) {
        return;
    }
    mend_mutex_lock(&quota->mutex);
    mend_shared_limit_file_give(&quota->slot, (uintptr_t)mend_pointer_map_remove(sizes, key));
    unlock(quota);
}

static mend_status quota_create(const mend_driver *driver, uint64_t size_bytes,
                                const mend_chunk_properties *properties, mend_chunk_handle *handle)
{
    mend_quota *quota = driver->state;
    if (!leaves_enough(quota, size_bytes) || !claim(quota, &quota->sizes, size_bytes)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_chunk_handle made = 0;
    mend_status status =
        quota->pass.inner->create(quota->pass.inner, size_bytes, properties, &made);
    settle(quota, &quota->sizes, status == MEND_DRIVER_OK ? key_of(made) : 0, size_bytes);
    if (status == MEND_DRIVER_OK) {
        *handle = made;
    }
    return status;
}

static mend_status quota_release(const mend_driver *driver, mend_chunk_handle handle)
{
    mend_quota *quota = driver->state;
    mend_status status = quota->pass.inner->release(quota->pass.inner, handle);
    if (status == MEND_DRIVER_OK) {
        give(quota, &quota->sizes, key_of(handle));
    }
    return status;
}

/* Memory of the driver's own: in its pool in the order of the stream, or not, without one. */
static mend_status quota_alloc(mend_quota *quota, uint64_t size_bytes, bool is_in_order,
                               mend_stream stream, uint64_t *address)
{
    const mend_driver *inner = quota->pass.inner;
    if (!leaves_enough(quota, size_bytes) || !claim(quota, &quota->plain_sizes, size_bytes)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    uint64_t made = 0;
    const mend_status status = is_in_order ? inner->async_alloc(inner, size_bytes, stream, &made)
                                           : inner->plain_alloc(inner, size_bytes, &made);
    settle(quota, &quota->plain_sizes, status == MEND_DRIVER_OK ? made : 0, size_bytes);
    if (status == MEND_DRIVER_OK) {
        *address = made;
    }
    return status;
}

static mend_status quota_plain_alloc(const mend_driver *driver, uint64_t size_bytes,
                                     uint64_t *address)
{
    return quota_alloc(driver->state, size_bytes, false, NULL, address);
}

static mend_status quota_async_alloc(const mend_driver *driver, uint64_t size_bytes,
                                     mend_stream stream, uint64_t *address)
{
    return quota_alloc(driver->state, size_bytes, true, stream, address);
}

/* Others may have it only once the driver has taken it back, and may have the address then. */
static mend_status quota_plain_free(const mend_driver *driver, uint64_t address)
{
    mend_quota *quota = driver->state;
    MEND_TRY_CALL(quota->pass.inner->plain_free(quota->pass.inner, address));
    give(quota, &quota->plain_sizes, address);
    return MEND_DRIVER_OK;
}

static mend_status quota_async_free(const mend_driver *driver, uint64_t address, mend_stream stream)
{
    mend_quota *quota = driver->state;
    MEND_TRY_CALL(quota->pass.inner->async_free(quota->pass.inner, address, stream));
    give(quota, &quota->plain_sizes, address);
    return MEND_DRIVER_OK;
}

static mend_status quota_memory_info(const mend_driver *driver, uint64_t *free_bytes,
                                     uint64_t *total_bytes)
{
    mend_quota *quota = driver->state;
    uint64_t bytes = 0;
    uint64_t all_bytes = 0;
    MEND_TRY_CALL(free_bytes_of(quota, &bytes, &all_bytes));
    mend_mutex_lock(&quota->mutex);
    const uint64_t kept_bytes = mend_min_u64(bytes, quota->others.min_free_bytes);
    quota->others.kept_bytes = kept_bytes;
    bytes -= kept_bytes;
    if (quota->others.has_members) {
        bytes = mend_min_u64(bytes, mend_shared_limit_file_look(&quota->slot, 0).room_bytes);
    }
    unlock(quota);
    *free_bytes = bytes;
    *total_bytes = all_bytes;
    return MEND_DRIVER_OK;
}

/* ---- for the pool ---------------------------------------------------------------------------- */

static mend_quota *of(mend_others *others)
{
    return MEND_CONTAINER_OF(others, mend_quota, others);
}

static mend_wants ask(mend_others *others)
{
    mend_quota *quota = of(others);
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_wants wants = {0};
    if (others->min_free_bytes > 0 &&
        free_bytes_of(quota, &free_bytes, &total_bytes) == MEND_DRIVER_OK &&
        free_bytes < others->min_free_bytes) {
        wants.bytes = others->min_free_bytes - free_bytes;
    }
    if (others->has_members) {
        mend_mutex_lock(&quota->mutex);
        mend_raise_u64(&wants.bytes,
                       mend_shared_limit_file_wanted_by_others(&quota->slot, &wants.newest));
        unlock(quota);
    }
    return wants;
}

static void offer(mend_others *others, uint64_t idle_bytes, bool gives_back, uint64_t answered)
{
    mend_quota *quota = of(others);
    if (others->has_members) {
        mend_mutex_lock(&quota->mutex);
        mend_shared_limit_file_offer(&quota->slot, idle_bytes, gives_back, answered);
        unlock(quota);
    }
}

static bool wait_for_room(mend_others *others, uint64_t room_bytes)
{
    mend_quota *quota = of(others);
    if (!others->has_members) {
        return false;
    }
    bool gave = false;
    bool goes_on = true;
    const uint64_t end_ms = mend_now_ms() + MEND_OTHERS_PATIENCE_MS;
    mend_mutex_lock(&quota->mutex);
    quota->wanted_bytes += room_bytes;
    const uint64_t before_bytes = mend_shared_limit_file_look(&quota->slot, 0).room_bytes;
    const uint64_t want = mend_shared_limit_file_want(&quota->slot, quota->wanted_bytes);
    while (goes_on) {
        const mend_limit_view view = mend_shared_limit_file_look(&quota->slot, want);
        const bool has_room = view.room_bytes >= room_bytes;
        gave = has_room || view.room_bytes > before_bytes;
        goes_on = !has_room && view.offered_bytes > 0 && mend_now_ms() < end_ms;
        if (goes_on) {
            unlock(quota);
            (void)poll(NULL, 0, LOOK_MS); /* other processes run by the real clock */
            mend_mutex_lock(&quota->mutex);
        }
    }
    quota->wanted_bytes -= room_bytes;
    mend_shared_limit_file_want(&quota->slot, quota->wanted_bytes);
    unlock(quota);
    return gave;
}

static void tell_lost(mend_others *others, int device)
{
    if (!atomic_exchange(&of(others)->is_told, true)) {
        mend_warn("device %d: the shared limit file is damaged: its pools no longer share one "
                  "limit, and each has only its own. Name a new file in shared_limit_file",
                  device);
    }
}

mend_result mend_quota_open(mend_quota *quota, const mend_driver *inner, uint64_t min_free_bytes,
                            const char *path, uint64_t limit_bytes)
{
    *quota = (mend_quota){.others = {.driver = &quota->pass.table,
                                     .min_free_bytes = min_free_bytes,
                                     .ask = ask,
                                     .offer = offer,
                                     .wait = wait_for_room,
                                     .tell_lost = tell_lost}};
    mend_passing_init(&quota->pass, inner);
    quota->pass.table.create = quota_create;
    quota->pass.table.release = quota_release;
    quota->pass.table.plain_alloc = quota_plain_alloc;
    quota->pass.table.plain_free = quota_plain_free;
    quota->pass.table.async_alloc = quota_async_alloc;
    quota->pass.table.async_free = quota_async_free;
    quota->pass.table.memory_info = quota_memory_info;
    mend_mutex_init(&quota->mutex, MEND_RANK_DRIVER);
    mend_pointer_map_init(&quota->sizes);
    mend_pointer_map_init(&quota->plain_sizes);
    mend_result result =
        path != NULL ? mend_shared_limit_file_open(path, limit_bytes, &quota->slot) : MEND_OK;
    quota->others.has_members = path != NULL && result == MEND_OK;
    return result;
}

void mend_quota_close(mend_quota *quota)
{
    if (quota->others.has_members) {
        mend_shared_limit_file_close(&quota->slot);
    }
    mend_pointer_map_clear(&quota->sizes);
    mend_pointer_map_clear(&quota->plain_sizes);
    mend_mutex_destroy(&quota->mutex);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

mend_result mend_quota_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    if (moment == MEND_POOL_OPENS &&
        (config->min_free_bytes > 0 || config->shared_limit_file != NULL)) {
        mend_quota *quota = malloc(sizeof(*quota));
        if (quota == NULL) {
            return mend_no_host_memory("a pool");
        }
        pool->others = &quota->others;
        return mend_quota_open(quota, config->driver, config->min_free_bytes,
                               config->shared_limit_file, config->limit_bytes);
    }
    if (moment == MEND_POOL_ENDED && pool->others != NULL) {
        mend_quota *quota = of(pool->others);
        mend_quota_close(quota);
        free(quota);
        pool->others = NULL;
    }
    return MEND_OK;
}

void mend_quota_statistics(const mend_heap *heap, mend_stats *stats)
{
    mend_others *others = heap->config.others;
    stats->shared_limit_file_lost =
        others != NULL && atomic_load_explicit(&others->is_lost, memory_order_relaxed);
}
