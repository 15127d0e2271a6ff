/* Calls and results of the driver have the names people know from its documentation. */
#include "driver/driver.h"
#include "tests/support/test.h"

MEND_TEST(driver_names, every_status_has_one_and_others_are_unknown)
{
    EXPECT_STR_EQ("CUDA_SUCCESS", mend_status_name(MEND_DRIVER_OK));
    EXPECT_STR_EQ("CUDA_ERROR_OUT_OF_MEMORY", mend_status_name(MEND_DRIVER_OUT_OF_MEMORY));
    EXPECT_STR_EQ("CUDA_ERROR_STREAM_CAPTURE_MERGE", mend_status_name(MEND_DRIVER_CAPTURE_MERGE));
    EXPECT_STR_EQ("CUDA_ERROR_UNKNOWN", mend_status_name(9999));
    EXPECT_STR_EQ("CUDA_ERROR_UNKNOWN", mend_status_name(-1));
}
