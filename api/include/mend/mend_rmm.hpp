/*
 * A pool as a resource of RMM, for cuDF, cuML and other C++ programs. Needs RMM's headers, 24.06 or
 * later, with their CCCL. mend::rmm_resource is a cuda::mr resource, for
 * rmm::mr::set_current_device_resource_ref and the adaptors. Versions up to 26.04 also know
 * resources by a class, mend::rmm_device_memory_resource.
 */
#ifndef MEND_MEND_RMM_HPP
#define MEND_MEND_RMM_HPP

#include "mend/mend_cuda.hpp"

#if __has_include(<rmm/error.hpp>)
#include <rmm/error.hpp>
#else
#include <rmm/detail/error.hpp>
#endif
#if __has_include(<rmm/mr/device_memory_resource.hpp>)
#include <rmm/mr/device_memory_resource.hpp>
#define MEND_RMM_HAS_CLASS
#elif __has_include(<rmm/mr/device/device_memory_resource.hpp>)
#include <rmm/mr/device/device_memory_resource.hpp>
#define MEND_RMM_HAS_CLASS
#endif

namespace mend
{

namespace detail
{

/* RMM's adaptors that spill and try again catch rmm::out_of_memory. Any other exception of an
 * allocation is a rmm::bad_alloc. Both have the message of mend_get_last_error. */
inline void *rmm_alloc(mend_pool *pool, std::size_t size_bytes, std::size_t alignment_bytes,
                       mend_stream stream)
{
    try {
        return alloc(pool, size_bytes, alignment_bytes, stream);
    } catch (const std::bad_alloc &failure) {
        throw ::rmm::out_of_memory(failure.what());
    } catch (const error &failure) {
        throw ::rmm::bad_alloc(failure.what());
    }
}

} // namespace detail

/* mend::cuda_resource with RMM's exceptions. Copies are equal. The pool outlives them and every
 * buffer. Any number of threads. */
using rmm_resource = basic_cuda_resource<&detail::rmm_alloc>;

#ifdef MEND_RMM_HAS_CLASS
/* The same as an object, which lives as long as the buffers. Blocks are aligned to 512 bytes. */
class rmm_device_memory_resource final : public ::rmm::mr::device_memory_resource
{
  public:
    explicit rmm_device_memory_resource(pool_ref pool) noexcept : pool_(pool) {}
    pool_ref pool() const noexcept { return pool_; }

  private:
    void *do_allocate(std::size_t size_bytes, ::rmm::cuda_stream_view stream) override
    {
        return detail::rmm_alloc(pool_.get(), size_bytes, 512, stream.value());
    }
    void do_deallocate(void *data, std::size_t, ::rmm::cuda_stream_view stream) noexcept override
    {
        detail::log_failure(mend_free(pool_.get(), data, stream.value()),
                            "mend::rmm_device_memory_resource");
    }
    bool do_is_equal(const device_memory_resource &other) const noexcept override
    {
        const auto *same = dynamic_cast<const rmm_device_memory_resource *>(&other);
        return same != nullptr && same->pool_ == pool_;
    }
    pool_ref pool_;
};
#endif

} // namespace mend

#endif
