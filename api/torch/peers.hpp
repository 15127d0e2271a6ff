// Memory of one device that another one uses.
#pragma once

#include "versions.hpp"

namespace mend_torch
{

// For memory that is not Mend's. Pools of Mend give the devices that have a pool access.
inline void enable_peer(DeviceIndex device, DeviceIndex peer)
{
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
