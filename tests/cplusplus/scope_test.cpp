// mend_scope.hpp over a simulated device.
#include <gtest/gtest.h>
#include <mend/mend_scope.hpp>

#include "tests/cplusplus/device.hpp"

namespace
{

using scoped = on_device;

TEST_F(scoped, what_is_allocated_while_scopes_live_counts_for_them)
{
    mend::pool pool(config);
    void *first = nullptr;
    void *second = nullptr;
    {
        mend::scope step("cplusplus step");
        ASSERT_EQ(MEND_OK, mend_alloc(pool.get(), 4 * MIB, nullptr, &first));
        mend::scope forward("forward");
        ASSERT_EQ(MEND_OK, mend_alloc(pool.get(), 2 * MIB, nullptr, &second));
    }
    ASSERT_EQ(MEND_OK, mend_free(pool.get(), first, nullptr));
    const std::vector<mend_scope_info> scopes = mend::scopes(pool);
    ASSERT_EQ(2u, scopes.size());
    EXPECT_STREQ("cplusplus step", scopes[0].name);
    EXPECT_EQ(2 * MIB, scopes[0].live_bytes);
    EXPECT_EQ(6 * MIB, scopes[0].peak_live_bytes);
    EXPECT_EQ(scopes[0].number, scopes[1].around);
    EXPECT_EQ(MEND_OK, mend_free(pool.get(), second, nullptr));
}

} // namespace
