/* Pools of one process on devices that can reach each other: each lets the other's device use its
 * memory, from the moment the second is created. */
#ifndef MEND_POOL_PEER_DEVICES_H
#define MEND_POOL_PEER_DEVICES_H

#include "pool/pool.h"

/* Of those in mend_pool_config.peers each can reach the memory of the device. MEND_OK;
 * MEND_ERROR_NOT_SUPPORTED: the first that cannot is named. */
mend_result mend_peer_devices_check(const mend_pool_config *config, const mend_device_info *info);

/* Introduces a pool that has just joined the process to those of other devices. Without locks.
 * MEND_OK; MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: memory of one of
 * them could not be made accessible to the other's device. */
mend_result mend_peer_devices_meet(mend_pool *pool);

#endif
