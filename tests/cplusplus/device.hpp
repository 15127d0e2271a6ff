// A simulated device with real bytes, for pools that a test makes: at its end nothing is left.
#ifndef MEND_TESTS_CPLUSPLUS_DEVICE_HPP
#define MEND_TESTS_CPLUSPLUS_DEVICE_HPP

#include <gtest/gtest.h>
#include <mend/mend.hpp>
#include <mend/mend_sim.h>

#include <cstdint>
#include <memory>

constexpr std::uint64_t MIB = std::uint64_t{1} << 20;

class on_device : public testing::Test
{
  protected:
    explicit on_device(std::uint64_t memory_bytes = 64 * MIB)
    {
        device.memory_bytes = memory_bytes;
    }
    void SetUp() override
    {
        device.content = MEND_SIM_CONTENT_BYTES;
        ASSERT_EQ(MEND_OK, mend_sim_create(&device, &sim));
        ASSERT_EQ(MEND_OK, mend_sim_stream_create(sim, NULL, &stream));
        config.driver = mend_sim_driver(sim);
    }
    void TearDown() override
    {
        mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
        ASSERT_EQ(MEND_OK, mend_sim_get_ledger(sim, &ledger));
        EXPECT_EQ(0u, ledger.chunks + ledger.mappings + ledger.reservations + ledger.events);
        EXPECT_STREQ("", mend_sim_first_violation(sim));
        mend_sim_destroy(sim);
    }
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_sim *sim = nullptr;
    mend_stream stream = nullptr;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
};

// With a pool on it, which has no block at the end.
class on_pool : public on_device
{
  protected:
    void SetUp() override
    {
        on_device::SetUp();
        pool = std::make_unique<mend::pool>(config);
    }
    void TearDown() override
    {
        EXPECT_EQ(0u, pool->stats().live_blocks);
        pool.reset();
        on_device::TearDown();
    }
    std::unique_ptr<mend::pool> pool;
};

#endif
