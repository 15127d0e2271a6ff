// mend_range.hpp over a simulated device: ownership by a range, and exceptions of its calls.
#include <gtest/gtest.h>
#include <mend/mend_range.hpp>

#include <cstring>

#include "tests/cplusplus/device.hpp"

namespace
{

class range_owner : public on_device
{
  protected:
    range_owner() : on_device(16 * MIB) {}
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
    EXPECT_THROW(range.commit(1, 1024 * MIB, stream), mend::error);
    mend::range other(pool, 64 * MIB);
    EXPECT_THROW(mend::commit_all({range.part(0, 8 * MIB), other.part(0, 10 * MIB)}, stream),
                 mend::out_of_memory);
    EXPECT_EQ(2 * MIB, range.committed_bytes() + other.committed_bytes());
    mend::commit_all({range.part(0, 8 * MIB), other.part(0, 8 * MIB)}, stream);
    EXPECT_EQ(16 * MIB, range.committed_bytes() + other.committed_bytes());
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
