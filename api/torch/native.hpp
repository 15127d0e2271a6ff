// PyTorch's own allocator, which stays: it keeps the memory pools that have an allocator of the
// user's (NCCL's, vLLM's, symmetric memory), and the blocks that it handed out before. It is
// initialized when it is needed first.
#pragma once

#include <mutex>
#include <vector>

#include "versions.hpp"

namespace mend_torch
{

// The allocator of a MemPool as the native allocator gets it (counted.hpp).
Backing counted(Backing backing);

// Whether this thread wants what pools have, and no more from their allocators.
inline bool &takes_no_more()
{
    thread_local bool value = false;
    return value;
}

class Native
{
  public:
    explicit Native(cca::CUDAAllocator *allocator) : allocator_(allocator) {}

    cca::CUDAAllocator *operator->() const { return allocator_; }

    // Whether it may have memory.
    bool is_used() const { return allocator_->initialized(); }

    // Call before something that needs its devices.
    void use(int device_count)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!allocator_->initialized()) {
            allocator_->init(device_count);
        }
        for (const auto &attach : waiting_) {
            attach(*allocator_);
        }
        waiting_.clear();
    }

    // Does it now, or when the allocator is initialized.
    void when_used(std::function<void(cca::CUDAAllocator &)> attach)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (allocator_->initialized()) {
            attach(*allocator_);
        } else {
            waiting_.push_back(std::move(attach));
        }
    }

    // While a thread begins, ends or empties pools of its.
    std::unique_lock<std::recursive_mutex> lock_pools()
    {
        return std::unique_lock<std::recursive_mutex>(pools_mutex_);
    }

    // A pointer of its own, as a tensor holds it; it is not freed.
    DataPtr borrowed(void *pointer, DeviceIndex device) const
    {
        return {pointer, pointer, &keep, c10::Device(c10::DeviceType::CUDA, device)};
    }

    // Bytes that it holds on a device; its statistics are PyTorch's.
    bool holds_memory(int device_count) const
    {
        for (int i = 0; is_used() && i < device_count; i++) {
            const auto stats = allocator_->getDeviceStats(static_cast<DeviceIndex>(i));
            if (stats.allocated_bytes[0].current != 0 || stats.reserved_bytes[0].current != 0) {
                return true;
            }
        }
        return false;
    }

  private:
    static void keep(void * /*pointer*/) {}

    cca::CUDAAllocator *allocator_;
    std::mutex mutex_;
    std::recursive_mutex pools_mutex_; // an allocator of the program's may call PyTorch
    std::vector<std::function<void(cca::CUDAAllocator &)>> waiting_;
};

} // namespace mend_torch
