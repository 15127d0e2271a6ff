// Memory of one device that another one uses.
#pragma once

#include "convert.hpp"
#include "mend/mend_share.h"

namespace mend_torch
{

// Lets a device use the memory of its peer, of Mend and of others.
inline void enable_peer(DeviceIndex device, DeviceIndex peer)
{
    mend_pool *heap = nullptr;
    check(mend_pool_for_device(peer, &heap), "access of a peer");
    check(mend_enable_peer(heap, device), "access of a peer");
    const c10::cuda::CUDAGuard guard(device);
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
    } else {
        C10_CUDA_CHECK(error);
    }
}

inline cudaError_t copy_between(void *to, int to_device, const void *from, int from_device,
                                size_t count, cudaStream_t stream, bool p2p_enabled)
{
    if (p2p_enabled || to_device == from_device) {
        return cudaMemcpyAsync(to, from, count, cudaMemcpyDeviceToDevice, stream);
    }
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, count, stream);
}

} // namespace mend_torch
