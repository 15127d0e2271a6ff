// mend_sleep.hpp over a simulated device.
#include <gtest/gtest.h>
#include <mend/mend_sleep.hpp>

#include <cstring>

#include "tests/cplusplus/device.hpp"

namespace
{

using asleep = on_device;

TEST_F(asleep, a_tag_for_a_scope_sleeps_and_wakes)
{
    mend::pool pool(config);
    void *first = nullptr;
    void *second = nullptr;
    {
        mend::sleep_tag tag(7);
        ASSERT_EQ(MEND_OK, mend_alloc(pool.get(), 4 * MIB, nullptr, &first));
    }
    ASSERT_EQ(MEND_OK, mend_alloc(pool.get(), 4 * MIB, nullptr, &second));
    std::memset(first, 42, 4 * MIB);
    const mend_sleep_report slept = mend::sleep(pool);
    EXPECT_EQ(8 * MIB, slept.host_bytes);
    EXPECT_THROW(mend::sleep(pool), mend::error);
    const mend_wake_report woken = mend::wake(pool, {7});
    EXPECT_EQ(4 * MIB, woken.host_bytes);
    EXPECT_EQ(42, static_cast<unsigned char *>(first)[4 * MIB - 1]);
    EXPECT_EQ(4 * MIB, mend::wake(pool).host_bytes);
    EXPECT_EQ(0u, mend::wake(pool).woken_bytes);
}

} // namespace
