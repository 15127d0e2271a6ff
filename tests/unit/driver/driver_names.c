/* Calls and results of the driver have the names people know from its documentation. */
#include <string.h>

#include "driver/driver.h"
#include "tests/support/test.h"

MEND_TEST(driver_names, every_call_has_one)
{
#define X(member, name) EXPECT_STR_EQ(name, mend_driver_call_name(MEND_CALL_##member));
    MEND_DRIVER_CALLS(X)
#undef X
    EXPECT_STR_EQ("", mend_driver_call_name(MEND_DRIVER_CALL_COUNT));
}

MEND_TEST(driver_names, every_status_has_one_and_others_are_unknown)
{
    static const struct {
        mend_status status;
        const char *name;
    } known[] = {
        {MEND_DRIVER_OK, "CUDA_SUCCESS"},
        {MEND_DRIVER_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {MEND_DRIVER_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {MEND_DRIVER_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {MEND_DRIVER_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED"},
        {MEND_DRIVER_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {MEND_DRIVER_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {MEND_DRIVER_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {MEND_DRIVER_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {MEND_DRIVER_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE"},
        {MEND_DRIVER_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {MEND_DRIVER_NOT_READY, "CUDA_ERROR_NOT_READY"},
        {MEND_DRIVER_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {MEND_DRIVER_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
        {MEND_DRIVER_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
        {MEND_DRIVER_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {MEND_DRIVER_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {MEND_DRIVER_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {MEND_DRIVER_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
        {MEND_DRIVER_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
        {MEND_DRIVER_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
        {MEND_DRIVER_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT"},
        {9999, "CUDA_ERROR_UNKNOWN"},
        {-1, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        EXPECT_STR_EQ(known[i].name, mend_status_name(known[i].status));
    }
}
