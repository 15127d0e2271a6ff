// RMM's class of resources, as it was until 26.04, for machines without it.
#ifndef MEND_TESTS_RMM_DEVICE_MEMORY_RESOURCE
#define MEND_TESTS_RMM_DEVICE_MEMORY_RESOURCE

#include <cstddef>
#include <cuda/stream_ref>

namespace rmm
{
class cuda_stream_view
{
  public:
    cuda_stream_view(CUstream_st *stream) noexcept : stream_(stream) {}
    CUstream_st *value() const noexcept { return stream_; }

  private:
    CUstream_st *stream_;
};

namespace mr
{
class device_memory_resource
{
  public:
    virtual ~device_memory_resource() = default;
    void *allocate(cuda_stream_view stream, std::size_t bytes)
    {
        return do_allocate(bytes, stream);
    }
    void deallocate(cuda_stream_view stream, void *data, std::size_t bytes) noexcept
    {
        do_deallocate(data, bytes, stream);
    }
    bool is_equal(const device_memory_resource &other) const noexcept { return do_is_equal(other); }

  private:
    virtual void *do_allocate(std::size_t bytes, cuda_stream_view stream) = 0;
    virtual void do_deallocate(void *data, std::size_t bytes, cuda_stream_view stream) noexcept = 0;
    virtual bool do_is_equal(const device_memory_resource &other) const noexcept = 0;
};
} // namespace mr
} // namespace rmm

#endif
