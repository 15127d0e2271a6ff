/* Memory that crosses from stream to stream: when it may, and who waits for whom. */
#include "driver/driver.h"
#include "tests/support/kit.h"

/* A device of 8 MiB, so that two blocks of 5 MiB do not fit. */
enum { BLOCK_BYTES = 5 << 20 };

#define WAITING_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_allowing(w, 8 * MEND_MIB, 0))

/* Of the other stream, unless it is the same: what it writes would be spoilt without the wait. */
static const struct {
    bool is_same, is_freed_nowhere, has_passed;
    int stream_waits; /* allowed */
    uint64_t on_device, on_host;
} crossings[] = {{.is_same = true},
                 {.on_device = 1},
                 {.stream_waits = -1, .on_host = 1}, /* at the end of the ladder */
                 {.has_passed = true},
                 {.is_same = true, .is_freed_nowhere = true, .on_host = 1}};

KIT_EACH(pool_streams, memory_crosses_behind_the_wait_it_needs, int, i, 5,
         kit_open_allowing(w, 8 * MEND_MIB, crossings[i].stream_waits))
{
    const mend_stream freed_on = crossings[i].is_freed_nowhere ? MEND_NO_STREAM : S(0);
    void *block = kit_leave_in_flight(w, BLOCK_BYTES, S(0), 1000, freed_on);
    mend_sim_advance(w->sim, crossings[i].has_passed ? 1000 : 0);
    EXPECT_LEDGER(w, host_syncs, 0);
    void *again = kit_alloc_used(w, BLOCK_BYTES, S(crossings[i].is_same ? 0 : 1), 10);
    EXPECT_TRUE(again == block || i > 0);
    kit_expect_waits(w, crossings[i].on_device, crossings[i].on_host);
    EXPECT_LEDGER(w, host_syncs, crossings[i].on_host);
}

KIT_TEST_IN(pool_streams, a_recorded_user_holds_the_block, kit_open_allowing(w, 8 * MEND_MIB, -1))
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    kit_write(w, S(0), block, BLOCK_BYTES);
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_verify_until(w, S(0), block, BLOCK_BYTES, 10);
    kit_verify_until(w, S(1), block, BLOCK_BYTES, 1000); /* reads on, after the first */
    kit_free(w, block, S(0));
    mend_sim_advance(w->sim, 100);
    /* Its own stream must wait for the other user. */
    void *again = kit_alloc(w, BLOCK_BYTES, S(0));
    EXPECT_STATS(w, host_waits, 1);
    kit_use(w, S(0), again, BLOCK_BYTES, 10);
}

WAITING_TEST(pool_streams, a_forgotten_stream_still_protects_its_memory)
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    kit_use(w, S(1), block, BLOCK_BYTES, 1000);
    kit_end_stream(w, S(1));
    /* Its handle may come again, for a stream that has nothing to do with the block. */
    EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &S(1)));
    kit_free(w, block, S(0));
    kit_alloc_used(w, BLOCK_BYTES, S(1), 10);
    mend_sim_advance(w->sim, 2000);
    EXPECT_STATS(w, stream_waits, 1);
}

/* Its fence has passed, but a block names it: a stream that comes then has nothing to do with it.
 */
WAITING_TEST(pool_streams, a_block_holds_the_slot_of_a_forgotten_stream)
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    EXPECT_OK(mend_forget_stream(w->pool, S(1)));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    mend_stream third = kit_stream(w);
    kit_alloc(w, 512, third);
    kit_use(w, third, block, BLOCK_BYTES, 1000);
    kit_free(w, block, S(0));
    kit_alloc(w, BLOCK_BYTES, S(0));
    kit_expect_waits(w, 0, 0);
    mend_sim_advance(w->sim, 2000);
    mend_sim_stream_destroy(w->sim, third);
}

WAITING_TEST(pool_streams, a_stream_in_the_slot_of_a_forgotten_one_is_waited_for)
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    kit_alloc(w, 512, S(1));
    EXPECT_OK(mend_forget_stream(w->pool, S(1)));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    mend_stream third = kit_stream(w);
    EXPECT_OK(mend_record_stream(w->pool, block, third));
    kit_use(w, third, block, BLOCK_BYTES, 1000);
    kit_free(w, block, S(0));
    kit_alloc_used(w, BLOCK_BYTES, S(0), 10);
    EXPECT_STATS(w, stream_waits, 1);
    mend_sim_advance(w->sim, 2000);
    mend_sim_stream_destroy(w->sim, third);
}

WAITING_TEST(pool_streams, a_forgotten_stream_is_learnt_again)
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    EXPECT_OK(mend_forget_stream(w->pool, S(0)));
    EXPECT_STATS(w, streams, 0);
    kit_free(w, block, S(0));
    EXPECT_STATS(w, streams, 1);
}

KIT_TEST_IN(pool_streams, the_two_names_of_the_legacy_stream_are_one,
            kit_open_allowing(w, 8 * MEND_MIB, -1))
{
    void *block = kit_leave_in_flight(w, BLOCK_BYTES, NULL, 1000, (mend_stream)(uintptr_t)1);
    EXPECT_PTR_EQ(block, kit_alloc(w, BLOCK_BYTES, NULL));
    EXPECT_STATS(w, host_waits, 0, streams, 1);
}

KIT_LAST_TEST(pool_streams, a_stream_the_driver_does_not_know_is_refused,
              kit_open_allowing(w, 8 * MEND_MIB, 0))
{
    uint64_t violations = mend_world_ledger(w).violations;
    void *pointer = NULL;
    int no_stream;
    /* the first that is asked */
    kit_fail(w, "stream_get_capture", 0, 0, MEND_DRIVER_INVALID_HANDLE);
    EXPECT_ERROR(UNKNOWN_STREAM,
                 mend_alloc(w->pool, 512, (mend_stream)(void *)&no_stream, &pointer));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_LEDGER(w, violations, violations);
    /* A driver that does not look first may answer anything, or end the process. */
    EXPECT_ERROR(DRIVER, mend_alloc(w->pool, 512, (mend_stream)(void *)&no_stream, &pointer));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_TRUE(mend_world_ledger(w).violations > violations);
    mend_sim_stream_destroy(w->sim, S(0));
    mend_sim_stream_destroy(w->sim, S(1));
    EXPECT_OK(mend_pool_destroy(w->pool));
}

WAITING_TEST(pool_streams, a_moved_chunk_is_unmapped_only_after_its_fence)
{
    kit_leave_in_flight(w, BLOCK_BYTES, S(0), 1000, S(0));
    /* the chunks of the first block move, while its work is in flight */
    void *large = kit_alloc_aligned(w, 8 * MEND_MIB, MEND_GIB, S(0));
    EXPECT_TRUE(mend_world_stats(w).chunks_moved > 0);
    EXPECT_TRUE(mend_world_stats(w).retired_bytes >= BLOCK_BYTES);
    mend_sim_advance(w->sim, 1000);
    kit_free(w, large, S(0));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, retired_bytes, 0);
    EXPECT_LEDGER(w, chunk_bytes, 0);
}
