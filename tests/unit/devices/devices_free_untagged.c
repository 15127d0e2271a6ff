/* A free that is given a pointer alone: it finds block, stream and device, and leaves blocks with a
 * tag to the caller. */
#include <string.h>

#include "base/align.h"
#include "devices/devices.h"
#include "tests/support/test.h"
#include "tests/unit/devices/devices_counter.h"
#include "tests/unit/devices/devices_fixture.h"

static void *allocated(int device, uint64_t size_bytes, mend_stream stream)
{
    void *pointer = NULL;
    EXPECT_RESULT(MEND_OK, mend_device_alloc(device, size_bytes, stream, &pointer));
    return pointer;
}

static mend_block_info freed(void *pointer, int expected_device)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    EXPECT_RESULT(MEND_OK, mend_device_free_untagged(pointer, &info, &device));
    EXPECT_PTR_EQ(pointer, info.base);
    EXPECT_INT_EQ(expected_device, device);
    return info;
}

static uint64_t live_blocks(int device)
{
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_stats(mend_devices_pool(device), &stats));
    return stats.live_blocks;
}

MEND_TEST(devices_free_untagged, a_block_is_described_and_freed)
{
    devices_world world;
    ASSERT_TRUE(devices_open(&world));
    void *on_first = allocated(0, 700, world.stream);
    void *on_second = allocated(1, 90000, NULL);
    mend_block_info info = freed(on_second, 1);
    EXPECT_U64_EQ(90000, info.requested_bytes);
    EXPECT_TRUE(info.stream == NULL);
    EXPECT_PTR_EQ(mend_devices_pool(1), info.pool);
    info = freed(on_first, 0);
    EXPECT_U64_EQ(700, info.requested_bytes);
    EXPECT_U64_EQ(1024, info.usable_bytes);
    EXPECT_TRUE(info.stream == world.stream);
    EXPECT_U64_EQ(0, live_blocks(0) + live_blocks(1));
    devices_close(&world);
}

/* With room for one block: its own stream uses the memory again at once, another one waits. */
MEND_TEST(devices_free_untagged, the_order_is_that_of_the_blocks_own_stream)
{
    devices_world world;
    mend_stats stats = MEND_STATS_INIT;
    ASSERT_TRUE(devices_open(&world));
    world.config.limit_bytes = 1 * MEND_MIB;
    ASSERT_RESULT(MEND_OK, mend_set_default_config(0, &world.config));
    void *block = allocated(0, 600 * MEND_KIB, world.stream);
    const mend_sim_work work = {.kind = MEND_SIM_WORK_WRITE,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = 600 * MEND_KIB,
                                .finish_ns = UINT64_C(1) << 40};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(world.sim, world.stream, &work));
    freed(block, 0);
    EXPECT_PTR_EQ(block, allocated(0, 600 * MEND_KIB, world.stream));
    EXPECT_RESULT(MEND_OK, mend_get_stats(mend_devices_pool(0), &stats));
    EXPECT_U64_EQ(0, stats.host_waits + stats.stream_waits);
    freed(block, 0);
    EXPECT_PTR_EQ(block, allocated(0, 600 * MEND_KIB, NULL));
    EXPECT_RESULT(MEND_OK, mend_get_stats(mend_devices_pool(0), &stats));
    EXPECT_U64_EQ(1, stats.host_waits + stats.stream_waits);
    freed(block, 0);
    devices_close(&world);
}

MEND_TEST(devices_free_untagged, a_block_with_a_tag_is_described_and_stays)
{
    devices_world world;
    mend_pool *pool = NULL;
    void *block = NULL;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    ASSERT_TRUE(devices_open(&world));
    ASSERT_RESULT(MEND_OK, mend_pool_for_device(0, &pool));
    options.tag = 7;
    ASSERT_RESULT(MEND_OK, mend_alloc_with(pool, 4096, world.stream, &options, &block));
    EXPECT_U64_EQ(7, freed(block, 0).tag);
    EXPECT_U64_EQ(1, live_blocks(0));
    EXPECT_RESULT(MEND_OK, mend_device_free(0, block, 0, world.stream));
    devices_close(&world);
}

/* The driver is asked whether the block's stream is captured, as for every free. */
MEND_TEST(devices_free_untagged, a_stream_that_the_driver_cannot_judge_fails_the_free)
{
    devices_world world;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    ASSERT_TRUE(devices_open(&world));
    void *block = allocated(0, 4096, world.stream);
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "stream_get_capture";
    fault.status = 999;
    ASSERT_RESULT(MEND_OK, mend_sim_fail(world.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_device_free_untagged(block, &info, &device));
    EXPECT_PTR_EQ(NULL, info.base);
    EXPECT_INT_EQ(77, device);
    EXPECT_U64_EQ(1, live_blocks(0));
    freed(block, 0);
    EXPECT_U64_EQ(0, live_blocks(0));
    devices_close(&world);
}

MEND_TEST(devices_free_untagged, what_is_no_block_has_the_error_of_a_free)
{
    devices_world world;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    ASSERT_TRUE(devices_open(&world));
    char *block = allocated(1, 4096, NULL);
    char *other = allocated(1, 4096, NULL);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_device_free_untagged(NULL, &info, &device));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_device_free_untagged(block, NULL, &device));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_device_free_untagged(block, &info, NULL));
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, mend_device_free_untagged(&world, &info, &device));
    EXPECT_RESULT(mend_device_free(1, block + 512, 0, NULL),
                  mend_device_free_untagged(block + 512, &info, &device));
    EXPECT_PTR_EQ(NULL, info.base);
    EXPECT_INT_EQ(77, device);
    EXPECT_U64_EQ(2, live_blocks(1));
    freed(block, 1);
    EXPECT_RESULT(MEND_ERROR_DOUBLE_FREE, mend_device_free_untagged(block, &info, &device));
    freed(other, 1);
    info.struct_size = 3;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_device_free_untagged(block, &info, &device));
    devices_close(&world);
}

/* A program that was built with a shorter structure. */
MEND_TEST(devices_free_untagged, no_more_is_written_than_the_caller_has)
{
    devices_world world;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device;
    ASSERT_TRUE(devices_open(&world));
    void *block = allocated(0, 4096, NULL);
    info.struct_size = offsetof(mend_block_info, pool);
    info.pool = (mend_pool *)&world;
    EXPECT_RESULT(MEND_OK, mend_device_free_untagged(block, &info, &device));
    EXPECT_U64_EQ(4096, info.requested_bytes);
    EXPECT_U64_EQ(offsetof(mend_block_info, pool), info.struct_size);
    EXPECT_PTR_EQ(&world, info.pool);
    devices_close(&world);
}

MEND_TEST(devices_free_untagged, an_allocator_that_is_set_frees_its_blocks)
{
    devices_world world;
    counter c;
    ASSERT_TRUE(devices_open(&world));
    void *own = counter_allocate(0);
    mend_allocator allocator = counter_allocator(&c, 4096);
    ASSERT_RESULT(MEND_OK, mend_set_allocator(0, &allocator));
    char *block = counter_allocate(0);
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_device_free_untagged(block + 5, &info, &device));
    EXPECT_INT_EQ(0, c.frees);
    freed(block, MEND_ALL_DEVICES);
    EXPECT_INT_EQ(1, c.frees);
    EXPECT_PTR_EQ(block, c.freed);
    freed(own, MEND_ALL_DEVICES);
    EXPECT_INT_EQ(1, c.frees);
    EXPECT_U64_EQ(0, live_blocks(0));
    devices_close(&world);
}

MEND_TEST(devices_free_untagged, an_allocator_that_cannot_describe_its_blocks_keeps_them)
{
    devices_world world;
    counter c;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = 77;
    ASSERT_TRUE(devices_open(&world));
    mend_allocator allocator = counter_allocator(&c, 4096);
    allocator.block_info = NULL;
    ASSERT_RESULT(MEND_OK, mend_set_allocator(0, &allocator));
    void *block = counter_allocate(0);
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_device_free_untagged(block, &info, &device));
    EXPECT_INT_EQ(0, c.frees);
    EXPECT_INT_EQ(77, device);
    counter_give(0, block);
    devices_close(&world);
}
