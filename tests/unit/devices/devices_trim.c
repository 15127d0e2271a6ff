/* A trim of devices that waits: of default pools, and of allocators that were set in their place.
 */
#include <stddef.h>

#include "base/align.h"
#include "tests/support/kit.h"
#include "tests/unit/devices/devices_counter.h"
#include "tests/unit/devices/devices_fixture.h"

DEVICES_TEST(devices_trim, a_trim_may_wait_for_the_work_that_uses_what_was_freed)
{
    void *block = NULL;
    uint64_t released = 1;
    EXPECT_ERROR(NO_DEVICE, mend_device_trim_wait(64, 0, NULL));
    ASSERT_RESULT(MEND_OK, mend_device_alloc(0, 3 * MEND_MIB, r->stream, &block));
    const mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = 3 * MEND_MIB,
                                .finish_ns = 1000};
    EXPECT_OK(mend_sim_launch(r->sim, r->stream, &work));
    EXPECT_OK(mend_device_free(0, block, 3 * MEND_MIB, r->stream));
    EXPECT_OK(mend_device_trim(0, 0, &released));
    EXPECT_U64_EQ(0, released);
    EXPECT_OK(mend_device_trim_wait(MEND_ALL_DEVICES, 0, &released));
    EXPECT_U64_EQ(3 * MEND_MIB, released);
}

/* Those that were made before there was such a call too. */
DEVICES_TEST(devices_trim, one_that_cannot_wait_trims)
{
    static counter c; /* until the devices end */
    uint64_t released = 0;
    mend_allocator allocator = counter_allocator(&c, 4096);
    allocator.struct_size = offsetof(mend_allocator, trim_wait);
    ASSERT_RESULT(MEND_OK, mend_set_allocator(0, &allocator));
    EXPECT_OK(mend_device_trim_wait(0, 11, &released));
    EXPECT_U64_EQ(111, released);
    EXPECT_INT_EQ(0, c.trim_waits);
}
