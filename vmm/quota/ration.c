/*
 * The ration of a pool on a device that others use too: a decorator of the driver's table. It
 * leaves a part of the device's memory free, and keeps to a limit that pools of other processes
 * share. A creation beyond either is refused as if the device had no more memory, and memory_info
 * answers accordingly. So all steps of a pool on a full device work here too.
 */
#include "quota/quota.h"

#include <poll.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/signals.h"
#include "pool/pool.h"

/* How often it looks whether others have given memory back. */
enum { LOOK_MS = 1 };

static void unlock(mend_ration *ration)
{
    if (ration->others.has_members && ration->slot.is_broken) {
        atomic_store_explicit(&ration->others.is_lost, true, memory_order_relaxed);
    }
    mend_mutex_unlock(&ration->mutex);
}

/* ---- the calls that are rationed ------------------------------------------------------------- */

static mend_status free_bytes_of(const mend_ration *ration, uint64_t *free_bytes,
                                 uint64_t *total_bytes)
{
    return ration->pass.inner->memory_info(ration->pass.inner, free_bytes, total_bytes);
}

/* Whether the device keeps enough free. Where the driver does not say, it decides itself. */
static bool leaves_enough(const mend_ration *ration, uint64_t size_bytes)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    return ration->others.min_free_bytes == 0 ||
           free_bytes_of(ration, &free_bytes, &total_bytes) != MEND_DRIVER_OK ||
           (free_bytes >= size_bytes && free_bytes - size_bytes >= ration->others.min_free_bytes);
}

/* Claims the size of a future creation. True without a shared limit file. */
static bool claim(mend_ration *ration, mend_pointer_map *sizes, uint64_t size_bytes)
{
    if (!ration->others.has_members) {
        return true;
    }
    mend_mutex_lock(&ration->mutex);
    bool has_room = mend_pointer_map_promise(sizes);
    bool is_claimed = has_room && mend_shared_limit_file_claim(&ration->slot, size_bytes);
    if (has_room && !is_claimed) {
        mend_pointer_map_end_promise(sizes);
    }
    unlock(ration);
    return is_claimed;
}

/* The claimed memory was created, and has this key. 0: it was refused. */
static void settle(mend_ration *ration, mend_pointer_map *sizes, uint64_t key, uint64_t size_bytes)
{
    if (!ration->others.has_members) {
        return;
    }
    mend_mutex_lock(&ration->mutex);
    mend_pointer_map_end_promise(sizes);
    if (key != 0) {
        mend_pointer_map_insert(sizes, key, (void *)(uintptr_t)size_bytes);
    } else {
        mend_shared_limit_file_give(&ration->slot, size_bytes);
    }
    unlock(ration);
}

/* The driver has released the memory with this key. No effect if it was imported. */
static void give(mend_ration *ration, mend_pointer_map *sizes, uint64_t key)
{
    if (!ration->others.has_members) {
        return;
    }
    mend_mutex_lock(&ration->mutex);
    uint64_t bytes = (uintptr_t)mend_pointer_map_find(sizes, key);
    if (bytes > 0) {
        mend_pointer_map_remove(sizes, key);
        mend_shared_limit_file_give(&ration->slot, bytes);
    }
    unlock(ration);
}

static mend_status rationed_create(const mend_driver *driver, uint64_t size_bytes,
                                   const mend_chunk_properties *properties,
                                   mend_chunk_handle *handle)
{
    mend_ration *ration = driver->state;
    if (!leaves_enough(ration, size_bytes) || !claim(ration, &ration->sizes, size_bytes)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_chunk_handle made = 0;
    mend_status status =
        ration->pass.inner->create(ration->pass.inner, size_bytes, properties, &made);
    settle(ration, &ration->sizes, status == MEND_DRIVER_OK ? mend_handle_key(made) : 0,
           size_bytes);
    if (status == MEND_DRIVER_OK) {
        *handle = made;
    }
    return status;
}

static mend_status rationed_release(const mend_driver *driver, mend_chunk_handle handle)
{
    mend_ration *ration = driver->state;
    mend_status status = ration->pass.inner->release(ration->pass.inner, handle);
    if (status == MEND_DRIVER_OK) {
        give(ration, &ration->sizes, mend_handle_key(handle));
    }
    return status;
}

/* Memory of the driver's own: in its pool in the order of the stream, or not, without one. */
static mend_status rationed_alloc(mend_ration *ration, uint64_t size_bytes, bool is_in_order,
                                  mend_stream stream, uint64_t *address)
{
    const mend_driver *inner = ration->pass.inner;
    if (!leaves_enough(ration, size_bytes) || !claim(ration, &ration->plain_sizes, size_bytes)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    uint64_t made = 0;
    const mend_status status = is_in_order ? inner->async_alloc(inner, size_bytes, stream, &made)
                                           : inner->plain_alloc(inner, size_bytes, &made);
    settle(ration, &ration->plain_sizes, status == MEND_DRIVER_OK ? made : 0, size_bytes);
    if (status == MEND_DRIVER_OK) {
        *address = made;
    }
    return status;
}

static mend_status rationed_plain_alloc(const mend_driver *driver, uint64_t size_bytes,
                                        uint64_t *address)
{
    return rationed_alloc(driver->state, size_bytes, false, NULL, address);
}

static mend_status rationed_async_alloc(const mend_driver *driver, uint64_t size_bytes,
                                        mend_stream stream, uint64_t *address)
{
    return rationed_alloc(driver->state, size_bytes, true, stream, address);
}

/* Others may have it only once the driver has taken it back, and may have the address then. */
static mend_status rationed_plain_free(const mend_driver *driver, uint64_t address)
{
    mend_ration *ration = driver->state;
    MEND_TRY_CALL(ration->pass.inner->plain_free(ration->pass.inner, address));
    give(ration, &ration->plain_sizes, address);
    return MEND_DRIVER_OK;
}

static mend_status rationed_async_free(const mend_driver *driver, uint64_t address,
                                       mend_stream stream)
{
    mend_ration *ration = driver->state;
    MEND_TRY_CALL(ration->pass.inner->async_free(ration->pass.inner, address, stream));
    give(ration, &ration->plain_sizes, address);
    return MEND_DRIVER_OK;
}

static mend_status rationed_memory_info(const mend_driver *driver, uint64_t *free_bytes,
                                        uint64_t *total_bytes)
{
    mend_ration *ration = driver->state;
    uint64_t bytes = 0;
    uint64_t all_bytes = 0;
    MEND_TRY_CALL(free_bytes_of(ration, &bytes, &all_bytes));
    mend_mutex_lock(&ration->mutex);
    const uint64_t kept_bytes = mend_min_u64(bytes, ration->others.min_free_bytes);
    ration->others.kept_bytes = kept_bytes;
    bytes -= kept_bytes;
    if (ration->others.has_members) {
        bytes = mend_min_u64(bytes, mend_shared_limit_file_look(&ration->slot, 0).room_bytes);
    }
    unlock(ration);
    *free_bytes = bytes;
    *total_bytes = all_bytes;
    return MEND_DRIVER_OK;
}

/* ---- for the pool ---------------------------------------------------------------------------- */

static mend_ration *of(mend_others *others)
{
    return MEND_CONTAINER_OF(others, mend_ration, others);
}

static mend_wants ask(mend_others *others)
{
    mend_ration *ration = of(others);
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_wants owed = {0};
    if (others->min_free_bytes > 0 &&
        free_bytes_of(ration, &free_bytes, &total_bytes) == MEND_DRIVER_OK &&
        free_bytes < others->min_free_bytes) {
        owed.bytes = others->min_free_bytes - free_bytes;
    }
    if (others->has_members) {
        mend_mutex_lock(&ration->mutex);
        mend_raise_u64(&owed.bytes,
                       mend_shared_limit_file_wanted_by_others(&ration->slot, &owed.newest));
        unlock(ration);
    }
    return owed;
}

static void offer(mend_others *others, uint64_t idle_bytes, bool gives_back, uint64_t answered)
{
    mend_ration *ration = of(others);
    if (others->has_members) {
        mend_mutex_lock(&ration->mutex);
        mend_shared_limit_file_offer(&ration->slot, idle_bytes, gives_back, answered);
        unlock(ration);
    }
}

static bool wait_for_room(mend_others *others, uint64_t room_bytes)
{
    mend_ration *ration = of(others);
    if (!others->has_members) {
        return false;
    }
    bool gave = false;
    bool goes_on = true;
    const uint64_t end_ms = mend_now_ms() + MEND_OTHERS_PATIENCE_MS;
    mend_mutex_lock(&ration->mutex);
    ration->wanted_bytes += room_bytes;
    const uint64_t before_bytes = mend_shared_limit_file_look(&ration->slot, 0).room_bytes;
    const uint64_t want = mend_shared_limit_file_want(&ration->slot, ration->wanted_bytes);
    while (goes_on) {
        const mend_limit_view view = mend_shared_limit_file_look(&ration->slot, want);
        const bool has_room = view.room_bytes >= room_bytes;
        gave = has_room || view.room_bytes > before_bytes;
        goes_on = !has_room && view.offered_bytes > 0 && mend_now_ms() < end_ms;
        if (goes_on) {
            unlock(ration);
            (void)poll(NULL, 0, LOOK_MS); /* other processes run by the real clock */
            mend_mutex_lock(&ration->mutex);
        }
    }
    ration->wanted_bytes -= room_bytes;
    mend_shared_limit_file_want(&ration->slot, ration->wanted_bytes);
    unlock(ration);
    return gave;
}

static void tell_lost(mend_others *others, int device)
{
    if (!atomic_exchange(&of(others)->is_told, true)) {
        mend_warn("device %d: the shared limit file is damaged: its pools no longer keep to one "
                  "limit, and "
                  "each has only its own. Name a new file in shared_limit_file",
                  device);
    }
}

mend_result mend_ration_open(mend_ration *ration, const mend_driver *inner, uint64_t min_free_bytes,
                             const char *path, uint64_t limit_bytes)
{
    *ration = (mend_ration){.others = {.driver = &ration->pass.table,
                                       .min_free_bytes = min_free_bytes,
                                       .ask = ask,
                                       .offer = offer,
                                       .wait = wait_for_room,
                                       .tell_lost = tell_lost}};
    mend_passing_init(&ration->pass, inner);
    ration->pass.table.create = rationed_create;
    ration->pass.table.release = rationed_release;
    ration->pass.table.plain_alloc = rationed_plain_alloc;
    ration->pass.table.plain_free = rationed_plain_free;
    ration->pass.table.async_alloc = rationed_async_alloc;
    ration->pass.table.async_free = rationed_async_free;
    ration->pass.table.memory_info = rationed_memory_info;
    mend_mutex_init(&ration->mutex, MEND_RANK_DRIVER);
    mend_pointer_map_init(&ration->sizes);
    mend_pointer_map_init(&ration->plain_sizes);
    mend_result result =
        path != NULL ? mend_shared_limit_file_open(path, limit_bytes, &ration->slot) : MEND_OK;
    ration->others.has_members = path != NULL && result == MEND_OK;
    return result;
}

void mend_ration_close(mend_ration *ration)
{
    if (ration->others.has_members) {
        mend_shared_limit_file_close(&ration->slot);
    }
    mend_pointer_map_clear(&ration->sizes);
    mend_pointer_map_clear(&ration->plain_sizes);
    mend_mutex_destroy(&ration->mutex);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

mend_result mend_quota_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    if (moment == MEND_POOL_OPENS &&
        (config->min_free_bytes > 0 || config->shared_limit_file != NULL)) {
        mend_ration *ration = malloc(sizeof(*ration));
        if (ration == NULL) {
            return mend_no_host_memory("a pool");
        }
        pool->others = &ration->others;
        return mend_ration_open(ration, config->driver, config->min_free_bytes,
                                config->shared_limit_file, config->limit_bytes);
    }
    if (moment == MEND_POOL_ENDED && pool->others != NULL) {
        mend_ration *ration = of(pool->others);
        mend_ration_close(ration);
        free(ration);
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
