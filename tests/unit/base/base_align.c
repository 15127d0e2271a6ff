/* Arithmetic of sizes, at its edges. */
#include "base/align.h"

#include <stddef.h>

#include "tests/support/test.h"

MEND_TEST(base_align, rounds_to_multiples_of_any_size)
{
    EXPECT_U64_EQ(0, mend_align_up(0, 512));
    EXPECT_U64_EQ(512, mend_align_up(1, 512));
    EXPECT_U64_EQ(512, mend_align_up(512, 512));
    EXPECT_U64_EQ(1024, mend_align_up(513, 512));
    EXPECT_U64_EQ(0, mend_align_down(511, 512));
    EXPECT_U64_EQ(512, mend_align_down(512, 512));
    EXPECT_U64_EQ(21, mend_align_up(15, 7));
    EXPECT_U64_EQ(14, mend_align_down(15, 7));
    EXPECT_U64_EQ(5, mend_align_up(5, 1));
}

MEND_TEST(base_align, rounds_near_the_end_of_the_range)
{
    uint64_t last = UINT64_MAX - UINT64_MAX % 512;
    EXPECT_U64_EQ(last, mend_align_down(UINT64_MAX, 512));
    EXPECT_U64_EQ(last, mend_align_up(last, 512));
    EXPECT_U64_EQ(last, mend_align_up(last - 511, 512));
}

MEND_TEST(base_align, knows_powers_of_two)
{
    EXPECT_FALSE(mend_is_power_of_two(0));
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t power = UINT64_C(1) << bit;
        EXPECT_TRUE(mend_is_power_of_two(power));
        EXPECT_U64_EQ(power, mend_power_of_two_floor(power));
        EXPECT_U64_EQ(power, mend_power_of_two_floor(power + (power - 1)));
        if (bit > 0) {
            EXPECT_FALSE(mend_is_power_of_two(power | 1));
            EXPECT_U64_EQ(power, mend_power_of_two_floor(power | 1));
        }
    }
}

MEND_TEST(base_align, finds_the_structure_around_a_member)
{
    struct outer {
        int first;
        double second;
    } outer;
    EXPECT_PTR_EQ(&outer, MEND_CONTAINER_OF(&outer.second, struct outer, second));
    EXPECT_PTR_EQ(&outer, MEND_CONTAINER_OF(&outer.first, struct outer, first));
}
