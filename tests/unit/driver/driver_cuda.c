/* The CUDA driver's table on this machine: there, or missing with a message that says so. */
#include <string.h>

#include "driver/driver.h"
#include "lab/driver/kernels.h"
#include "tests/support/test.h"

MEND_TEST(driver_cuda, kernels_are_launched_small_enough_to_run_side_by_side)
{
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 7, .granule_count = 1000};
    mend_kernel write = {.kind = MEND_KERNEL_WRITE, .duration_ns = 7, .granule_count = 1000};
    mend_kernel soon = {.kind = MEND_KERNEL_WRITE, .granule_count = 10000};
    mend_kernel empty = {.kind = MEND_KERNEL_VERIFY};
    EXPECT_U64_EQ(1, mend_ptx_shape(&spin).blocks);
    EXPECT_U64_EQ(1, mend_ptx_shape(&spin).threads);
    EXPECT_U64_EQ(32, mend_ptx_shape(&write).blocks);
    EXPECT_U64_EQ(2048, mend_ptx_shape(&soon).blocks); /* no duration: it fills the device */
    EXPECT_U64_EQ(1, mend_ptx_shape(&empty).blocks);
    /* Of one that streams, blocks beyond two for each multiprocessor end at once: see the program.
     */
    mend_kernel stream = {.kind = MEND_KERNEL_STREAM, .granule_count = 1};
    EXPECT_U64_EQ(1024, mend_ptx_shape(&stream).blocks);
    EXPECT_U64_EQ(512, mend_ptx_shape(&stream).threads);
    EXPECT_TRUE(strstr(mend_ptx_program, "%nsmid") != NULL);
}

MEND_TEST(driver_cuda, each_kernel_has_an_entry_in_the_program)
{
    for (int kind = MEND_KERNEL_SPIN; kind < MEND_KERNEL_KINDS; kind++) {
        const char *entry = mend_ptx_entry((mend_kernel_kind)kind);
        ASSERT_TRUE(entry != NULL);
        EXPECT_TRUE(strstr(mend_ptx_program, entry) != NULL);
    }
    EXPECT_TRUE(mend_ptx_entry(MEND_KERNEL_KINDS) == NULL);
}
