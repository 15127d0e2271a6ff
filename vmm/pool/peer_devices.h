/* Pools of one process on devices that can reach each other: each lets the other's device access
 * its memory, from the moment that the second pool is created. */
#ifndef MEND_POOL_PEER_DEVICES_H
#define MEND_POOL_PEER_DEVICES_H

#include "pool/pool.h"

/* Checks that each device of mend_pool_config.peers can reach the memory of the pool's device.
 * MEND_OK; MEND_ERROR_NOT_SUPPORTED: the message names the first that cannot. */
mend_result mend_peer_devices_check(const mend_pool_config *config, const mend_device_info *info);

/* Gives access between a pool that has just joined the process and the pools of other devices. The
 * caller holds no lock. MEND_OK; MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST: memory of one pool could not be made accessible to the other's device. */
mend_result mend_peer_devices_meet(mend_pool *pool);

#endif
