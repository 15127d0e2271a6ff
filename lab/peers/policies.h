/* The policies there are, by name. */
#ifndef MEND_LAB_PEERS_POLICIES_H
#define MEND_LAB_PEERS_POLICIES_H

#include "lab/peers/peer.h"

/* All policies, ended by one whose name is NULL. */
extern const mend_peer_policy mend_peer_policies[];

/* NULL when there is none of that name. */
const mend_peer_policy *mend_peer_find_policy(const char *name);

#endif
