// The cuda::mr resource, in the calls of CCCL 2 and of CCCL 3. Built against CCCL where the machine
// has it, otherwise against the names of it that the header needs.
#include <gtest/gtest.h>
#include <mend/mend_cuda.hpp>

#include <new>

#include "tests/cplusplus/device.hpp"

#if defined(CCCL_VERSION) && CCCL_VERSION >= 3001000
static_assert(cuda::mr::resource_with<mend::cuda_resource, cuda::mr::device_accessible>);
#elif defined(CCCL_VERSION)
static_assert(cuda::mr::async_resource_with<mend::cuda_resource, cuda::mr::device_accessible>);
#endif

namespace
{

class cuda_resource : public on_pool
{
  protected:
    void expect_block(const void *data, mend_stream expected) const
    {
        mend_block_info info = pool->info(data);
        EXPECT_EQ(data, info.base);
        EXPECT_EQ(expected, info.stream);
        EXPECT_EQ(3 * MIB, info.requested_bytes);
    }
};

TEST_F(cuda_resource, gives_memory_in_the_order_of_the_stream_that_a_call_names)
{
    mend::cuda_resource resource(*pool);
    void *third = resource.allocate(cuda::stream_ref(stream), 3 * MIB, 512);
    expect_block(third, stream);
    resource.deallocate(cuda::stream_ref(stream), third, 3 * MIB, 512);
    void *second = resource.allocate_async(3 * MIB, 512, cuda::stream_ref(stream));
    EXPECT_EQ(third, second); // freed in that order
    resource.deallocate_async(second, 3 * MIB, 512, cuda::stream_ref(stream));
    second = resource.allocate_async(3 * MIB, cuda::stream_ref(stream));
    expect_block(second, stream);
    resource.deallocate_async(second, 3 * MIB, cuda::stream_ref(stream));
}

TEST_F(cuda_resource, gives_memory_for_every_stream_where_a_call_names_none)
{
    mend::cuda_resource resource(*pool);
    void *third = resource.allocate_sync(3 * MIB);
    expect_block(third, MEND_NO_STREAM);
    void *second = resource.allocate(3 * MIB, MIB);
    expect_block(second, MEND_NO_STREAM);
    EXPECT_EQ(0u, reinterpret_cast<std::uintptr_t>(second) % MIB);
    resource.deallocate_sync(third, 3 * MIB);
    resource.deallocate(second, 3 * MIB, MIB);
    void *nothing = resource.allocate_sync(0);
    EXPECT_NE(nullptr, nothing);
    resource.deallocate_sync(nothing, 0);
}

TEST_F(cuda_resource, throws_and_compares)
{
    mend::cuda_resource resource(*pool);
    EXPECT_THROW((void)resource.allocate(cuda::stream_ref(stream), 65 * MIB, 512), std::bad_alloc);
    EXPECT_TRUE(resource == mend::cuda_resource(*pool));
    EXPECT_TRUE(resource != mend::cuda_resource(mend::pool_ref(nullptr)));
    get_property(resource, cuda::mr::device_accessible{});
}

} // namespace
