// mend_sleep.hpp over a simulated device.
#include <gtest/gtest.h>
#include <mend/mend_sim.h>
#include <mend/mend_sleep.hpp>

#include <cstring>

namespace
{

constexpr std::uint64_t MIB = std::uint64_t{1} << 20;

class asleep : public testing::Test
{
  protected:
    void SetUp() override
    {
        mend_sim_config device = MEND_SIM_CONFIG_INIT;
        device.memory_bytes = 64 * MIB;
        device.content = MEND_SIM_CONTENT_BYTES;
        ASSERT_EQ(MEND_OK, mend_sim_create(&device, &sim));
    }
    void TearDown() override
    {
        EXPECT_STREQ("", mend_sim_first_violation(sim));
        mend_sim_destroy(sim);
    }
    mend_pool_config config()
    {
        mend_pool_config made = MEND_POOL_CONFIG_INIT;
        made.driver = mend_sim_driver(sim);
        return made;
    }
    mend_sim *sim = nullptr;
};

TEST_F(asleep, a_tag_for_a_scope_sleeps_and_wakes)
{
    const mend_pool_config made = config();
    mend::pool pool(made);
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
