/* Peer devices: pools of one process on devices that can reach each other let the other's device
 * access their memory, from the moment that the second pool is created. */
#include "map/map.h"
#include "pool/pool.h"
#include "share/share.h"

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

/* Whether the device can do what the config asks. */
static mend_result check(const mend_pool *pool, const mend_pool_config *config)
{
    const mend_device_info *info = &pool->heap.device;
    for (int i = 0; i < MEND_DEVICE_LIMIT; i++) {
        if (i != pool->device && (pool->heap.config.peers >> i & 1) != 0 &&
            (info->peers >> i & 1) == 0) {
            return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                                "mend_pool_config.peers names device %d, which cannot reach the "
                                "memory of device %d",
                                i, pool->device);
        }
    }
    return config->shareable <= 0 || config->shareable == MEND_SHAREABLE_AUTO ||
                   pool->heap.config.share_types != MEND_SHARE_NONE
               ? MEND_OK
               : mend_failure(MEND_ERROR_NOT_SUPPORTED,
                              "mend_pool_config.shareable is %d, but device %d (%s) cannot share "
                              "memory by file descriptors%s",
                              config->shareable, pool->device, info->name,
                              config->shareable == MEND_SHAREABLE_FABRIC ? " or by fabric handles"
                                                                         : "");
}

/* A pool that has just joined the process meets the pools of other devices. The caller holds no
 * lock. MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: memory of one pool
 * could not be made accessible to the other's device. */
mend_result mend_peers_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    mend_result result = MEND_OK;
    if (moment != MEND_POOL_BEGINS) {
        return MEND_OK;
    }
    MEND_TRY(check(pool, config));
    for (int i = 0; i < MEND_DEVICE_LIMIT && result == MEND_OK; i++) {
        uint64_t cursor = 0;
        mend_process_member *member = NULL;
        while (i != pool->device && result == MEND_OK &&
               (member = mend_process_visit_next(&mend_process_pools, pool->driver, i, &cursor)) !=
                   NULL) {
            result = let_use(pool, i);
            if (result == MEND_OK) {
                const mend_thread_error before = *mend_process_error();
                result = let_use(MEND_CONTAINER_OF(member, mend_pool, member), pool->device);
                if (result == MEND_ERROR_DEVICE_LOST) { /* another pool's: ignored */
                    *mend_process_error() = before;
                    result = MEND_OK;
                }
            }
            mend_process_visit_end(&mend_process_pools, member);
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
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, mend_access_add(&pool->heap, device));
}
