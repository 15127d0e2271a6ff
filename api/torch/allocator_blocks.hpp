// The class, first part: blocks, and its life. Members that all parts use are here too.
#pragma once

#include <dlfcn.h>

#include "requests.hpp"

namespace mend_torch
{

class Blocks : public cca::CUDAAllocator
{
  public:
    explicit Blocks(cca::CUDAAllocator *native) : requests_(native) {}

    // ---- blocks -------------------------------------------------------------------------------

    DataPtr allocate(size_t size) override
    {
        if (C10_UNLIKELY(is_off_)) {
            return native()->allocate(size);
        }
        const DeviceIndex device = c10::cuda::current_device();
        void *pointer = nullptr;
        if (size != 0) {
            pointer = requests_.take(size, device, c10::cuda::getCurrentCUDAStream(device));
        }
        return tensor_of(pointer, device);
    }

    void *raw_alloc(size_t size) override
    {
        if (size == 0) {
            return nullptr;
        }
        if (C10_UNLIKELY(is_off_)) {
            return native()->raw_alloc(size);
        }
        const DeviceIndex device = c10::cuda::current_device();
        return requests_.take(size, device, c10::cuda::getCurrentCUDAStream(device));
    }

    void *raw_alloc_with_stream(size_t size, cudaStream_t stream) override
    {
        if (C10_UNLIKELY(is_off_)) {
            return native()->raw_alloc_with_stream(size, stream);
        }
        return size == 0 ? nullptr : requests_.take(size, c10::cuda::current_device(), stream);
    }

    void raw_delete(void *pointer) override
    {
        if (pointer != nullptr) {
            requests_.give(pointer);
        }
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return is_off_ ? native()->raw_deleter() : &delete_block;
    }

    void copy_data(void *to, const void *from, size_t count) const override
    {
        C10_CUDA_CHECK(cudaMemcpy(to, from, count, cudaMemcpyKind::cudaMemcpyDeviceToDevice));
    }

    void *getBaseAllocation(void *pointer, size_t *size) override
    {
        mend_torch_block block;
        if (mend_torch_block_find(pointer, &block) != MEND_OK) {
            return native()->getBaseAllocation(pointer, size);
        }
        if (size != nullptr) {
            *size = block.usable_bytes;
        }
        return block.base;
    }

    void recordStream(const DataPtr &data, c10::cuda::CUDAStream stream) override
    {
        // An empty tensor, or memory of another allocator.
        if (!data.get() || data.get_deleter() != &delete_block) {
            return;
        }
        const mend_result result =
            mend_torch_block_record_stream(data.get(), stream_of(stream.stream()));
        if (result == MEND_ERROR_FOREIGN_POINTER && native().is_used()) {
            record_stream_of_native(data, stream);
        } else if (result != MEND_ERROR_NOT_SUPPORTED) {
            check(result, "record_stream");
        }
    }

    // ---- life and settings --------------------------------------------------------------------

    void init(int device_count) override { device_count_ = device_count; }

    bool initialized() override { return device_count_ > 0; }

    // PyTorch's settings ask, too: `backend:` must name the backend of the start.
    std::string name() override
    {
        return is_of_settings(__builtin_return_address(0)) ? "native" : "mend";
    }

    // False: each block straight from the device, as PyTorch's own allocator does it.
    void enable(bool value) MEND_SINCE_206
    {
        is_off_ = !value;
        turn_native(value);
    }

    bool isEnabled() const MEND_SINCE_206 { return !is_off_; }

  protected:
    Native &native() { return requests_.native; }

    const Native &native() const { return requests_.native; }

    History &history() { return requests_.history; }

    Requests requests_;
    int device_count_ = 0;

  private:
    // Of the library with the settings, which asks for the name to compare it with them alone.
    static bool is_of_settings(const void *caller)
    {
        Dl_info theirs{};
        Dl_info of_caller{};
        return dladdr(&cca::allocator, &theirs) != 0 && dladdr(caller, &of_caller) != 0 &&
               theirs.dli_fbase == of_caller.dli_fbase;
    }

    void record_stream_of_native(const DataPtr &data, c10::cuda::CUDAStream stream)
    {
        DataPtr theirs(data.get(), data.get(), native()->raw_deleter(), data.device());
        native()->recordStream(theirs, stream);
        (void)theirs.release_context();
    }

    void turn_native(bool value)
    {
#if MEND_TORCH >= 208
        native()->enable(value);
#endif
    }

    bool is_off_ = false;
};

} // namespace mend_torch
