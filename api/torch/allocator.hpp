// The class that takes the place of PyTorch's own CUDA allocator: it turns PyTorch's calls into
// Mend's, and nothing more. Its parts are in allocator_*.hpp. The last is here: other devices and
// processes.
#pragma once

#include "allocator_history.hpp"
#include "peers.hpp"
#include "sharing.hpp"

namespace mend_torch
{

class Allocator : public Observed
{
  public:
    using Observed::Observed;

    void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override
    {
        requests_.begin(peer);
        enable_peer(device, peer);
    }

    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device,
                            size_t count, cudaStream_t stream, bool p2p_enabled) override
    {
        return copy_between(to, to_device, from, from_device, count, stream, p2p_enabled);
    }

    cca::ShareableHandle shareIpcHandle(void *pointer) override
    {
        mend_torch_block block;
        if (mend_torch_block_find(pointer, &block) != MEND_OK) {
            return native()->shareIpcHandle(pointer);
        }
        return exported(pointer, block.device);
    }

    std::shared_ptr<void> getIpcDevPtr(std::string handle) override
    {
        if (!is_handle(handle)) {
            native().use(device_count_);
            return native()->getIpcDevPtr(std::move(handle));
        }
        return imported(handle, c10::cuda::current_device());
    }
};

} // namespace mend_torch
