/* Peer pools: the other pools of a device, which give back what lies idle in them when one lacks
 * memory that the device has not. */
#ifndef MEND_POOL_PEER_POOLS_H
#define MEND_POOL_PEER_POOLS_H

#include "pool/pool.h"

/* Asks the next peer pool, of those that joined after *cursor (0 at first), to give back so many
 * bytes or, as chunks are given back whole, a little more, and the addresses it does not use; *gave
 * says whether it had any. False when there is none left.
 * Without locks: the peer pool may be asking this pool meanwhile. */
bool mend_peer_pools_trim_next(mend_pool *pool, uint64_t bytes, uint64_t *cursor, bool *gave);

#endif
