/*
 * A pool as TensorRT's allocator: IRuntime::setGpuAllocator, IBuilder::setGpuAllocator and
 * IExecutionContext::setTemporaryStorageAllocator. Needs TensorRT's headers, 10.0 or later.
 */
#ifndef MEND_MEND_TENSORRT_HPP
#define MEND_MEND_TENSORRT_HPP

#include <NvInferRuntime.h>

#include "mend/mend.hpp"

namespace mend
{

/*
 * Memory in the order of the stream that TensorRT names. For calls without a stream it names the
 * null stream, as for the default stream. So such memory is for every stream, unless you give the
 * constructor another stream. If your program runs TensorRT only on the default stream, give it
 * nullptr, which needs no wait.
 *
 * The pool outlives the allocator, and the allocator the objects that TensorRT made with it. Any
 * number of threads. A failure returns nullptr or false, and mend_get_last_error has the reason.
 * TensorRT reports the failure itself.
 */
class tensorrt_allocator final : public ::nvinfer1::IGpuAsyncAllocator
{
  public:
    explicit tensorrt_allocator(pool_ref pool, mend_stream null_stream = MEND_NO_STREAM) noexcept
        : pool_(pool), null_stream_(null_stream)
    {
    }

    /* `alignment_bytes`: a power of two, or 0 for any. Size 0 gives nullptr, as TensorRT wants. */
    void *allocateAsync(std::uint64_t size_bytes, std::uint64_t alignment_bytes,
                        ::nvinfer1::AllocatorFlags, cudaStream_t stream) noexcept override
    {
        void *data = nullptr;
        if (size_bytes != 0) {
            mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
            options.alignment_bytes = alignment_bytes;
            (void)mend_alloc_with(pool_.get(), size_bytes, of(stream), &options, &data);
        }
        return data;
    }
    bool deallocateAsync(void *memory, cudaStream_t stream) noexcept override
    {
        return mend_free(pool_.get(), memory, of(stream)) == MEND_OK;
    }
    /* Refused, so TensorRT allocates, copies and frees. */
    void *reallocate(void *, std::uint64_t, std::uint64_t) noexcept override { return nullptr; }

  private:
    mend_stream of(cudaStream_t stream) const noexcept
    {
        return stream != nullptr ? stream : null_stream_;
    }
    pool_ref pool_;
    mend_stream null_stream_;
};

} // namespace mend

#endif
