// The program's allocator of a MemPool, as PyTorch's own allocator gets it: its memory counts
// against the memory fraction, and Mend releases memory for it.
#pragma once

#include <mutex>
#include <unordered_map>

#include "allocator.hpp"
#include "mend/mend_frameworks.h"

namespace mend_torch
{

// PyTorch's own allocator calls raw_alloc and raw_delete of it, with its lock held. The base does
// the rest.
class Counted final : public Allocator
{
  public:
    explicit Counted(Backing backing) : Allocator(&*backing), backing_(std::move(backing)) {}

    void *raw_alloc(size_t size) override
    {
        const DeviceIndex device = c10::cuda::current_device();
        if (takes_no_more() || mend_torch_foreign_room(device, size) != MEND_OK) {
            return nullptr; // which PyTorch takes for out of memory
        }
        // It counts before the allocator is asked, so that Mend does not take the memory.
        if (mend_torch_foreign_add(device, size) != MEND_OK) {
            return nullptr; // another thread was faster
        }
        void *pointer = ask(size);
        if (is_foreign(pointer)) {
            keep(pointer, size, device);
            return pointer;
        }
        mend_torch_foreign_remove(device, size);
        if (pointer == nullptr) { // the device is full, or the allocator asks Mend
            give_back(device);
            pointer = backing_->raw_alloc(size);
        }
        return !is_foreign(pointer) || is_counted(pointer, size, device) ? pointer : nullptr;
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

    // The first time. An exception of the allocator is no result: it is asked again.
    void *ask(size_t size)
    {
        try {
            return backing_->raw_alloc(size);
        } catch (...) {
            return nullptr;
        }
    }

    // An allocator may have its memory from Mend, where it counts already.
    static bool is_foreign(void *pointer)
    {
        mend_torch_block block;
        return pointer != nullptr && mend_torch_block_find(pointer, &block) != MEND_OK;
    }

    // Mend's free memory may be the missing memory of the device.
    static void give_back(DeviceIndex device)
    {
        (void)cudaGetLastError(); // of the allocator's
        (void)mend_device_trim(device, 0, MEND_TRIM_WAIT, nullptr);
    }

    bool is_counted(void *pointer, size_t size, DeviceIndex device)
    {
        if (mend_torch_foreign_add(device, size) != MEND_OK) {
            backing_->raw_delete(pointer);
            return false;
        }
        keep(pointer, size, device);
        return true;
    }

    void keep(void *pointer, size_t size, DeviceIndex device)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        parts_[pointer] = {device, size};
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
