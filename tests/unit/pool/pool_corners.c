/* Corners of the pool: absurd configs, undo that is itself refused, peaks after a failure. */
#include <stddef.h>

#include "base/align.h"
#include "physical/stream.h"
#include "pool/pool.h"
#include "tests/support/host_memory.h"
#include "tests/support/test.h"
#include "tests/support/world.h"

static void fail_calls(mend_world *world, const char *call, uint64_t after_calls, uint64_t count)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = call;
    fault.after_calls = after_calls;
    fault.count = count;
    fault.status = 999;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(world->sim, &fault));
}

/* A passing lack of memory in disguise. */
static void answer_not_ready(mend_world *world, const char *call, uint64_t count)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = call;
    fault.count = count;
    fault.status = 600;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(world->sim, &fault));
}

MEND_TEST(pool_corners, absurd_sizes_in_a_config_are_refused)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    mend_pool *pool = NULL;
    mend_pool_config config = world.pool_config;
    config.chunk_bytes = UINT64_MAX;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, &pool));
    config = world.pool_config;
    config.small_chunk_bytes = UINT64_MAX - 7;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, &pool));
    config = world.pool_config;
    config.reserve_bytes = UINT64_MAX;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, &pool));
    EXPECT_PTR_EQ(NULL, pool);
    mend_world_close(&world);
}

MEND_TEST(pool_corners, the_largest_sizes_of_a_config_work)
{
    mend_world world;
    mend_world_init(&world);
    world.pool_config.chunk_bytes = UINT64_C(1) << 60;
    world.pool_config.small_chunk_bytes = UINT64_C(1) << 60;
    world.pool_config.small_request_bytes = UINT64_MAX;
    world.pool_config.reserve_bytes = UINT64_C(1) << 60;
    world.pool_config.limit_bytes = UINT64_MAX;
    ASSERT_TRUE(mend_world_open(&world));
    void *pointer;
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &pointer));
    mend_world_check(&world);
    mend_world_close(&world);
}

MEND_TEST(pool_corners, a_mapping_the_driver_keeps_keeps_its_chunk)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    void *pointer;
    fail_calls(&world, "set_access", 0, 1);
    fail_calls(&world, "unmap", 0, 1);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &pointer));
    mend_world_check(&world);
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &pointer));
    mend_world_check(&world);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, pointer, NULL));
    EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, NULL));
    mend_world_check(&world);
    mend_world_close(&world);
}

MEND_TEST(pool_corners, peaks_know_what_a_failed_call_left_behind)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    void *pointer;
    fail_calls(&world, "set_access", 0, 1);
    fail_calls(&world, "unmap", 0, 1);
    fail_calls(&world, "release", 0, UINT64_MAX);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &pointer));
    mend_stats stats = mend_world_stats(&world);
    EXPECT_TRUE(stats.reserved_bytes > 0);
    EXPECT_U64_EQ(stats.reserved_bytes, stats.peak_reserved_bytes);
    EXPECT_U64_EQ(stats.mappings, stats.peak_mappings);
    mend_sim_clear_faults(world.sim);
    mend_world_check(&world);
    mend_world_close(&world);
}

/* Small requests above a page, and free chunks of a page each that lie apart. */
MEND_TEST(pool_corners, small_requests_join_free_chunks_too)
{
    mend_world world;
    mend_world_init(&world);
    world.sim_config.memory_bytes = 4 * MEND_MIB;
    world.pool_config.small_chunk_bytes = 64 * MEND_KIB;
    world.pool_config.small_request_bytes = 512 * MEND_KIB;
    ASSERT_TRUE(mend_world_open(&world));
    void *blocks[64];
    for (int i = 0; i < 64; i++) {
        ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 64 * MEND_KIB, NULL, &blocks[i]));
    }
    for (int i = 0; i < 64; i += 2) {
        EXPECT_RESULT(MEND_OK, mend_free(world.pool, blocks[i], NULL));
    }
    EXPECT_U64_EQ(2 * MEND_MIB, mend_world_stats(&world).free_empty_bytes);
    void *joined;
    for (int i = 0; i < 4; i++) {
        EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 512 * MEND_KIB, NULL, &joined));
    }
    mend_world_check(&world);
    mend_world_close(&world);
}

/* Polling one stream after the other can see the later fence pass before the earlier one. */
MEND_TEST(pool_corners, trim_leaves_what_is_in_flight_without_a_word)
{
    mend_world world;
    mend_world_init(&world);
    world.sim_config.memory_bytes = 8 * MEND_MIB;
    ASSERT_TRUE(mend_world_open(&world));
    mend_stream first;
    mend_stream second;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &first));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &second));
    void *block;
    void *keep;
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 2 * MEND_MIB, first, &keep));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 5 * MEND_MIB, first, &block));
    mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH,
                          .address = (uint64_t)(uintptr_t)block,
                          .size_bytes = 5 * MEND_MIB,
                          .finish_ns = 1000};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(world.sim, first, &work));
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, first));
    ASSERT_RESULT(MEND_OK, mend_alloc_aligned(world.pool, 5 * MEND_MIB, MEND_GIB, second, &block));
    EXPECT_TRUE(mend_world_stats(&world).retired_bytes > 0);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, block, second));
    uint64_t released = 1;
    EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, &released));
    mend_world_check(&world);
    mend_sim_advance(world.sim, 1000);
    /* The first stream's event is asked three times, and only the second stream's answers. */
    fail_calls(&world, "event_query", 0, 1);
    fail_calls(&world, "event_query", 1, 2);
    EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, &released));
    EXPECT_U64_EQ(0, released);
    mend_world_check(&world);
    EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, &released));
    EXPECT_U64_EQ(5 * MEND_MIB, released);
    mend_world_check(&world);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(world.pool, first));
    EXPECT_RESULT(MEND_OK, mend_forget_stream(world.pool, second));
    mend_sim_stream_destroy(world.sim, first);
    mend_sim_stream_destroy(world.sim, second);
    mend_world_close(&world);
}

/* Nobody asks for another stream's memory, so that nobody would poll. */
MEND_TEST(pool_corners, a_steady_state_on_two_streams_holds_few_events)
{
    mend_world world;
    mend_world_init(&world);
    world.sim_config.content = MEND_SIM_CONTENT_NONE;
    ASSERT_TRUE(mend_world_open(&world));
    mend_stream streams[2];
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &streams[i]));
    }
    for (int round = 0; round < 3000; round++) {
        void *blocks[2];
        for (int i = 0; i < 2; i++) {
            ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 8 * MEND_MIB, streams[i], &blocks[i]));
        }
        for (int i = 0; i < 2; i++) {
            EXPECT_RESULT(MEND_OK, mend_free(world.pool, blocks[i], streams[i]));
        }
        mend_sim_advance(world.sim, 10);
    }
    EXPECT_TRUE(mend_world_ledger(&world).events <= 200);
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(world.pool, streams[i]));
        mend_sim_stream_destroy(world.sim, streams[i]);
    }
    mend_world_close(&world);
}

/* A program built against an older header knows a shorter struct, one built against a newer a
 * longer one: what both know is filled, and nothing else is touched. */
MEND_TEST(pool_corners, structs_are_filled_as_far_as_both_sides_know_them)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    void *pointer;
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 1000, NULL, &pointer));

    mend_stats stats = MEND_STATS_INIT;
    stats.struct_size = offsetof(mend_stats, requested_bytes);
    stats.requested_bytes = 77;
    EXPECT_RESULT(MEND_OK, mend_get_stats(world.pool, &stats));
    EXPECT_U64_EQ(1024, stats.live_bytes);
    EXPECT_U64_EQ(77, stats.requested_bytes);
    struct {
        mend_stats stats;
        uint64_t later;
    } newer = {.stats = {.struct_size = sizeof(newer)}, .later = 77};
    EXPECT_RESULT(MEND_OK, mend_get_stats(world.pool, &newer.stats));
    EXPECT_U64_EQ(1000, newer.stats.requested_bytes);
    EXPECT_U64_EQ(77, newer.later);

    mend_block_info info = MEND_BLOCK_INFO_INIT;
    info.struct_size = offsetof(mend_block_info, stream);
    info.pool = NULL;
    EXPECT_RESULT(MEND_OK, mend_get_block_info(world.pool, pointer, &info));
    EXPECT_U64_EQ(1000, info.requested_bytes);
    EXPECT_PTR_EQ(NULL, info.pool);
    info.struct_size = 0;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_get_block_info(world.pool, pointer, &info));

    mend_error error = MEND_ERROR_INIT;
    error.struct_size = offsetof(mend_error, message);
    error.message = "mine";
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, error.result);
    EXPECT_STR_EQ("mine", error.message);
    mend_world_close(&world);
}

MEND_TEST(pool_corners, a_lost_context_is_told_from_a_refusal)
{
    static const int fatal[] = {4,   214, 220, 226, 700, 702, 709, 710, 714,
                                715, 716, 717, 718, 719, 721, 810, 911};
    static const int passing[] = {0, 1, 2, 201, 600, 701, 703, 704, 708, 712, 720, 900, 999};
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        EXPECT_TRUE(mend_status_is_fatal(fatal[i]));
    }
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
        EXPECT_FALSE(mend_status_is_fatal(passing[i]));
    }
}

MEND_TEST(pool_corners, map_and_access_are_asked_again_when_not_ready)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    void *pointer;
    answer_not_ready(&world, "map", 3);
    answer_not_ready(&world, "set_access", 3);
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &pointer));
    answer_not_ready(&world, "set_access", UINT64_MAX);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &pointer));
    mend_sim_clear_faults(world.sim);
    mend_world_check(&world);
    mend_world_close(&world);
}

/* Asked again at once it would be as little ready as before. */
MEND_TEST(pool_corners, the_pauses_before_it_is_asked_again_grow)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    void *pointer;
    answer_not_ready(&world, "set_access", 1);
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &pointer));
    EXPECT_U64_EQ(1000000, mend_sim_now_ns(world.sim));
    answer_not_ready(&world, "map", 3);
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &pointer));
    EXPECT_U64_EQ(8000000, mend_sim_now_ns(world.sim));
    mend_world_check(&world);
    mend_world_close(&world);
}

MEND_TEST(pool_corners, counters_and_peaks_tell_what_happened)
{
    mend_world world;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    void *blocks[3];
    fail_calls(&world, "set_access", 0, 1);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &blocks[0]));
    EXPECT_U64_EQ(0, mend_world_stats(&world).chunks_created);
    EXPECT_U64_EQ(0, mend_world_stats(&world).chunks_released);
    EXPECT_U64_EQ(0, mend_world_stats(&world).peak_reserved_bytes);
    EXPECT_U64_EQ(1, mend_world_stats(&world).driver_failures);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &blocks[i]));
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_RESULT(MEND_OK, mend_free(world.pool, blocks[i], NULL));
    }
    EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, NULL));
    mend_stats stats = mend_world_stats(&world);
    EXPECT_U64_EQ(3, stats.peak_live_blocks);
    EXPECT_U64_EQ(9 * MEND_MIB, stats.peak_reserved_bytes);
    EXPECT_U64_EQ(9, stats.chunks_created);
    EXPECT_U64_EQ(9, stats.chunks_released);
    EXPECT_U64_EQ(9, stats.peak_mappings);
    /* Addresses are kept: the next request reserves none. */
    EXPECT_TRUE(stats.address_bytes > 0);
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 3 * MEND_MIB, NULL, &blocks[0]));
    EXPECT_U64_EQ(stats.address_bytes, mend_world_stats(&world).address_bytes);
    mend_world_close(&world);
}

/* Uses a block until `finish_ns`. */
static void use_until(mend_world *world, mend_stream stream, void *pointer, uint64_t finish_ns)
{
    mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH,
                          .address = (uint64_t)(uintptr_t)pointer,
                          .size_bytes = 512,
                          .finish_ns = finish_ns};
    EXPECT_RESULT(MEND_OK, mend_sim_launch(world->sim, stream, &work));
}

MEND_TEST(pool_corners, a_hopeless_request_does_not_wait_for_work_in_flight)
{
    mend_world world;
    mend_stream busy;
    void *pointer;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &busy));
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, MEND_MIB, busy, &pointer));
    use_until(&world, busy, pointer, 1000);
    EXPECT_RESULT(MEND_OK, mend_free(world.pool, pointer, busy));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(world.pool, 65 * MEND_MIB, NULL, &pointer));
    EXPECT_U64_EQ(0, mend_world_stats(&world).host_waits);
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, 64 * MEND_MIB, NULL, &pointer));
    mend_world_check(&world);
    mend_world_close(&world);
}

MEND_TEST(pool_corners, destroy_waits_for_work_in_flight)
{
    mend_world world;
    void *pointer;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, MEND_MIB, NULL, &pointer));
    use_until(&world, NULL, pointer, 1000);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(world.pool));
    EXPECT_TRUE(mend_sim_now_ns(world.sim) >= 1000);
    mend_sim_advance(world.sim, 1000);
    EXPECT_STR_EQ("", mend_sim_first_violation(world.sim));
    mend_sim_destroy(world.sim);
}

MEND_TEST(pool_corners, a_pool_of_another_process_is_refused)
{
    mend_world world;
    void *pointer = NULL;
    mend_stats stats = MEND_STATS_INIT;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    world.pool->generation++; /* as if it had been inherited through fork */
    EXPECT_RESULT(MEND_ERROR_FORKED, mend_alloc(world.pool, 512, NULL, &pointer));
    EXPECT_RESULT(MEND_ERROR_FORKED, mend_free(world.pool, &stats, NULL));
    EXPECT_RESULT(MEND_ERROR_FORKED, mend_trim(world.pool, 0, NULL));
    EXPECT_RESULT(MEND_ERROR_FORKED, mend_get_stats(world.pool, &stats));
    EXPECT_RESULT(MEND_ERROR_FORKED, mend_pool_destroy(world.pool));
    world.pool->generation--;
    mend_world_close(&world);
}

/* New memory is made beside a capture in the same thread, and the thread is as it was. */
MEND_TEST(pool_corners, calls_leave_the_thread_s_capture_mode_alone)
{
    mend_world world;
    mend_stream captured;
    void *pointer;
    mend_capture_mode mode = MEND_CAPTURE_MODE_THREAD_LOCAL;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    const mend_driver *driver = mend_sim_driver(world.sim);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->exchange_capture_mode(driver, &mode));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &captured));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(world.sim, captured, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, MEND_MIB, NULL, &pointer));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(world.sim, captured, NULL));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->exchange_capture_mode(driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_THREAD_LOCAL, mode);
    mend_world_check(&world);
    mend_world_close(&world);
}

/* The device is lost at the very unmapping of a trim. */
MEND_TEST(pool_corners, a_trim_that_finds_the_device_lost_says_so)
{
    mend_world world;
    void *pointer = NULL;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, MEND_MIB, NULL, &pointer));
    ASSERT_RESULT(MEND_OK, mend_free(world.pool, pointer, NULL));
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "unmap";
    fault.status = 4;
    ASSERT_RESULT(MEND_OK, mend_sim_fail(world.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_trim(world.pool, 0, NULL));
    mend_pool_destroy(world.pool);
    mend_sim_destroy(world.sim);
}

/* The device is lost while the end waits for it; a driver that takes back what it gave is given it.
 */
MEND_TEST(pool_corners, the_end_of_a_lost_pool_gives_back_what_is_taken)
{
    enum { LOST = 700, BOTH_TRIES = 2 };
    mend_world world;
    void *pointer;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, MEND_MIB, NULL, &pointer));
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "context_synchronize";
    fault.status = LOST;
    fault.count = BOTH_TRIES;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(world.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_pool_destroy(world.pool));
    mend_sim_ledger ledger = mend_world_ledger(&world);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(0, ledger.reservations);
    mend_sim_destroy(world.sim);
}

/* Each host allocation of a trim fails in turn; the last is for what its unmapping makes free. */
MEND_TEST(pool_corners, a_trim_without_host_memory_says_so)
{
    enum { MOST_ALLOCATIONS = 6 };
    int succeeded = 0;
    int left_unmapping = 0;
    for (uint64_t after = 0; after < MOST_ALLOCATIONS; after++) {
        mend_world world;
        void *pointer;
        mend_unwatched_driver unwatched;
        mend_world_init(&world);
        ASSERT_TRUE(mend_world_open_device(&world));
        mend_unwatched_driver_init(&unwatched, mend_sim_driver(world.sim));
        ASSERT_TRUE(mend_world_open_pool(&world, &unwatched.table));
        EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, MEND_MIB, NULL, &pointer));
        EXPECT_RESULT(MEND_OK, mend_free(world.pool, pointer, NULL));
        mend_slab *gaps = &world.pool->heap.space.gap_slab;
        size_t withheld = gaps->free_count - gaps->promised_count;
        gaps->promised_count += withheld;
        mend_test_fail_host_memory_after(after, UINT64_MAX);
        mend_test_watch_host_memory(true);
        mend_result result = mend_trim(world.pool, 0, NULL);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        gaps->promised_count -= withheld;
        EXPECT_RESULT(mend_world_stats(&world).reserved_bytes == 0 ? MEND_OK
                                                                   : MEND_ERROR_OUT_OF_HOST_MEMORY,
                      result);
        succeeded += result == MEND_OK;
        left_unmapping += mend_world_stats(&world).retired_bytes > 0;
        EXPECT_RESULT(MEND_OK, mend_trim(world.pool, 0, NULL));
        EXPECT_U64_EQ(0, mend_world_stats(&world).reserved_bytes);
        mend_world_check(&world);
        mend_world_close(&world);
    }
    EXPECT_TRUE(succeeded > 0 && left_unmapping > 0);
}
