/*
 * A pool as a cuda::mr resource, for CCCL's and RMM's containers. Needs CCCL's headers, 2.8 or
 * later. It meets both forms of its concepts, `allocate_async(size, alignment, stream)` of CCCL 2
 * and `allocate(stream, size, alignment)` of CCCL 3.
 */
#ifndef MEND_MEND_CUDA_HPP
#define MEND_MEND_CUDA_HPP

/* CCCL before 3.1 hides cuda::mr without it. Define it before an earlier include of CCCL. */
#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif
#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include "mend/mend.hpp"

namespace mend
{

/* Device memory in the order of the stream that each call names. Calls without a stream use
 * MEND_NO_STREAM: every stream may use the memory at once, and it is free after the next wait for
 * the context. Copies are equal. The pool outlives them. `Alloc` allocates, and throws as
 * mend_alloc fails. A failed free is logged. */
template <auto Alloc> class basic_cuda_resource
{
  public:
    explicit basic_cuda_resource(pool_ref pool) noexcept : pool_(pool) {}
    pool_ref pool() const noexcept { return pool_; }

    /* CCCL 3 */
    void *allocate(::cuda::stream_ref stream, std::size_t size_bytes,
                   std::size_t alignment_bytes = 512)
    {
        return alloc(size_bytes, alignment_bytes, stream.get());
    }
    void deallocate(::cuda::stream_ref stream, void *data, std::size_t, std::size_t = 512) noexcept
    {
        free(data, stream.get());
    }
    void *allocate_sync(std::size_t size_bytes, std::size_t alignment_bytes = 512)
    {
        return alloc(size_bytes, alignment_bytes, MEND_NO_STREAM);
    }
    void deallocate_sync(void *data, std::size_t, std::size_t = 512) noexcept
    {
        free(data, MEND_NO_STREAM);
    }

    /* CCCL 2 */
    void *allocate_async(std::size_t size_bytes, std::size_t alignment_bytes,
                         ::cuda::stream_ref stream)
    {
        return alloc(size_bytes, alignment_bytes, stream.get());
    }
    void *allocate_async(std::size_t size_bytes, ::cuda::stream_ref stream)
    {
        return alloc(size_bytes, 512, stream.get());
    }
    void deallocate_async(void *data, std::size_t, std::size_t, ::cuda::stream_ref stream) noexcept
    {
        free(data, stream.get());
    }
    void deallocate_async(void *data, std::size_t, ::cuda::stream_ref stream) noexcept
    {
        free(data, stream.get());
    }
    void *allocate(std::size_t size_bytes, std::size_t alignment_bytes = 512)
    {
        return alloc(size_bytes, alignment_bytes, MEND_NO_STREAM);
    }
    void deallocate(void *data, std::size_t, std::size_t = 512) noexcept
    {
        free(data, MEND_NO_STREAM);
    }

    friend bool operator==(const basic_cuda_resource &a, const basic_cuda_resource &b) noexcept
    {
        return a.pool_ == b.pool_;
    }
    friend bool operator!=(const basic_cuda_resource &a, const basic_cuda_resource &b) noexcept
    {
        return a.pool_ != b.pool_;
    }
    friend constexpr void get_property(const basic_cuda_resource &,
                                       ::cuda::mr::device_accessible) noexcept
    {
    }

  private:
    void *alloc(std::size_t size_bytes, std::size_t alignment_bytes, mend_stream stream) const
    {
        return Alloc(pool_.get(), size_bytes, alignment_bytes, stream);
    }
    void free(void *data, mend_stream stream) const noexcept
    {
        detail::log_failure(mend_free(pool_.get(), data, stream), "mend::cuda_resource");
    }
    pool_ref pool_;
};

/* Throws mend::out_of_memory and mend::error. */
using cuda_resource = basic_cuda_resource<&detail::alloc>;

} // namespace mend

#endif
