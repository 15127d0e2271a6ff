// A pool as RMM's resource. `./run frameworks` builds this against RMM itself, and then lets RMM's
// buffers and adaptors use it. Otherwise it has the names of RMM that the header needs.
#include <gtest/gtest.h>
#include <mend/mend_rmm.hpp>

#if __has_include(<rmm/mr/statistics_resource_adaptor.hpp>)
#include <rmm/device_buffer.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#endif

#include "tests/cplusplus/device.hpp"

namespace
{

class rmm_resource : public on_pool
{
};

template <class Failure> std::string text_of(mend::rmm_resource resource, std::size_t alignment)
{
    try {
        (void)resource.allocate(cuda::stream_ref(cudaStream_t{nullptr}), 65 * MIB, alignment);
    } catch (const Failure &failure) {
        return failure.what();
    }
    return "nothing was thrown";
}

TEST_F(rmm_resource, gives_memory_in_the_order_of_the_stream_that_a_call_names)
{
    mend::rmm_resource resource(*pool);
    void *data = resource.allocate(cuda::stream_ref(stream), 3 * MIB, 256);
    EXPECT_EQ(stream, pool->info(data).stream);
    resource.deallocate(cuda::stream_ref(stream), data, 3 * MIB, 256);
    EXPECT_TRUE(resource == mend::rmm_resource(*pool));
}

TEST_F(rmm_resource, throws_what_rmm_s_adaptors_catch)
{
    EXPECT_NE(
        std::string::npos,
        text_of<rmm::out_of_memory>(mend::rmm_resource(*pool), 512).find("65.00 MiB requested"));
    EXPECT_NE(std::string::npos,
              text_of<rmm::bad_alloc>(mend::rmm_resource(*pool), 3).find("alignment"));
}

#ifdef MEND_RMM_HAS_CLASS
TEST_F(rmm_resource, is_a_class_where_rmm_has_one)
{
    mend::rmm_device_memory_resource one(*pool), other(*pool), none(mend::pool_ref(nullptr));
    rmm::mr::device_memory_resource &resource = one;
    rmm::cuda_stream_view view{reinterpret_cast<CUstream_st *>(stream)};
    void *data = resource.allocate(view, 3 * MIB);
    EXPECT_EQ(stream, pool->info(data).stream);
    resource.deallocate(view, data, 3 * MIB);
    EXPECT_THROW((void)resource.allocate(view, 65 * MIB), rmm::out_of_memory);
    EXPECT_TRUE(resource.is_equal(other));
    EXPECT_FALSE(resource.is_equal(none));
}
#endif

#if __has_include(<rmm/mr/statistics_resource_adaptor.hpp>)
#ifdef MEND_RMM_HAS_CLASS
using upstream = mend::rmm_device_memory_resource;
template <template <class...> class Adaptor> using above = Adaptor<rmm::mr::device_memory_resource>;
#define ABOVE(adaptor) above<rmm::mr::adaptor>
#define SET_CURRENT    rmm::mr::set_current_device_resource_ref
#else
using upstream = mend::rmm_resource;
#define ABOVE(adaptor) rmm::mr::adaptor
#define SET_CURRENT    rmm::mr::set_current_device_resource
#endif

TEST_F(rmm_resource, serves_rmm_s_own_buffers_and_adaptors)
{
    const cuda::stream_ref none{cudaStream_t{nullptr}};
    upstream resource(*pool);
    auto before = SET_CURRENT(resource);
    {
        rmm::device_buffer buffer(MIB, none);
        EXPECT_EQ(MIB, pool->stats().live_bytes);

        ABOVE(statistics_resource_adaptor) counted(rmm::mr::get_current_device_resource_ref());
        rmm::device_buffer other(3 * MIB, none, counted);
        EXPECT_EQ(4 * MIB, pool->stats().live_bytes);
        EXPECT_EQ(3 * MIB, static_cast<std::uint64_t>(counted.get_bytes_counter().value));

        ABOVE(limiting_resource_adaptor) limited(resource, 2 * MIB);
        EXPECT_THROW(rmm::device_buffer(3 * MIB, none, limited), rmm::out_of_memory);

        // Frees its memory when memory is short, and tries again: once.
        auto held = std::make_unique<rmm::device_buffer>(40 * MIB, none);
        auto give_back = [&](std::size_t, void *) {
            bool is_first = held != nullptr;
            held.reset();
            return is_first;
        };
        ABOVE(failure_callback_resource_adaptor) spilling(resource, give_back, nullptr);
        rmm::device_buffer large(50 * MIB, none, spilling);
        EXPECT_EQ(54 * MIB, pool->stats().live_bytes);
        EXPECT_THROW(rmm::device_buffer(50 * MIB, none, spilling), rmm::out_of_memory);
    }
    SET_CURRENT(before);
}
#endif

} // namespace
