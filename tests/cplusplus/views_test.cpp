// mend_inspect.hpp over a simulated device.
#include <gtest/gtest.h>
#include <mend/mend_inspect.hpp>

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

TEST_F(scoped, regions_and_events_are_listed)
{
    mend::pool pool(config);
    std::vector<mend::block> blocks;
    mend::history history(pool, 1000);
    for (int i = 0; i < 70; i++) { /* more than fit in the first try */
        blocks.push_back(pool.alloc(MIB / 4, stream));
    }
    std::uint64_t live_bytes = 0;
    for (const mend_region &region : mend::regions(pool)) {
        live_bytes += region.kind == MEND_REGION_LIVE ? region.size_bytes : 0;
    }
    EXPECT_EQ(70 * MIB / 4, live_bytes);
    int allocations = 0;
    for (const mend_history_event &event : history.read()) {
        allocations += event.kind == MEND_EVENT_ALLOC;
    }
    EXPECT_EQ(70, allocations);
    EXPECT_EQ(0u, history.read().size()); /* since the last read */
}

} // namespace
