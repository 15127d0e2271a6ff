// TensorRT's interface of allocators, as of 10 and 11, for machines without it.
#ifndef MEND_TESTS_NV_INFER_RUNTIME
#define MEND_TESTS_NV_INFER_RUNTIME

#include <cstdint>

struct CUstream_st;
using cudaStream_t = CUstream_st *;

namespace nvinfer1
{
using AllocatorFlags = std::uint32_t;

class IGpuAllocator
{
  public:
    virtual ~IGpuAllocator() = default;
    virtual void *allocate(std::uint64_t size, std::uint64_t alignment,
                           AllocatorFlags flags) noexcept = 0;
    virtual void *reallocate(void *base, std::uint64_t alignment, std::uint64_t size) noexcept = 0;
    virtual bool deallocate(void *memory) noexcept = 0;
    virtual void *allocateAsync(std::uint64_t size, std::uint64_t alignment, AllocatorFlags flags,
                                cudaStream_t stream) noexcept = 0;
    virtual bool deallocateAsync(void *memory, cudaStream_t stream) noexcept = 0;
};

class IGpuAsyncAllocator : public IGpuAllocator
{
  public:
    void *allocate(std::uint64_t size, std::uint64_t alignment,
                   AllocatorFlags flags) noexcept override
    {
        return allocateAsync(size, alignment, flags, nullptr);
    }
    bool deallocate(void *memory) noexcept override { return deallocateAsync(memory, nullptr); }
};
} // namespace nvinfer1

#endif
