/* Delays that a program feels, of rows made by hand. */
#include "lab/replay/felt.h"

#include <stdlib.h>

#include "tests/support/test.h"

enum { ROWS = 100, MS = 1000000 };

/* Each row allocates. One of them costs 10 ms, or stalls the CPU. */
static mend_replay_felt felt_of(uint64_t row, uint64_t driver_ns, bool waits)
{
    mend_felt *felt = mend_felt_create(ROWS);
    for (uint64_t i = 0; felt != NULL && i < ROWS; i++) {
        mend_felt_row(felt, true, i == row ? driver_ns : 0, i == row && waits);
    }
    const mend_replay_felt result = felt != NULL ? mend_felt_result(felt) : (mend_replay_felt){0};
    free(felt);
    return result;
}

static bool is_near(double a, double b)
{
    return a - b < 0.1 && b - a < 0.1;
}

MEND_TEST(felt, a_long_request_holds_up_host_and_gpu)
{
    const mend_replay_felt felt = felt_of(60, 10 * MS, false);
    EXPECT_TRUE(felt.longest_us == 16000);
    EXPECT_TRUE(felt.p999_us >= 16000);
    EXPECT_U64_EQ(1, felt.above_5_ms);
    EXPECT_TRUE(is_near(felt.host_bound_percent, 100 * 16000.0 / 250));
    /* The GPU had 480 us to do yet. */
    EXPECT_TRUE(is_near(felt.gpu_bound_percent, 100 * (16000.0 - 480) / 650));
}

MEND_TEST(felt, a_short_one_hides_behind_the_queue)
{
    const mend_replay_felt felt = felt_of(60, MS / 4, false);
    EXPECT_U64_EQ(0, felt.above_5_ms);
    EXPECT_TRUE(felt.gpu_bound_percent == 0);
    EXPECT_TRUE(is_near(felt.host_bound_percent, 100 * 400.0 / 250));
}

MEND_TEST(felt, a_wait_of_the_host_lasts_until_the_gpu_has_nothing_to_do)
{
    EXPECT_TRUE(is_near(felt_of(60, MS / 4, true).gpu_bound_percent, 100 * 400.0 / 650));
}

MEND_TEST(felt, the_beginning_does_not_count)
{
    const mend_replay_felt felt = felt_of(9, 10 * MS, true);
    EXPECT_TRUE(felt.longest_us == 0);
    EXPECT_U64_EQ(0, felt.above_5_ms);
    EXPECT_TRUE(is_near(felt.gpu_bound_percent, 0));
    EXPECT_TRUE(is_near(felt.host_bound_percent, 0));
}
