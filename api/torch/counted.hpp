// The program's allocator of a MemPool, as PyTorch's own allocator gets it: what it hands out
// counts against the memory fraction, and Mend makes room for it.
#pragma once

#include <mutex>
#include <unordered_map>

#include "allocator.hpp"

namespace mend_torch
{

// PyTorch's own allocator calls raw_alloc and raw_delete of it, with its lock held; of the rest the
// base does what there is to do.
class Counted final : public Allocator
{
  public:
    explicit Counted(Backing backing) : Allocator(&*backing), backing_(std::move(backing)) {}

    void *raw_alloc(size_t size) override
    {
        const DeviceIndex device = c10::cuda::current_device();
        if (takes_no_more() || mend_torch_foreign_room(device, size) != MEND_OK) {
            return nullptr; // which PyTorch takes for a lack of memory
        }
        void *pointer = backing_->raw_alloc(size);
        if (pointer == nullptr && gives_back(device)) {
            pointer = backing_->raw_alloc(size);
        }
        return pointer == nullptr || is_counted(pointer, size, device) ? pointer : nullptr;
    }

    void raw_delete(void *pointer) override
    {
        const Part part = forget(pointer); // before the pointer may belong to another
        backing_->raw_delete(pointer);
        mend_torch_foreign_remove(part.device, part.size);
    }

  private:
    struct Part {
        DeviceIndex device;
        size_t size;
    };

    // Mend's free memory may be what the device lacks.
    static bool gives_back(DeviceIndex device)
    {
        uint64_t released = 0;
        (void)cudaGetLastError(); // of the allocator's
        (void)mend_device_trim_wait(device, 0, &released);
        return released != 0;
    }

    // An allocator may have its memory from Mend, where it counts already.
    bool is_counted(void *pointer, size_t size, DeviceIndex device)
    {
        mend_torch_block block;
        if (mend_torch_block_find(pointer, &block) == MEND_OK) {
            return true;
        }
        if (mend_torch_foreign_add(device, size) != MEND_OK) { // another thread was faster
            backing_->raw_delete(pointer);
            return false;
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        parts_[pointer] = {device, size};
        return true;
    }

    Part forget(void *pointer)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = parts_.find(pointer);
        Part part = {0, 0};
        if (found != parts_.end()) {
            part = found->second;
            parts_.erase(found);
        }
        return part;
    }

    Backing backing_;
    std::mutex mutex_;
    std::unordered_map<void *, Part> parts_;
};

} // namespace mend_torch
