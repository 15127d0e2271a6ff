// A pool as TensorRT's allocator. `./run frameworks` builds this against TensorRT's headers where
// it is told where they are. Otherwise it has a copy of the interface. No engine runs.
#include <gtest/gtest.h>
#include <mend/mend_tensorrt.hpp>

#include "tests/cplusplus/device.hpp"

namespace
{

class tensorrt_allocator : public on_pool
{
  protected:
    cudaStream_t named() const { return reinterpret_cast<cudaStream_t>(stream); }
};

TEST_F(tensorrt_allocator, gives_memory_in_the_order_of_the_stream_that_a_call_names)
{
    mend::tensorrt_allocator own(*pool);
    nvinfer1::IGpuAllocator &allocator = own;
    void *data = allocator.allocateAsync(3 * MIB, MIB, 0, named());
    EXPECT_EQ(0u, reinterpret_cast<std::uintptr_t>(data) % MIB);
    EXPECT_EQ(stream, pool->info(data).stream);
    EXPECT_EQ(3 * MIB, pool->info(data).requested_bytes);
    EXPECT_EQ(nullptr, allocator.reallocate(data, 256, 4 * MIB));
    EXPECT_TRUE(allocator.deallocateAsync(data, named()));
    EXPECT_EQ(data, allocator.allocateAsync(3 * MIB, 0, 0, named())); // freed in that order
    EXPECT_TRUE(allocator.deallocateAsync(data, named()));
}

// TensorRT's older calls have no stream, and pass the null stream on.
TEST_F(tensorrt_allocator, takes_the_null_stream_for_every_stream_or_for_the_one_it_was_given)
{
    mend::tensorrt_allocator own(*pool), on_default(*pool, nullptr);
    nvinfer1::IGpuAllocator &allocator = own;
    void *data = allocator.allocate(MIB, 0, 0);
    EXPECT_EQ(MEND_NO_STREAM, pool->info(data).stream);
    EXPECT_TRUE(allocator.deallocate(data));
    data = on_default.allocateAsync(MIB, 0, 0, nullptr);
    EXPECT_EQ(nullptr, pool->info(data).stream);
    EXPECT_TRUE(on_default.deallocateAsync(data, nullptr));
}

TEST_F(tensorrt_allocator, answers_what_cannot_be_by_nothing_and_takes_nothing_back)
{
    mend::tensorrt_allocator own(*pool);
    nvinfer1::IGpuAllocator &allocator = own;
    EXPECT_EQ(nullptr, allocator.allocateAsync(0, 256, 0, named()));
    EXPECT_EQ(nullptr, allocator.allocateAsync(65 * MIB, 256, 0, named()));
    EXPECT_EQ(nullptr, allocator.allocateAsync(MIB, 3, 0, named()));
    EXPECT_TRUE(allocator.deallocateAsync(nullptr, named()));
    int foreign = 0;
    EXPECT_FALSE(allocator.deallocateAsync(&foreign, named()));
}

} // namespace
