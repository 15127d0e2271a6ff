/* Peer pools: the other pools of a device. They give back idle memory if one of them lacks memory
 * that the device does not have either. */
#ifndef MEND_POOL_PEER_POOLS_H
#define MEND_POOL_PEER_POOLS_H

#include "ladder/trim.h"
#include "pool/pool.h"

/* Asks the next peer pool that joined after *cursor (0 at first) to give back what is needed (or
 * more, because it gives back complete chunks) and addresses that it does not use. *gave: whether
 * it gave any. False if there is no further peer pool. The caller holds no lock, because the peer
 * pool may be asking this pool at the same time. */
bool mend_peer_pools_trim_next(mend_pool *pool, mend_need need, uint64_t *cursor, bool *gave);

#endif
