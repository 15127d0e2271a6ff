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

FABRIC_TEST(pool_fabric, damaged_descriptions_are_refused)
{
    const share_ticket d = share_export(r, kit_alloc(&r->from, CHUNK, r->from.streams[0]));
    void *pointer = NULL;
    for (size_t i = 0; i < d.size; i++) {
        share_ticket other = d;
        other.bytes[i] ^= 1;
        EXPECT_INVALID(share_try_import(r->to.pool, &other, &pointer));
        EXPECT_REFUSAL(INVALID_ARGUMENT, i <= 64 ? "" : "the token is cut",
                       mend_import(r->to.pool, d.bytes, i, &pointer, NULL));
    }
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_STATS(&r->to, driver_failures, 0);
}

FABRIC_TEST(pool_fabric, misuse_has_its_errors)
{
    share_ticket t = {.by_fabric = true};
    void *pointer = NULL;
    char *block = kit_alloc(&r->from, 4096, r->from.streams[0]);
    char *freed = kit_alloc(&r->from, 4096, r->from.streams[0]);
    kit_free(&r->from, freed, r->from.streams[0]);
    mend_pool *pool = r->from.pool;
    const mend_export_options *by_fabric =
        KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC);
    EXPECT_INVALID(share_try_export(NULL, block, &t));
    EXPECT_INVALID(share_try_export(pool, NULL, &t));
    EXPECT_INVALID(mend_export(pool, block, by_fabric, NULL, sizeof(t.bytes), &t.size, NULL));
    EXPECT_INVALID(mend_export(pool, block, by_fabric, t.bytes, 10, NULL, NULL));
    EXPECT_ERROR(FOREIGN_POINTER, share_try_export(pool, &t, &t));
    EXPECT_ERROR(DOUBLE_FREE, share_try_export(pool, freed, &t));
    EXPECT_INVALID(mend_import(NULL, t.bytes, sizeof(t.bytes), &pointer, NULL));
    EXPECT_INVALID(mend_import(pool, NULL, sizeof(t.bytes), &pointer, NULL));
    EXPECT_INVALID(mend_import(pool, t.bytes, sizeof(t.bytes), NULL, NULL));
    EXPECT_INVALID(mend_import(pool, t.bytes, 0, &pointer, NULL));
    EXPECT_TRUE(t.size == 0 && pointer == NULL);
}
