/* Memory that crosses from stream to stream: when it may, and who waits for whom. */
#include "driver/driver.h"
#include "tests/support/kit.h"

/* A device of 8 MiB, so that two blocks of 5 MiB do not fit. */
enum { BLOCK_BYTES = 5 << 20 };

MEND_TEST(pool_streams, the_same_stream_reuses_at_once)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    void *block = kit_leave_in_flight(&w, BLOCK_BYTES, w.streams[0], 1000, w.streams[0]);
    EXPECT_PTR_EQ(block, kit_alloc(&w, BLOCK_BYTES, w.streams[0]));
    kit_expect_waits(&w, 0, 0);
    kit_close(&w);
}

MEND_TEST(pool_streams, another_stream_waits_on_the_device)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    kit_leave_in_flight(&w, BLOCK_BYTES, w.streams[0], 1000, w.streams[0]);
    kit_alloc_used(&w, BLOCK_BYTES, w.streams[1], 10); /* would spoil it without the wait */
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    EXPECT_U64_EQ(0, mend_world_ledger(&w).host_syncs);
    mend_sim_advance(w.sim, 2000);
    kit_close(&w);
}

MEND_TEST(pool_streams, without_stream_waits_the_host_waits_at_the_end_of_the_ladder)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, -1));
    kit_leave_in_flight(&w, BLOCK_BYTES, w.streams[0], 1000, w.streams[0]);
    kit_alloc_used(&w, BLOCK_BYTES, w.streams[1], 10);
    kit_expect_waits(&w, 0, 1);
    mend_sim_advance(w.sim, 2000);
    kit_close(&w);
}

MEND_TEST(pool_streams, a_passed_fence_needs_no_wait)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    kit_leave_in_flight(&w, BLOCK_BYTES, w.streams[0], 1000, w.streams[0]);
    mend_sim_advance(w.sim, 1000);
    kit_alloc(&w, BLOCK_BYTES, w.streams[1]);
    kit_expect_waits(&w, 0, 0);
    kit_close(&w);
}

MEND_TEST(pool_streams, a_recorded_user_holds_the_block)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, -1));
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    kit_write(&w, w.streams[0], block, BLOCK_BYTES);
    EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[1]));
    kit_verify_until(&w, w.streams[0], block, BLOCK_BYTES, 10);
    kit_verify_until(&w, w.streams[1], block, BLOCK_BYTES, 1000); /* reads on, after the first */
    kit_free(&w, block, w.streams[0]);
    mend_sim_advance(w.sim, 100);
    /* Its own stream must wait for the other user. */
    void *again = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    kit_use(&w, w.streams[0], again, BLOCK_BYTES, 10);
    mend_sim_advance(w.sim, 2000);
    kit_close(&w);
}

MEND_TEST(pool_streams, memory_freed_without_a_stream_waits_for_the_context)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    kit_leave_in_flight(&w, BLOCK_BYTES, w.streams[0], 1000, MEND_NO_STREAM);
    EXPECT_U64_EQ(0, mend_world_ledger(&w).host_syncs);
    void *again = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    kit_use(&w, w.streams[0], again, BLOCK_BYTES, 10);
    kit_close(&w);
}

MEND_TEST(pool_streams, a_forgotten_stream_still_protects_its_memory)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[1]));
    kit_use(&w, w.streams[1], block, BLOCK_BYTES, 1000);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, w.streams[1]));
    /* Its handle may come again, for a stream that has nothing to do with the block. */
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &w.streams[1]));
    kit_free(&w, block, w.streams[0]);
    kit_alloc_used(&w, BLOCK_BYTES, w.streams[1], 10);
    mend_sim_advance(w.sim, 2000);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    kit_close(&w);
}

/* Its fence has passed, but a block names it: a stream that comes then has nothing to do with it.
 */
MEND_TEST(pool_streams, a_block_holds_the_slot_of_a_forgotten_stream)
{
    mend_world w;
    mend_stream third;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &third));
    kit_alloc(&w, 512, third);
    kit_use(&w, third, block, BLOCK_BYTES, 1000);
    kit_free(&w, block, w.streams[0]);
    kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    kit_expect_waits(&w, 0, 0);
    mend_sim_advance(w.sim, 2000);
    mend_sim_stream_destroy(w.sim, third);
    kit_close(&w);
}

MEND_TEST(pool_streams, a_stream_in_the_slot_of_a_forgotten_one_is_waited_for)
{
    mend_world w;
    mend_stream third;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    kit_alloc(&w, 512, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &third));
    EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, third));
    kit_use(&w, third, block, BLOCK_BYTES, 1000);
    kit_free(&w, block, w.streams[0]);
    kit_alloc_used(&w, BLOCK_BYTES, w.streams[0], 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    mend_sim_advance(w.sim, 2000);
    mend_sim_stream_destroy(w.sim, third);
    kit_close(&w);
}

MEND_TEST(pool_streams, a_forgotten_stream_is_learnt_again)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, w.streams[0]));
    EXPECT_U64_EQ(0, mend_world_stats(&w).streams);
    kit_free(&w, block, w.streams[0]);
    EXPECT_U64_EQ(1, mend_world_stats(&w).streams);
    kit_close(&w);
}

MEND_TEST(pool_streams, the_two_names_of_the_legacy_stream_are_one)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, -1));
    void *block = kit_leave_in_flight(&w, BLOCK_BYTES, NULL, 1000, (mend_stream)(uintptr_t)1);
    EXPECT_PTR_EQ(block, kit_alloc(&w, BLOCK_BYTES, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    EXPECT_U64_EQ(1, mend_world_stats(&w).streams);
    kit_close(&w);
}

MEND_TEST(pool_streams, a_stream_the_driver_does_not_know_is_refused)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    uint64_t violations = mend_world_ledger(&w).violations;
    void *pointer = NULL;
    int no_stream;
    /* the first that is asked */
    kit_fail(&w, "stream_get_capture", 0, 0, MEND_DRIVER_INVALID_HANDLE);
    EXPECT_RESULT(MEND_ERROR_UNKNOWN_STREAM,
                  mend_alloc(w.pool, 512, (mend_stream)(void *)&no_stream, &pointer));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_U64_EQ(violations, mend_world_ledger(&w).violations);
    /* A driver that does not look first may answer anything, or end the process. */
    EXPECT_RESULT(MEND_ERROR_DRIVER,
                  mend_alloc(w.pool, 512, (mend_stream)(void *)&no_stream, &pointer));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_TRUE(mend_world_ledger(&w).violations > violations);
    mend_sim_stream_destroy(w.sim, w.streams[0]);
    mend_sim_stream_destroy(w.sim, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(w.pool));
    mend_sim_destroy(w.sim);
}

MEND_TEST(pool_streams, a_moved_chunk_is_unmapped_only_after_its_fence)
{
    mend_world w;
    ASSERT_TRUE(kit_open_allowing(&w, 8 * MEND_MIB, 0));
    kit_leave_in_flight(&w, BLOCK_BYTES, w.streams[0], 1000, w.streams[0]);
    /* the chunks of the first block move, while its work is in flight */
    void *large = kit_alloc_aligned(&w, 8 * MEND_MIB, MEND_GIB, w.streams[0]);
    EXPECT_TRUE(mend_world_stats(&w).chunks_moved > 0);
    EXPECT_TRUE(mend_world_stats(&w).retired_bytes >= BLOCK_BYTES);
    mend_sim_advance(w.sim, 1000);
    kit_free(&w, large, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).retired_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&w).chunk_bytes);
    kit_close(&w);
}
