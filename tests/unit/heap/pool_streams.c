/* Memory that crosses from stream to stream: when it may, and who waits for whom. */
#include "driver/driver.h"
#include "tests/support/kit.h"

typedef struct two_streams {
    mend_world w;
    mend_stream first;
    mend_stream second;
} two_streams;

/* A device of 8 MiB, so that a block of 5 MiB is in everybody's way. */
static bool open_two(two_streams *t, int allow_stream_waits)
{
    mend_world_init(&t->w);
    t->w.sim_config.memory_bytes = 8 * MEND_MIB;
    t->w.pool_config.allow_stream_waits = allow_stream_waits;
    return kit_open(&t->w) && mend_sim_stream_create(t->w.sim, &t->first) == MEND_OK &&
           mend_sim_stream_create(t->w.sim, &t->second) == MEND_OK;
}

static void close_two(two_streams *t)
{
    mend_world_check(&t->w);
    mend_sim_stream_destroy(t->w.sim, t->first);
    mend_sim_stream_destroy(t->w.sim, t->second);
    kit_close(&t->w);
}

/* Writes a block now, and checks it after `duration_ns` in the order of the stream. */
static void use(two_streams *t, mend_stream stream, void *pointer, uint64_t tag,
                uint64_t duration_ns)
{
    kit_launch(&t->w, stream, MEND_SIM_WORK_WRITE, pointer, 5 * MEND_MIB, tag, 0);
    kit_launch(&t->w, stream, MEND_SIM_WORK_VERIFY, pointer, 5 * MEND_MIB, tag,
               mend_sim_now_ns(t->w.sim) + duration_ns);
}

static void *allocate(two_streams *t, mend_stream stream)
{
    void *pointer = kit_alloc(&t->w, 5 * MEND_MIB, stream);
    return pointer;
}

MEND_TEST(pool_streams, the_same_stream_reuses_at_once)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    use(&t, t.first, block, 1, 1000);
    kit_free(&t.w, block, t.first);
    EXPECT_PTR_EQ(block, allocate(&t, t.first));
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).stream_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).host_waits);
    close_two(&t);
}

MEND_TEST(pool_streams, another_stream_waits_on_the_device)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    use(&t, t.first, block, 1, 1000);
    kit_free(&t.w, block, t.first);
    void *again = allocate(&t, t.second);
    use(&t, t.second, again, 2, 10); /* would overwrite the first block's bytes without the wait */
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).stream_waits);
    EXPECT_U64_EQ(0, mend_world_ledger(&t.w).host_syncs);
    mend_sim_advance(t.w.sim, 2000);
    close_two(&t);
}

MEND_TEST(pool_streams, without_stream_waits_the_host_waits_at_the_end_of_the_ladder)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, -1));
    void *block = allocate(&t, t.first);
    use(&t, t.first, block, 1, 1000);
    kit_free(&t.w, block, t.first);
    void *again = allocate(&t, t.second);
    use(&t, t.second, again, 2, 10);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).stream_waits);
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).host_waits);
    mend_sim_advance(t.w.sim, 2000);
    close_two(&t);
}

MEND_TEST(pool_streams, a_passed_fence_needs_no_wait)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    use(&t, t.first, block, 1, 1000);
    kit_free(&t.w, block, t.first);
    mend_sim_advance(t.w.sim, 1000);
    allocate(&t, t.second);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).stream_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).host_waits);
    close_two(&t);
}

MEND_TEST(pool_streams, a_recorded_user_holds_the_block)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, -1));
    void *block = allocate(&t, t.first);
    use(&t, t.first, block, 1, 10);
    EXPECT_RESULT(MEND_OK, mend_record_stream(t.w.pool, block, t.second));
    EXPECT_RESULT(MEND_OK, mend_record_stream(t.w.pool, block, t.second));
    use(&t, t.second, block, 1, 1000); /* reads on, after the first stream is done */
    kit_free(&t.w, block, t.first);
    mend_sim_advance(t.w.sim, 100);
    void *again = allocate(&t, t.first); /* its own stream must wait for the other user */
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).host_waits);
    use(&t, t.first, again, 2, 10);
    mend_sim_advance(t.w.sim, 2000);
    close_two(&t);
}

MEND_TEST(pool_streams, memory_freed_without_a_stream_waits_for_the_context)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    use(&t, t.first, block, 1, 1000);
    kit_free(&t.w, block, MEND_NO_STREAM);
    EXPECT_U64_EQ(0, mend_world_ledger(&t.w).host_syncs);
    void *again = allocate(&t, t.first);
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).host_waits);
    use(&t, t.first, again, 2, 10);
    close_two(&t);
}

MEND_TEST(pool_streams, a_forgotten_stream_still_protects_its_memory)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    EXPECT_RESULT(MEND_OK, mend_record_stream(t.w.pool, block, t.second));
    use(&t, t.second, block, 1, 1000);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(t.w.pool, t.second));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(t.w.sim, t.second));
    /* Its handle may come again, for a stream that has nothing to do with the block. */
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(t.w.sim, &t.second));
    kit_free(&t.w, block, t.first);
    void *again = allocate(&t, t.second);
    use(&t, t.second, again, 2, 10);
    mend_sim_advance(t.w.sim, 2000);
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).stream_waits);
    close_two(&t);
}

/* Its fence has passed, but a block names it: a stream that comes then has nothing to do with it.
 */
MEND_TEST(pool_streams, a_block_holds_the_slot_of_a_forgotten_stream)
{
    two_streams t;
    mend_stream third;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    EXPECT_RESULT(MEND_OK, mend_record_stream(t.w.pool, block, t.second));
    EXPECT_RESULT(MEND_OK, mend_forget_stream(t.w.pool, t.second));
    EXPECT_RESULT(MEND_OK, mend_trim(t.w.pool, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(t.w.sim, &third));
    kit_alloc(&t.w, 512, third);
    use(&t, third, block, 1, 1000);
    kit_free(&t.w, block, t.first);
    allocate(&t, t.first);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).stream_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).host_waits);
    mend_sim_advance(t.w.sim, 2000);
    mend_sim_stream_destroy(t.w.sim, third);
    close_two(&t);
}

MEND_TEST(pool_streams, a_stream_in_the_slot_of_a_forgotten_one_is_waited_for)
{
    two_streams t;
    mend_stream third;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    kit_alloc(&t.w, 512, t.second);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(t.w.pool, t.second));
    EXPECT_RESULT(MEND_OK, mend_trim(t.w.pool, 0, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(t.w.sim, &third));
    EXPECT_RESULT(MEND_OK, mend_record_stream(t.w.pool, block, third));
    use(&t, third, block, 1, 1000);
    kit_free(&t.w, block, t.first);
    void *again = allocate(&t, t.first);
    use(&t, t.first, again, 2, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).stream_waits);
    mend_sim_advance(t.w.sim, 2000);
    mend_sim_stream_destroy(t.w.sim, third);
    close_two(&t);
}

MEND_TEST(pool_streams, a_forgotten_stream_is_learnt_anew)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(t.w.pool, t.first));
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).streams);
    kit_free(&t.w, block, t.first);
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).streams);
    close_two(&t);
}

MEND_TEST(pool_streams, the_two_names_of_the_legacy_stream_are_one)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, -1));
    void *block = allocate(&t, NULL);
    use(&t, NULL, block, 1, 1000);
    kit_free(&t.w, block, (mend_stream)(uintptr_t)1);
    EXPECT_PTR_EQ(block, allocate(&t, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).host_waits);
    EXPECT_U64_EQ(1, mend_world_stats(&t.w).streams);
    close_two(&t);
}

MEND_TEST(pool_streams, a_stream_the_driver_does_not_know_is_refused)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, 0));
    uint64_t violations = mend_world_ledger(&t.w).violations;
    void *pointer = NULL;
    int no_stream;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "stream_get_capture"; /* the first that is asked */
    fault.status = MEND_DRIVER_INVALID_HANDLE;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(t.w.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_UNKNOWN_STREAM,
                  mend_alloc(t.w.pool, 512, (mend_stream)(void *)&no_stream, &pointer));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_U64_EQ(violations, mend_world_ledger(&t.w).violations);
    /* A driver that does not look first may answer anything, or end the process. */
    EXPECT_RESULT(MEND_ERROR_DRIVER,
                  mend_alloc(t.w.pool, 512, (mend_stream)(void *)&no_stream, &pointer));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_TRUE(mend_world_ledger(&t.w).violations > violations);
    mend_sim_stream_destroy(t.w.sim, t.first);
    mend_sim_stream_destroy(t.w.sim, t.second);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(t.w.pool));
    mend_sim_destroy(t.w.sim);
}

MEND_TEST(pool_streams, a_moved_chunk_is_unmapped_only_after_its_fence)
{
    two_streams t;
    ASSERT_TRUE(open_two(&t, 0));
    void *block = allocate(&t, t.first);
    use(&t, t.first, block, 1, 1000);
    kit_free(&t.w, block, t.first);
    void *large = NULL; /* the chunks of the first block move, while its work is in flight */
    ASSERT_RESULT(MEND_OK, mend_alloc_aligned(t.w.pool, 8 * MEND_MIB, MEND_GIB, t.first, &large));
    EXPECT_TRUE(mend_world_stats(&t.w).chunks_moved > 0);
    EXPECT_TRUE(mend_world_stats(&t.w).retired_bytes >= 5 * MEND_MIB);
    mend_sim_advance(t.w.sim, 1000);
    kit_free(&t.w, large, t.first);
    EXPECT_RESULT(MEND_OK, mend_trim(t.w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&t.w).retired_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&t.w).chunk_bytes);
    close_two(&t);
}
