/* Fabric handles beyond tokens: descriptions, and both ways beside each other. */

#include "tests/unit/pool/share_rig.h"

#define FABRIC_TEST(suite, name)                                                                   \
    KIT_BARE_TEST(suite, name, share_rig, share_rig_open(r, true), share_rig_close(r))

FABRIC_TEST(pool_fabric, a_buffer_that_is_too_small_is_told_the_size)
{
    share_ticket t = {.by_fabric = true, .bytes = {0x5a}};
    mend_pool *pool = r->from.pool;
    unsigned char *block = kit_alloc(&r->from, 2 * CHUNK, r->from.streams[0]);
    const mend_export_options *by_fabric =
        KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC);
    uint64_t offset = 0;
    EXPECT_OK(mend_export(pool, block + 700, by_fabric, NULL, 0, &t.size, &offset));
    EXPECT_TRUE(t.size >= 64 + 72);
    EXPECT_U64_EQ(700, offset);
    const size_t needed = t.size;
    t.size = 0;
    EXPECT_OK(mend_export(pool, block, by_fabric, t.bytes, needed - 1, &t.size, NULL));
    EXPECT_U64_EQ(needed, t.size);
    EXPECT_INT_EQ(0x5a, t.bytes[0]);
    EXPECT_STATS(&r->from, exported_blocks, 0);
    EXPECT_OK(mend_export(pool, block, by_fabric, t.bytes, needed, &t.size, NULL));
    EXPECT_STATS(&r->from, exported_blocks, 1);
}
