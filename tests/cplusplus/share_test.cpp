// mend_share.hpp and mend_host.hpp over a simulated device.
#include <gtest/gtest.h>
#include <mend/mend_share.hpp>

#include <cstring>

#include "tests/cplusplus/device.hpp"

namespace
{

using shared = on_device;

TEST_F(shared, an_import_is_mapped_while_it_lives)
{
    config.shareable = MEND_SHAREABLE_ON;
    mend::pool from(config);
    mend::pool to(config);
    mend::block block = from.alloc(4 * MIB, stream);
    std::memset(block.data(), 42, 4 * MIB);
    const mend::exported sent = mend::export_memory(from, block.as<char>() + 512);
    EXPECT_EQ(512u, sent.offset_bytes);
    EXPECT_THROW(mend::imported(to, sent.token.data(), sent.token.size() - 1), mend::error);
    {
        mend::imported first(to, sent.token.data(), sent.token.size(), stream);
        mend::imported moved(std::move(first));
        EXPECT_EQ(4 * MIB, moved.size_bytes());
        EXPECT_EQ(42, static_cast<unsigned char *>(moved.data())[4 * MIB - 1]);
        EXPECT_EQ(4 * MIB, to.stats().imported_bytes);
    }
    EXPECT_EQ(0u, to.stats().imported_bytes);
}

} // namespace
