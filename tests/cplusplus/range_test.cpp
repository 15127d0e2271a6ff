// mend_range.hpp over a simulated device: what a range owns, and what its calls throw.
#include <gtest/gtest.h>
#include <mend/mend_range.hpp>
#include <mend/mend_sim.h>

#include <cstring>

namespace
{

constexpr std::uint64_t MIB = std::uint64_t{1} << 20;

// Real bytes, at the real addresses.
class range_owner : public testing::Test
{
  protected:
    void SetUp() override
    {
        mend_sim_config device = MEND_SIM_CONFIG_INIT;
        device.memory_bytes = 16 * MIB;
        device.content = MEND_SIM_CONTENT_BYTES;
        ASSERT_EQ(MEND_OK, mend_sim_create(&device, &sim));
        ASSERT_EQ(MEND_OK, mend_sim_stream_create(sim, &stream));
        config.driver = mend_sim_driver(sim);
    }
    void TearDown() override
    {
        mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
        ASSERT_EQ(MEND_OK, mend_sim_get_ledger(sim, &ledger));
        EXPECT_EQ(0u, ledger.chunks);
        EXPECT_EQ(0u, ledger.reservations);
        EXPECT_STREQ("", mend_sim_first_violation(sim));
        mend_sim_destroy(sim);
    }

    mend_sim *sim = nullptr;
    mend_stream stream = nullptr;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
};

TEST_F(range_owner, grows_at_one_address)
{
    mend::pool pool(config);
    mend::range range(pool, 1024 * MIB, 4 * MIB, 5);
    EXPECT_EQ(1024 * MIB, range.size_bytes());
    EXPECT_EQ(4 * MIB, range.page_bytes());
    EXPECT_EQ(5u, range.info().tag);
    std::byte *data = range.data();
    range.commit(0, 4 * MIB, stream);
    std::memset(data, 7, 4 * MIB);
    range.commit(0, 12 * MIB, stream);
    EXPECT_EQ(data, range.data());
    EXPECT_EQ(std::byte{7}, data[4 * MIB - 1]);
    std::memset(data + 4 * MIB, 8, 8 * MIB);
    range.record_stream(0, 4 * MIB, stream);
    range.decommit(0, 8 * MIB, stream);
    EXPECT_EQ(4 * MIB, range.committed_bytes());
    EXPECT_EQ(std::byte{8}, data[8 * MIB]);
    mend::block block = pool.alloc(12 * MIB, stream);
    EXPECT_EQ(std::byte{8}, data[8 * MIB]);
}

TEST_F(range_owner, throws_and_leaves_all_as_it_was)
{
    mend::pool pool(config);
    mend::range range(pool, 1024 * MIB);
    range.commit(0, 2 * MIB, stream);
    EXPECT_THROW(range.commit(0, 18 * MIB, stream), mend::out_of_memory);
    EXPECT_THROW(range.commit(1, 2 * MIB, stream), mend::error);
    EXPECT_EQ(2 * MIB, range.committed_bytes());
    EXPECT_THROW(mend::range(pool, 0), mend::error);
}

TEST_F(range_owner, moves_and_ends)
{
    mend::pool pool(config);
    mend::range range(pool, 64 * MIB);
    range.commit(0, 4 * MIB, stream);
    mend::range moved(std::move(range));
    EXPECT_EQ(nullptr, range.get());
    EXPECT_EQ(nullptr, range.data());
    mend::range other(pool, 64 * MIB);
    other.commit(0, 4 * MIB, stream);
    other = std::move(moved);
    EXPECT_EQ(1u, pool.stats().ranges);
    EXPECT_EQ(4 * MIB, pool.stats().range_bytes);
    other.destroy(stream);
    EXPECT_EQ(nullptr, other.get());
    EXPECT_EQ(0u, pool.stats().ranges);
}

} // namespace
