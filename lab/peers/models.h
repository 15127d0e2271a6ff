/* The constructors of all peers; each model has a file. Errors: those of the driver, and
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
#ifndef MEND_LAB_PEERS_MODELS_H
#define MEND_LAB_PEERS_MODELS_H

#include "lab/peers/peer.h"

mend_result mend_peer_create_mend(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_mend_quiet(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_caching(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_expandable(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_bfc(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_rmm_pool(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_rmm_arena(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_gmlake(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_cuda_malloc(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_cuda_malloc_async(const mend_peer_config *config, mend_peer **peer);

#endif
