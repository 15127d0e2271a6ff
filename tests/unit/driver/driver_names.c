/* Calls and results of the driver have the names people know from its documentation. */
#include "driver/driver.h"
#include "tests/support/test.h"

MEND_TEST(driver_names, every_status_has_one_and_others_are_unknown)
{
    static const struct {
        mend_status status;
        const char *name;
    } known[] = {{MEND_DRIVER_OK, "CUDA_SUCCESS"},
                 {9999, "CUDA_ERROR_UNKNOWN"},
                 {-1, "CUDA_ERROR_UNKNOWN"},
#define X(name)       {MEND_DRIVER_##name, "CUDA_ERROR_" #name},
#define CAPTURE(name) {MEND_DRIVER_CAPTURE_##name, "CUDA_ERROR_STREAM_CAPTURE_" #name},
                 /* clang-format off */
        X(INVALID_VALUE) X(OUT_OF_MEMORY) X(NOT_INITIALIZED) X(DEINITIALIZED) X(NO_DEVICE)
        X(INVALID_DEVICE) X(INVALID_CONTEXT) X(INVALID_HANDLE) X(ILLEGAL_STATE) X(NOT_FOUND)
        X(NOT_READY) X(ILLEGAL_ADDRESS) X(LAUNCH_FAILED) X(NOT_PERMITTED) X(NOT_SUPPORTED)
        X(CAPTURED_EVENT) CAPTURE(UNSUPPORTED) CAPTURE(INVALIDATED) CAPTURE(MERGE)
        CAPTURE(ISOLATION) CAPTURE(IMPLICIT)
    /* clang-format on */
#undef X
#undef CAPTURE
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        EXPECT_STR_EQ(known[i].name, mend_status_name(known[i].status));
    }
}
