/* Pages of ranges that read as zeros: what a program sees there, where the memory is counted, and
 * the way to committed pages and back. */
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/unit/pool/zeros.h"

static void end(mend_world *w, mend_range *range)
{
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, NULL));
    mend_sim_advance(w->sim, 1000000);
    EXPECT_RESULT(MEND_OK, mend_trim_wait(w->pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(w).zero_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(w).zero_chunk_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(w).range_address_bytes);
    kit_close(w);
}

MEND_TEST(pool_zeros, all_pages_share_one_chunk)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    mend_range *other = create(&w, PAGES * PAGE, PAGE);
    mend_range *larger = create(&w, PAGES * PAGE, 2 * PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, PAGES));
    expect_zeros(&w, range, 0, PAGES);
    EXPECT_U64_EQ(PAGE, mend_world_ledger(&w).chunk_bytes);
    EXPECT_U64_EQ(PAGES * PAGE, info_of(range).zero_bytes);
    EXPECT_U64_EQ(0, info_of(range).committed_bytes);
    EXPECT_U64_EQ(0, info_of(other).zero_bytes);
    EXPECT_RESULT(MEND_OK, map_zeros(other, 3, 2));
    EXPECT_U64_EQ(PAGE, mend_world_ledger(&w).chunk_bytes);
    EXPECT_RESULT(MEND_OK, map_zeros(larger, 2, 4));
    EXPECT_U64_EQ(3 * PAGE, mend_world_ledger(&w).chunk_bytes);
    const mend_stats stats = mend_world_stats(&w);
    EXPECT_U64_EQ((PAGES + 2 + 4) * PAGE, stats.zero_bytes);
    EXPECT_U64_EQ(3 * PAGE, stats.zero_chunk_bytes);
    EXPECT_U64_EQ(0, stats.reserved_bytes);
    EXPECT_U64_EQ(stats.zero_bytes, stats.mapped_bytes);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(other, NULL));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(larger, NULL));
    EXPECT_TRUE(mend_world_check(&w));
    end(&w, range);
}

/* A second call for the same pages makes no call of the driver. */
MEND_TEST(pool_zeros, costs_a_mapping_for_each_page)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 2));
    mend_sim_ledger before = mend_world_ledger(&w);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, PAGES));
    mend_sim_ledger after = mend_world_ledger(&w);
    EXPECT_U64_EQ(PAGES - 2, after.mappings - before.mappings);
    EXPECT_U64_EQ(before.chunks, after.chunks);
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits - 1); /* the one for the chunk */
    const uint64_t calls = calls_of(&w);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, PAGES));
    EXPECT_TRUE(calls_of(&w) - calls <= 4); /* the context, and the mode of captures */
    end(&w, range);
}

/* Devices may not write there: the context is lost. */
MEND_TEST(pool_zeros, cannot_be_written)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, PAGES));
    EXPECT_INT_EQ(0, w.driver->context_push(w.driver, w.info.context));
    EXPECT_INT_EQ(MEND_DRIVER_ILLEGAL_ADDRESS,
                  w.driver->fill(w.driver, (uintptr_t)at(range, PAGE), 1, 4, NULL));
    EXPECT_TRUE(strstr(mend_sim_first_violation(w.sim), "may only read") != NULL);
    (void)mend_pool_destroy(w.pool);
    mend_sim_destroy(w.sim);
}

MEND_TEST(pool_zeros, a_commit_takes_their_place_and_waits_for_readers)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, PAGES));
    kit_launch(&w, w.streams[1], MEND_SIM_WORK_TOUCH, at(range, 0), 4 * PAGE, 0,
               mend_sim_now_ns(w.sim) + 1000000);
    const uint64_t waits = mend_world_stats(&w).host_waits;
    expect_commit(range, 2 * PAGE, 2 * PAGE, w.streams[0]);
    EXPECT_U64_EQ(waits + 1, mend_world_stats(&w).host_waits);
    kit_write(&w, w.streams[0], at(range, 2 * PAGE), 2 * PAGE);
    kit_verify(&w, w.streams[0], at(range, 2 * PAGE), 2 * PAGE);
    expect_zeros(&w, range, 0, 2);
    expect_zeros(&w, range, 4, PAGES - 4);
    EXPECT_U64_EQ((PAGES - 2) * PAGE, info_of(range).zero_bytes);
    EXPECT_U64_EQ(2 * PAGE, info_of(range).committed_bytes);
    expect_commit(range, 4 * PAGE, 2 * PAGE, w.streams[0]);
    EXPECT_TRUE(mend_world_check(&w));

    /* And back. The free memory that was mapped there stays in the pool. */
    use(&w, range, 2 * PAGE, 2 * PAGE, w.streams[0]);
    expect_decommit(range, 2 * PAGE, 2 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, PAGES));
    expect_zeros(&w, range, 0, 4);
    expect_zeros(&w, range, 6, PAGES - 6);
    EXPECT_U64_EQ(2 * PAGE, mend_world_stats(&w).free_bytes);
    EXPECT_TRUE(mend_world_check(&w));
    end(&w, range);
}

/* The last page of zeros takes the chunk with it. */
MEND_TEST(pool_zeros, the_chunk_goes_with_its_last_page)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 2));
    expect_commit(range, 0, PAGE, w.streams[0]);
    EXPECT_U64_EQ(PAGE, mend_world_stats(&w).zero_chunk_bytes);
    expect_commit(range, PAGE, PAGE, w.streams[0]);
    EXPECT_U64_EQ(0, mend_world_stats(&w).zero_chunk_bytes);
    EXPECT_TRUE(mend_world_check(&w));
    end(&w, range);
}

MEND_TEST(pool_zeros, a_commit_without_memory_leaves_them)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.memory_bytes = 6 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, PAGES));
    void *block = kit_alloc(&w, PAGE, w.streams[1]);
    kit_leave_in_flight(&w, PAGE, w.streams[1], 1000, w.streams[1]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_range_commit(range, PAGE, 8 * PAGE, w.streams[0]));
    EXPECT_U64_EQ(PAGES * PAGE, info_of(range).zero_bytes);
    expect_zeros(&w, range, 0, PAGES);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_range_commit(range, 0, 5 * PAGE, w.streams[0]));
    expect_zeros(&w, range, 0, PAGES);
    expect_commit(range, 0, PAGE, w.streams[0]); /* beside zeros, and the chunk of the block */
    expect_zeros(&w, range, 1, PAGES - 1);
    kit_free(&w, block, w.streams[1]);
    end(&w, range);
}

MEND_TEST(pool_zeros, the_chunk_counts_in_the_limit)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 4 * PAGE));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, map_zeros(range, 8, 2));
    kit_expect_words("the limit has no room for a page of 262144 bytes");
    EXPECT_U64_EQ(0, info_of(range).zero_bytes);
    expect_decommit(range, 0, PAGE, w.streams[0]); /* free memory makes room */
    mend_sim_advance(w.sim, 1000000);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 8, 2));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_range_commit(range, 0, PAGE, w.streams[0]));
    EXPECT_U64_EQ(4 * PAGE, mend_world_ledger(&w).chunk_bytes);
    EXPECT_TRUE(mend_world_check(&w));
    end(&w, range);
}

/* Nothing is unmapped while a capture records work: the same call works behind it. */
MEND_TEST(pool_zeros, a_capture_forbids_the_change)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    kit_begin_capture(&w, w.streams[1]);
    void *known = kit_alloc(&w, 600, w.streams[1]);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, map_zeros(range, 0, 2));
    EXPECT_U64_EQ(0, info_of(range).zero_bytes);
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[1]));
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 2));
    kit_begin_capture(&w, w.streams[1]);
    void *other = kit_alloc(&w, 600, w.streams[1]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_ADDRESSES, mend_range_commit(range, 0, PAGE, w.streams[0]));
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[1]));
    expect_zeros(&w, range, 0, 2);
    expect_commit(range, 0, PAGE, w.streams[0]);
    kit_free(&w, known, w.streams[1]);
    kit_free(&w, other, w.streams[1]);
    end(&w, range);
}

MEND_TEST(pool_zeros, another_device_reads_them)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.device_count = 2;
    ASSERT_TRUE(kit_open(&w));
    const mend_driver *driver = w.driver;
    mend_device_info second = {0};
    mend_stream stream = NULL;
    mend_pool *other = NULL;
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 2));
    EXPECT_RESULT(MEND_OK, map_zeros(range, 4, 2));
    mend_pool_config config = w.pool_config;
    config.device = 1;
    EXPECT_RESULT(MEND_OK, mend_pool_create(&config, &other));
    EXPECT_INT_EQ(0, driver->device_open(driver, 1, &second));
    EXPECT_INT_EQ(0, driver->context_push(driver, second.context));
    EXPECT_INT_EQ(0, driver->stream_create(driver, &stream));
    for (uint64_t page = 0; page < 6; page += 4) {
        kit_launch(&w, stream, MEND_SIM_WORK_TOUCH, at(range, page * PAGE), 2 * PAGE, 0, 0);
    }
    EXPECT_INT_EQ(0, driver->context_synchronize(driver));
    EXPECT_INT_EQ(0, driver->stream_destroy(driver, stream));
    EXPECT_INT_EQ(0, driver->context_pop(driver));
    EXPECT_INT_EQ(0, driver->device_close(driver, 1));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(other));
    end(&w, range);
}

/* Work may still read when the range is destroyed: the mappings go behind it. */
MEND_TEST(pool_zeros, a_destroyed_range_keeps_them_for_its_readers)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 4));
    kit_launch(&w, w.streams[1], MEND_SIM_WORK_TOUCH, at(range, 0), 4 * PAGE, 0,
               mend_sim_now_ns(w.sim) + 1000000);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    EXPECT_U64_EQ(4 * PAGE, mend_world_stats(&w).zero_bytes);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_RESULT(MEND_OK, mend_trim_wait(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).zero_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&w).zero_chunk_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&w).range_address_bytes);
    kit_close(&w);
}

/* Their memory serves requests, of this pool and of another one. */
MEND_TEST(pool_zeros, what_a_destroyed_range_leaves_serves_others)
{
    for (int by_peer = 0; by_peer < 2; by_peer++) {
        mend_world w;
        mend_pool *other = NULL;
        void *block = NULL;
        mend_world_init(&w);
        w.sim_config.memory_bytes = 4 * PAGE;
        ASSERT_TRUE(kit_open(&w));
        ASSERT_RESULT(MEND_OK, mend_pool_create(&w.pool_config, &other));
        mend_range *range = create(&w, PAGES * PAGE, PAGE);
        EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 4));
        EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
        mend_pool *asked = by_peer ? other : w.pool;
        EXPECT_RESULT(MEND_OK, mend_alloc(asked, 4 * PAGE, w.streams[0], &block));
        EXPECT_U64_EQ(0, mend_world_stats(&w).zero_chunk_bytes);
        EXPECT_RESULT(MEND_OK, mend_free(asked, block, w.streams[0]));
        EXPECT_RESULT(MEND_OK, mend_pool_destroy(other));
        kit_close(&w);
    }
}

/* The pool with the zeros does not know the stream of the capture that the other pool serves. */
MEND_TEST(pool_zeros, what_a_destroyed_range_leaves_waits_for_a_capture_of_another_pool)
{
    mend_world w;
    mend_pool *other = NULL;
    void *block = NULL;
    mend_world_init(&w);
    w.sim_config.memory_bytes = 4 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    ASSERT_RESULT(MEND_OK, mend_pool_create(&w.pool_config, &other));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 4));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_begin_capture(&w, w.streams[1]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(other, 4 * PAGE, w.streams[1], &block));
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_alloc(other, 4 * PAGE, w.streams[1], &block));
    EXPECT_RESULT(MEND_OK, mend_free(other, block, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(other));
    kit_close(&w);
}

/* The host does not wait for them where free memory is enough. */
MEND_TEST(pool_zeros, a_peer_pool_gives_free_memory_first)
{
    mend_world w;
    mend_pool *other = NULL;
    void *block = NULL;
    mend_world_init(&w);
    w.sim_config.memory_bytes = 8 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    ASSERT_RESULT(MEND_OK, mend_pool_create(&w.pool_config, &other));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    kit_free(&w, kit_alloc(&w, 4 * PAGE, w.streams[0]), w.streams[0]);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 4));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_alloc(other, 6 * PAGE, w.streams[0], &block));
    EXPECT_U64_EQ(PAGE, mend_world_stats(&w).zero_chunk_bytes);
    EXPECT_RESULT(MEND_OK, mend_free(other, block, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(other));
    kit_close(&w);
}

MEND_TEST(pool_zeros, what_a_destroyed_range_leaves_serves_a_wake)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    mend_range *zeros = create(&w, PAGES * PAGE, PAGE);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]);
    kit_write(&w, w.streams[0], at(range, 0), 4 * PAGE);
    EXPECT_RESULT(MEND_OK, mend_sleep(w.pool, NULL, NULL));
    EXPECT_RESULT(MEND_OK, map_zeros(zeros, 0, 4));
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 4 * PAGE));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_wake(w.pool, NULL, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(zeros, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_wake(w.pool, NULL, 0, NULL));
    kit_verify(&w, w.streams[0], at(range, 0), 4 * PAGE);
    EXPECT_TRUE(mend_world_check(&w));
    end(&w, range);
}

/* What a full device had once is not what it has now. */
MEND_TEST(pool_zeros, others_have_left_meanwhile)
{
    mend_world w;
    mend_world_init(&w);
    w.sim_config.memory_bytes = 8 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    mend_sim_set_foreign_bytes(w.sim, 0, 6 * PAGE);
    expect_commit(range, 0, 2 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_range_commit(range, 2 * PAGE, 2 * PAGE, w.streams[0]));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, map_zeros(range, 8, 4));
    mend_sim_set_foreign_bytes(w.sim, 0, 0);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 8, 4));
    EXPECT_TRUE(mend_world_check(&w));
    end(&w, range);
}

/* What it takes to commit one page more counts the chunk of zeros. */
MEND_TEST(pool_zeros, the_advice_counts_the_chunk)
{
    mend_world w;
    mend_error error = MEND_ERROR_INIT;
    ASSERT_TRUE(kit_open_default(&w));
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 4 * PAGE));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_OK, map_zeros(range, 8, 2));
    expect_commit(range, 0, 3 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_range_commit(range, 3 * PAGE, PAGE, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_U64_EQ(5 * PAGE, error.shortfall->sufficient_limit);
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 5 * PAGE));
    expect_commit(range, 3 * PAGE, PAGE, w.streams[0]);
    end(&w, range);
}

MEND_TEST(pool_zeros, every_misuse_has_its_error)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, PAGES * PAGE, PAGE);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_map_zeros(NULL, 0, PAGE));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_map_zeros(range, 1, PAGE));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_map_zeros(range, 0, 0));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, map_zeros(range, PAGES, 1));
    kit_expect_words("mend_range_map_zeros");
    w.pool->heap.device.aliasing = false;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, map_zeros(range, 0, 1));
    kit_expect_words("one address only");
    w.pool->heap.device.aliasing = true;
    expect_commit(range, 0, PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_pin(w.pool, at(range, 0), PAGE));
    expect_decommit(range, 0, PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_PINNED, map_zeros(range, 0, 2));
    EXPECT_U64_EQ(0, info_of(range).zero_bytes);
    EXPECT_RESULT(MEND_OK, mend_unpin(w.pool, at(range, 0), PAGE));
    EXPECT_RESULT(MEND_OK, map_zeros(range, 0, 2));
    EXPECT_TRUE(mend_world_check(&w));
    end(&w, range);
}
