/* All allocators with their names. */
#ifndef MEND_LAB_PEERS_POLICIES_H
#define MEND_LAB_PEERS_POLICIES_H

#include "lab/peers/peer.h"

/* Ended by one whose name is NULL. */
extern const mend_peer_policy mend_peer_policies[];

/* NULL if no policy has that name. */
const mend_peer_policy *mend_peer_find_policy(const char *name);

#endif
