/* Stretches of memory, held against a map of bytes. */
#include "lab/support/stretches.h"
#include "tests/support/test.h"

MEND_TEST(stretches, are_what_a_map_of_bytes_says)
{
    enum { BYTES = 64 };
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    mend_stretches set;
    mend_stretches_init(&set);
    int owner[BYTES + 1] = {0}; /* which addition a byte is of. 0: none */
    for (int round = 1; round < 3000; round++) {
        uint64_t from = mend_test_random_below(&random, BYTES);
        uint64_t size = mend_test_random_below(&random, BYTES - from + 1);
        bool adds = mend_test_random_below(&random, 2) == 0;
        if (adds) {
            mend_stretches_add(&set, from, size, (uint64_t)round);
        } else {
            mend_stretches_remove(&set, from, size);
        }
        for (uint64_t i = from; i < from + size; i++) {
            owner[i] = adds ? round : 0;
        }
        uint64_t at = 0;
        uint64_t bytes = 0;
        for (mend_stretch *s = mend_stretches_first(&set); s != NULL; s = mend_stretches_next(s)) {
            for (; at < s->address; at++) {
                ASSERT_TRUE(owner[at] == 0);
            }
            for (; at < s->address + s->size_bytes; at++) {
                ASSERT_TRUE(owner[at] != 0 && (uint64_t)owner[at] == s->owner);
            }
            bytes += s->size_bytes;
        }
        for (; at < BYTES; at++) {
            ASSERT_TRUE(owner[at] == 0);
        }
        ASSERT_TRUE(bytes == set.bytes && mend_tree_is_valid(&set.tree));
    }
    uint64_t bytes = set.bytes;
    mend_stretches_add(&set, UINT64_MAX - 3, 4, 0); /* passes the last address */
    mend_stretches_add(&set, 1, 0, 0);
    EXPECT_U64_EQ(bytes, set.bytes);
    mend_stretches_clear(&set);
    EXPECT_U64_EQ(0, set.bytes);
}
