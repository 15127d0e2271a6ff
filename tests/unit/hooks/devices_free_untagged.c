/* A free that is given a pointer alone: it finds block, stream and device, and leaves blocks with a
 * tag to the caller. */

#include "base/align.h"
#include "hooks/hooks.h"
#include "mend/mend_frameworks.h"
#include "tests/support/kit.h"
#include "tests/unit/hooks/devices_fixture.h"

static void *allocated(int device, uint64_t size_bytes, mend_stream stream)
{
    void *pointer = NULL;
    EXPECT_OK(mend_device_alloc(device, size_bytes, stream, &pointer));
    return pointer;
}

static mend_block_info freed(void *pointer, int expected_device)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    EXPECT_OK(mend_device_free_untagged(pointer, &info, &device));
    EXPECT_PTR_EQ(pointer, info.base);
    EXPECT_INT_EQ(expected_device, device);
    return info;
}

static uint64_t live_blocks(int device)
{
    return kit_stats(mend_devices_pool(device)).live_blocks;
}

DEVICES_TEST(devices_free_untagged, a_block_is_described_and_freed)
{
    void *on_first = allocated(0, 700, S(0));
    void *on_second = allocated(1, 90000, NULL);
    mend_block_info info = freed(on_second, 1);
    EXPECT_U64_EQ(90000, info.requested_bytes);
    EXPECT_TRUE(info.stream == NULL);
    EXPECT_PTR_EQ(mend_devices_pool(1), info.pool);
    info = freed(on_first, 0);
    EXPECT_FIELDS(info, requested_bytes, 700, usable_bytes, 1024);
    EXPECT_TRUE(info.stream == S(0));
    EXPECT_U64_EQ(0, live_blocks(0) + live_blocks(1));
}

/* With space for one block: its own stream uses the memory again at once, another one waits. */
DEVICES_TEST(devices_free_untagged, the_order_is_that_of_the_blocks_own_stream)
{
    w->pool_config.limit_bytes = 1 * MEND_MIB;
    ASSERT_RESULT(MEND_OK, mend_set_default_config(0, &w->pool_config));
    void *block = allocated(0, 600 * MEND_KIB, S(0));
    kit_launch(w, S(0), MEND_SIM_WORK_WRITE, block, 600 * MEND_KIB, 0, UINT64_C(1) << 40);
    freed(block, 0);
    EXPECT_PTR_EQ(block, allocated(0, 600 * MEND_KIB, S(0)));
    EXPECT_FIELDS(kit_stats(mend_devices_pool(0)), host_waits, 0, stream_waits, 0);
    freed(block, 0);
    EXPECT_PTR_EQ(block, allocated(0, 600 * MEND_KIB, NULL));
    EXPECT_FIELDS(kit_stats(mend_devices_pool(0)), host_waits + of.stream_waits, 1);
    freed(block, 0);
}

DEVICES_TEST(devices_free_untagged, a_block_with_a_tag_is_described_and_stays)
{
    void *block = NULL;
    mend_pool *pool = devices_pool_of(0);
    ASSERT_RESULT(MEND_OK, mend_alloc_with(pool, 4096, S(0),
                                           KIT_OPTIONS(mend_alloc_options, .tag = 7), &block));
    EXPECT_U64_EQ(7, freed(block, 0).tag);
    counter_serve(&r->c, 1, 4096); /* beside an allocator, too */
    EXPECT_U64_EQ(7, freed(block, MEND_ALL_DEVICES).tag);
    EXPECT_U64_EQ(1, live_blocks(0));
    EXPECT_OK(mend_device_free(0, block, 0, S(0)));
}

DEVICES_TEST(devices_free_untagged, a_block_is_checked_as_by_every_free)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    w->pool_config.observe = "guard";
    w->pool_config.capture_checks = -1;
    ASSERT_RESULT(MEND_OK, mend_set_default_config(0, &w->pool_config));
    char *block = allocated(0, 4096, S(0));
    kit_launch(w, S(0), MEND_SIM_WORK_WRITE, block + 4096, 512, 0, 0);
    EXPECT_ERROR(CORRUPTION, mend_device_free_untagged(block, &info, &device));
    freed(block, 0);
}

/* The driver is asked whether the block's stream is captured, as for every free. */
DEVICES_TEST(devices_free_untagged, a_stream_that_the_driver_cannot_judge_fails_the_free)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    void *block = allocated(0, 4096, S(0));
    kit_fail(w, "stream_get_capture", 0, 1, 999);
    EXPECT_ERROR(DRIVER, mend_device_free_untagged(block, &info, &device));
    EXPECT_PTR_EQ(NULL, info.base);
    EXPECT_INT_EQ(77, device);
    EXPECT_U64_EQ(1, live_blocks(0));
    freed(block, 0);
    EXPECT_U64_EQ(0, live_blocks(0));
}

DEVICES_TEST(devices_free_untagged, what_is_no_block_has_the_error_of_a_free)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    char *block = allocated(1, 4096, NULL);
    char *other = allocated(1, 4096, NULL);
    EXPECT_INVALID(mend_device_free_untagged(NULL, &info, &device));
    EXPECT_INVALID(mend_device_free_untagged(block, NULL, &device));
    EXPECT_INVALID(mend_device_free_untagged(block, &info, NULL));
    EXPECT_ERROR(FOREIGN_POINTER, mend_device_free_untagged(r, &info, &device));
    EXPECT_RESULT(mend_device_free(1, block + 512, 0, NULL),
                  mend_device_free_untagged(block + 512, &info, &device));
    EXPECT_PTR_EQ(NULL, info.base);
    EXPECT_INT_EQ(77, device);
    EXPECT_U64_EQ(2, live_blocks(1));
    freed(block, 1);
    EXPECT_ERROR(DOUBLE_FREE, mend_device_free_untagged(block, &info, &device));
    freed(other, 1);
    info.struct_size = 3;
    EXPECT_INVALID(mend_device_free_untagged(block, &info, &device));
}

DEVICES_TEST(devices_free_untagged, an_allocator_that_is_set_frees_its_blocks)
{
    void *own = counter_allocate(0);
    counter_serve(&r->c, 0, 4096);
    char *block = counter_allocate(0);
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device;
    EXPECT_INVALID(mend_device_free_untagged(block + 5, &info, &device));
    EXPECT_INT_EQ(0, r->c.frees);
    freed(block, MEND_ALL_DEVICES);
    EXPECT_INT_EQ(1, r->c.frees);
    EXPECT_PTR_EQ(block, r->c.freed);
    freed(own, MEND_ALL_DEVICES);
    EXPECT_INT_EQ(1, r->c.frees);
    EXPECT_U64_EQ(0, live_blocks(0));
}

DEVICES_TEST(devices_free_untagged, an_allocator_that_cannot_describe_its_blocks_keeps_them)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    mend_allocator allocator = counter_allocator(&r->c, 4096);
    allocator.block_info = NULL;
    ASSERT_RESULT(MEND_OK, mend_set_allocator(0, &allocator));
    void *block = counter_allocate(0);
    EXPECT_ERROR(NOT_SUPPORTED, mend_device_free_untagged(block, &info, &device));
    EXPECT_INT_EQ(0, r->c.frees);
    EXPECT_INT_EQ(77, device);
    counter_give(0, block);
}
