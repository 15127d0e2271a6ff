#include "lab/peers/policies.h"

#include <stddef.h>
#include <string.h>

#include "lab/peers/models.h"

const mend_peer_policy mend_peer_policies[] = {
    {"mend", "Mend", false, false, mend_peer_create_mend},
    {"mend:compact", "Mend, where allocations are safe points: may copy live blocks", false, false,
     mend_peer_create_mend_compact},
    {"mend:torch", "Mend as PyTorch calls it: a block is freed on its own stream", false, false,
     mend_peer_create_mend_torch},
    {"mend:no-stream", "Mend as ONNX Runtime and Numba call it: without a stream", false, false,
     mend_peer_create_mend_streamless},
    {"caching", "model of PyTorch's native caching allocator", false, true,
     mend_peer_create_caching},
    {"caching:split128", "the same with max_split_size_mb:128", false, true,
     mend_peer_create_caching_split},
    {"caching:gc80", "the same with garbage_collection_threshold:0.8", false, false,
     mend_peer_create_caching_collect},
    {"caching:2.13", "caching since PyTorch 2.13: of equal blocks, that in the older segment",
     false, true, mend_peer_create_caching_2_13},
    {"caching:2.13:split128", "the same with max_split_size_mb:128", false, true,
     mend_peer_create_caching_2_13_split},
    {"caching:2.13:gc80", "the same with garbage_collection_threshold:0.8", false, false,
     mend_peer_create_caching_2_13_collect},
    {"expandable", "model of PyTorch's expandable segments", false, true,
     mend_peer_create_expandable},
    {"rmm-pool", "model of RMM's pool, best fit over large plain allocations", false, false,
     mend_peer_create_rmm_pool},
    {"rmm-arena", "model of RMM's arenas, first fit over superblocks", false, false,
     mend_peer_create_rmm_arena},
    {"cuda-malloc", "cudaMalloc for each block", true, true, mend_peer_create_cuda_malloc},
    {"cuda-malloc-async", "cudaMallocAsync, the driver's pool", true, false,
     mend_peer_create_cuda_malloc_async},
    {NULL, NULL, false, false, NULL},
};

const mend_peer_policy *mend_peer_find_policy(const char *name)
{
    for (const mend_peer_policy *policy = mend_peer_policies; policy->name != NULL; policy++) {
        if (strcmp(policy->name, name) == 0) {
            return policy;
        }
    }
    return NULL;
}
