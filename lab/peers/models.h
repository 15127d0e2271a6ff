/* The constructors of all peers. Each model has a file. Errors: the driver's, and
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
#ifndef MEND_LAB_PEERS_MODELS_H
#define MEND_LAB_PEERS_MODELS_H

#include "lab/peers/peer.h"

/* The values of the two settings: max_split_size_mb:128, garbage_collection_threshold:0.8. */
enum { MEND_PEER_OVERSIZE_BYTES = 128 << 20, MEND_PEER_COLLECT_PERCENT = 80 };

mend_result mend_peer_create_mend(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_mend_compact(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_mend_streamless(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_mend_torch(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_caching(const mend_peer_config *config, mend_peer **peer);
/* With PyTorch's settings max_split_size_mb and garbage_collection_threshold. */
mend_result mend_peer_create_caching_split(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_caching_collect(const mend_peer_config *config, mend_peer **peer);
/* The same three as PyTorch is since 2.13. */
mend_result mend_peer_create_caching_2_13(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_caching_2_13_split(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_caching_2_13_collect(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_expandable(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_rmm_pool(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_rmm_arena(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_cuda_malloc(const mend_peer_config *config, mend_peer **peer);
mend_result mend_peer_create_cuda_malloc_async(const mend_peer_config *config, mend_peer **peer);

#endif
