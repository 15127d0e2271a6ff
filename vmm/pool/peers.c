/*
 * Peers. Other devices: pools of one process on devices that can reach each other let the other's
 * device access their memory, from the moment that the second pool is created. Other pools of the
 * device: they give back idle memory if one of them lacks memory that the device does not have
 * either.
 */
#include "pool/pool.h"

mend_result mend_peer_devices_check(const mend_pool_config *config, const mend_device_info *info)
{
    uint64_t asked = config->peers == MEND_PEERS_NONE ? 0 : config->peers;
    assert(config->device >= 0);
    for (int i = 0; i < MEND_DEVICE_LIMIT; i++) {
        bool is_asked = i != config->device && (asked >> i & 1) != 0;
        if (is_asked && (info->peers >> i & 1) == 0) {
            return mend_fail(MEND_ERROR_NOT_SUPPORTED,
                             "mend_pool_config.peers names device %d, which cannot reach the "
                             "memory of device %d",
                             i, config->device);
        }
    }
    return MEND_OK;
}

/* Lets the device access the pool's memory, if the pool allows peers and the device can reach
 * it. */
static mend_result let_use(mend_pool *pool, int device)
{
    bool can_reach = (pool->heap.device.peers >> device & 1) != 0;
    if (!pool->meets_peers || !can_reach) {
        return MEND_OK;
    }
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, mend_access_add(&pool->heap, device));
}

/* Another pool whose context is lost is ignored. */
static mend_result meet(mend_pool *pool, mend_pool *other)
{
    assert(pool->device != other->device);
    const mend_result here = let_use(pool, other->device);
    const mend_result there = let_use(other, pool->device);
    const bool is_ignored = here != MEND_OK || there == MEND_ERROR_DEVICE_LOST;
    return is_ignored ? here : there;
}

mend_result mend_peer_devices_meet(mend_pool *pool)
{
    mend_result result = MEND_OK;
    for (int i = 0; i < MEND_DEVICE_LIMIT && result == MEND_OK; i++) {
        uint64_t cursor = 0;
        mend_process_member *member = NULL;
        while (i != pool->device && result == MEND_OK &&
               (member = mend_process_visit_next(pool->driver, i, &cursor)) != NULL) {
            result = meet(pool, MEND_CONTAINER_OF(member, mend_pool, member));
            mend_process_visit_end(member);
        }
    }
    return result;
}

mend_result mend_enable_peer(mend_pool *pool, int device)
{
    MEND_INVALID_IF(pool == NULL || device < 0,
                    "mend_enable_peer: pool is NULL, or the device is negative");
    mend_result result = mend_pool_check_process(pool);
    if (result != MEND_OK || device == pool->device) {
        return result;
    }
    int count = 0;
    mend_status status = pool->driver->device_count(pool->driver, &count);
    if (status != MEND_DRIVER_OK) {
        return mend_publish(mend_refused(pool->driver, MEND_ERROR_DRIVER, MEND_CALL_device_count,
                                         status,
                                         "the driver does not say how many devices there are"));
    }
    if (device >= count) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "there is no device %d", device);
    }
    if (device >= MEND_DEVICE_LIMIT || (pool->heap.device.peers >> device & 1) == 0) {
        return mend_fail(MEND_ERROR_NOT_SUPPORTED, "device %d cannot reach the memory of device %d",
                         device, pool->device);
    }
    result = mend_pool_enter_all(pool);
    return result != MEND_OK ? result
                             : mend_pool_leave_all(pool, mend_access_add(&pool->heap, device));
}

/* ---- other pools of the device --------------------------------------------------------------- */

/* Whether a pool whose context is there knows of a capture, or cannot tell. */
static bool knows_a_capture(mend_pool *pool)
{
    mend_heap *heap = &pool->heap;
    mend_driver_scope scope;
    bool is_captured = false;
    mend_heap_lock(heap);
    if (heap->unlocking.lost == MEND_DRIVER_OK) {
        mend_result result = mend_driver_scope_open(heap, &scope);
        if (result == MEND_OK) {
            result = mend_streams_find_capture(&heap->streams, MEND_STREAM_UNKNOWN, &is_captured);
            mend_driver_scope_close(heap, &scope);
        }
        is_captured |= result != MEND_OK;
    }
    mend_heap_unlock(heap);
    return is_captured;
}

/* Whether a pool of the device does: another one may not know the captured stream. */
static bool is_any_captured(const mend_pool *pool)
{
    uint64_t cursor = 0;
    mend_process_member *member = NULL;
    bool is_captured = false;
    while ((member = mend_process_visit_next(pool->driver, pool->device, &cursor)) != NULL) {
        is_captured |= knows_a_capture(MEND_CONTAINER_OF(member, mend_pool, member));
        mend_process_visit_end(member);
    }
    return is_captured;
}

/* A pool whose context is lost gives nothing. While it waits for its work, its grow lock is held:
 * its threads go on with free memory. */
static bool trim(mend_pool *other, uint64_t bytes, bool waits, bool is_captured)
{
    mend_heap *heap = &other->heap;
    bool gave = false;
    mend_heap_lock_all(heap);
    if (heap->unlocking.lost == MEND_DRIVER_OK) {
        gave = mend_ladder_give_back(heap, bytes, waits && !is_captured, is_captured);
    }
    mend_heap_unlock_all(heap);
    return gave;
}

bool mend_peer_pools_trim(mend_pool *pool, uint64_t bytes, bool waits)
{
    uint64_t cursor = 0;
    mend_process_member *member = NULL;
    bool any = false;
    const bool is_captured = is_any_captured(pool);
    while ((member = mend_process_visit_next(pool->driver, pool->device, &cursor)) != NULL) {
        if (member != &pool->member) {
            any |= trim(MEND_CONTAINER_OF(member, mend_pool, member), bytes, waits, is_captured);
        }
        mend_process_visit_end(member);
    }
    return any;
}
