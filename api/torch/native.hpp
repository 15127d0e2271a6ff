// PyTorch's own allocator, which stays: it keeps the memory pools that have an allocator of the
// user's (NCCL's, vLLM's, symmetric memory), and the blocks that it handed out before. It is
// initialized when it is needed first.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "mend/mend_frameworks.h"
#include "mend/mend_torch.h"
#include "versions.hpp"

namespace mend_torch
{

// The statistics that are rows of mend_usage, with peaks of sums.
#define MEND_TORCH_ROWS(X)                                                                         \
    X(allocation, MEND_USAGE_BLOCKS)                                                               \
    X(active, MEND_USAGE_ACTIVE_BLOCKS)                                                            \
    X(allocated_bytes, MEND_USAGE_BYTES)                                                           \
    X(active_bytes, MEND_USAGE_ACTIVE_BYTES)                                                       \
    X(requested_bytes, MEND_USAGE_REQUESTED_BYTES)                                                 \
    X(reserved_bytes, MEND_USAGE_RESERVED_BYTES)                                                   \
    X(segment, MEND_USAGE_CHUNKS)

// The allocator of a MemPool as the native allocator gets it (counted.hpp).
Backing counted(Backing backing);

// Whether this thread wants the memory of pools, and no more from their allocators.
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

    // A pointer of its own, as a tensor holds it. It is not freed.
    DataPtr borrowed(void *pointer, DeviceIndex device) const
    {
        return {pointer, pointer, &keep, c10::Device(c10::DeviceType::CUDA, device)};
    }

    // Bytes that it holds on a device. Its statistics are PyTorch's.
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

    // Its memory of a device counts with Mend's in each peak: reports it to Mend.
    void tell(DeviceIndex device, const c10::CachingDeviceAllocator::DeviceStats &stats)
    {
        mend_usage outside = MEND_USAGE_INIT;
#define X(field, row)                                                                              \
    for (size_t i = 0; i < MEND_USAGE_PARTS; i++) {                                                \
        outside.now[row][i] = static_cast<uint64_t>(stats.field[i].current);                       \
    }
        MEND_TORCH_ROWS(X)
#undef X
        (void)mend_torch_set_outside(device, &outside);
        told_ |= uint64_t{1} << (static_cast<unsigned>(device) & 63U);
    }

    // Tells of a device, or of all that it has told of before, when something that changes it ends.
    class Change
    {
      public:
        explicit Change(Native &native, DeviceIndex device = -1) : native_(native), device_(device)
        {
        }

        ~Change()
        {
            for (DeviceIndex i = 0; native_.is_used() && i < 64; i++) {
                if (i == device_ || (device_ < 0 && (native_.told_ >> i & 1) != 0)) {
                    native_.tell(i, native_->getDeviceStats(i));
                }
            }
        }

        Change(const Change &) = delete;
        Change &operator=(const Change &) = delete;

      private:
        Native &native_;
        DeviceIndex device_;
    };

  private:
    static void keep(void * /*pointer*/) {}

    cca::CUDAAllocator *allocator_;
    std::atomic<uint64_t> told_{0}; // bit n: of device n
    std::mutex mutex_;
    std::recursive_mutex pools_mutex_; // an allocator of the program's may call PyTorch
    std::vector<std::function<void(cca::CUDAAllocator &)>> waiting_;
};

} // namespace mend_torch
