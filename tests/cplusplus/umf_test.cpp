// A pool as a memory provider of UMF. `./run frameworks` builds this against UMF itself, and then
// lets UMF's own pools cut its memory. Otherwise it has a copy of the operations.
#include <gtest/gtest.h>
#include <mend/mend.hpp>
#include <mend/mend_umf.h>

#include <cstring>

#if __has_include(<umf/memory_pool.h>)
#include <umf.h>
#include <umf/memory_pool.h>
#include <umf/memory_provider.h>
#include <umf/pools/pool_disjoint.h>
#endif

#include "tests/cplusplus/device.hpp"

namespace
{

class umf_provider : public on_pool
{
  protected:
    const umf_memory_provider_ops_t *ops = mend_umf_ops();
};

TEST_F(umf_provider, gives_memory_for_every_stream)
{
    void *provider = nullptr, *data = nullptr;
    ASSERT_EQ(UMF_RESULT_SUCCESS, ops->initialize(pool->get(), &provider));
    ASSERT_EQ(UMF_RESULT_SUCCESS, ops->alloc(provider, 3 * MIB, MIB, &data));
    EXPECT_EQ(0u, reinterpret_cast<std::uintptr_t>(data) % MIB);
    EXPECT_EQ(MEND_NO_STREAM, pool->info(data).stream);
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->free(provider, data, 3 * MIB));
    ASSERT_EQ(UMF_RESULT_SUCCESS, ops->alloc(provider, 1, 0, &data)); // 0: any alignment
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->free(provider, data, 1));
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->free(provider, nullptr, 0));
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->finalize(provider));
}

TEST_F(umf_provider, says_why_it_failed)
{
    void *provider = nullptr, *data = nullptr;
    const char *message = "";
    std::int32_t code = 0;
    EXPECT_EQ(UMF_RESULT_ERROR_INVALID_ARGUMENT, ops->initialize(nullptr, &provider));
    ASSERT_EQ(UMF_RESULT_SUCCESS, ops->initialize(pool->get(), &provider));
    EXPECT_EQ(UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC, ops->alloc(provider, 65 * MIB, 0, &data));
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->get_last_native_error(provider, &message, &code));
    EXPECT_EQ(MEND_ERROR_OUT_OF_MEMORY, code);
    EXPECT_NE(nullptr, std::strstr(message, "65.00 MiB requested"));
    EXPECT_EQ(UMF_RESULT_ERROR_INVALID_ARGUMENT, ops->alloc(provider, MIB, 3, &data));
    EXPECT_EQ(UMF_RESULT_ERROR_INVALID_ARGUMENT, ops->free(provider, &data, 8));
    EXPECT_EQ(UMF_RESULT_ERROR_INVALID_ARGUMENT,
              ops->get_last_native_error(provider, nullptr, &code));
}

TEST_F(umf_provider, tells_its_pages_and_its_name)
{
    std::size_t page = 0, least = 0;
    const char *name = "";
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->get_recommended_page_size(nullptr, 1, &page));
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->get_min_page_size(nullptr, nullptr, &least));
    EXPECT_EQ(2 * MIB, page);
    EXPECT_EQ(512u, least);
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->get_name(nullptr, &name));
    EXPECT_STREQ("MEND", name);
#if UMF_PROVIDER_OPS_VERSION_CURRENT >= UMF_MAKE_VERSION(1, 2)
    std::size_t line = 0;
    EXPECT_EQ(UMF_RESULT_SUCCESS, ops->get_cache_line_size(nullptr, &line));
    EXPECT_EQ(128u, line);
#endif
}

#if __has_include(<umf/memory_pool.h>)
TEST_F(umf_provider, serves_umf_s_own_pools)
{
    umf_memory_provider_handle_t provider = nullptr;
    ASSERT_EQ(UMF_RESULT_SUCCESS, umfMemoryProviderCreate(ops, pool->get(), &provider));
    void *data = nullptr;
    EXPECT_EQ(UMF_RESULT_SUCCESS, umfMemoryProviderAlloc(provider, 5 * MIB, 0, &data));
    EXPECT_EQ(UMF_RESULT_SUCCESS, umfMemoryProviderFree(provider, data, 5 * MIB));
    EXPECT_EQ(UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC,
              umfMemoryProviderAlloc(provider, 65 * MIB, 0, &data));
    std::size_t bytes = 0;
    EXPECT_EQ(UMF_RESULT_ERROR_NOT_SUPPORTED, umfMemoryProviderGetIPCHandleSize(provider, &bytes));

    umf_disjoint_pool_params_handle_t params = nullptr;
    ASSERT_EQ(UMF_RESULT_SUCCESS, umfDisjointPoolParamsCreate(&params));
    umfDisjointPoolParamsSetSlabMinSize(params, 2 * MIB);
    umfDisjointPoolParamsSetMaxPoolableSize(params, MIB);
    umfDisjointPoolParamsSetCapacity(params, 4);
    umfDisjointPoolParamsSetMinBucketSize(params, 512);
    umf_memory_pool_handle_t above = nullptr;
    ASSERT_EQ(UMF_RESULT_SUCCESS, umfPoolCreate(umfDisjointPoolOps(), provider, params, 0, &above));
    std::vector<void *> blocks;
    for (std::size_t i = 0; i < 200; i++) {
        blocks.push_back(umfPoolMalloc(above, 512 + i * 1500));
        EXPECT_NE(nullptr, blocks.back());
    }
    EXPECT_GE(pool->stats().live_bytes, 512u * 200 + 1500 * 199 * 100);
    for (void *block : blocks) {
        EXPECT_EQ(UMF_RESULT_SUCCESS, umfFree(block));
    }
    EXPECT_EQ(UMF_RESULT_SUCCESS, umfPoolDestroy(above));
    EXPECT_EQ(UMF_RESULT_SUCCESS, umfDisjointPoolParamsDestroy(params));
    EXPECT_EQ(UMF_RESULT_SUCCESS, umfMemoryProviderDestroy(provider));
}
#endif

} // namespace
