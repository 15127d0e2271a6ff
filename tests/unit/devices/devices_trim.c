/* A trim of devices that waits: of default pools, and of allocators that were set in their place.
 */
#include "base/align.h"
#include "tests/support/kit.h"
#include "tests/unit/devices/devices_fixture.h"

DEVICES_TEST(devices_trim, a_trim_may_wait_for_the_work_that_uses_what_was_freed)
{
    void *block = NULL;
    uint64_t released = 1;
    EXPECT_ERROR(NO_DEVICE, mend_device_trim(64, 0, MEND_TRIM_WAIT, NULL));
    ASSERT_RESULT(MEND_OK, mend_device_alloc(0, 3 * MEND_MIB, r->stream, &block));
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = 3 * MEND_MIB,
                                .finish_ns = 1000};
    EXPECT_OK(mend_sim_launch(r->sim, r->stream, &work));
    EXPECT_OK(mend_device_free(0, block, 3 * MEND_MIB, r->stream));
    EXPECT_OK(mend_device_trim(0, 0, MEND_TRIM_IDLE, &released));
    EXPECT_U64_EQ(0, released);
    EXPECT_OK(mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_WAIT, &released));
    EXPECT_U64_EQ(3 * MEND_MIB, released);
}
