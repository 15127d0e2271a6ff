/* Growable ranges on several streams, and their end. */
#include <string.h>

#include "mend/mend_sleep.h"
#include "observe/remains.h"
#include "pool/pool.h"
#include "tests/unit/pool/pages.h"

MEND_TEST(pool_range_streams, memory_passes_to_other_streams_behind_their_work)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 2 * MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 2 * MEND_MIB, w.streams[0]);
    kit_use(&w, w.streams[0], at(range, 0), 2 * MEND_MIB, 50000);
    expect_decommit(range, 0, 2 * MEND_MIB, w.streams[0]);
    void *block = kit_alloc(&w, 2 * MEND_MIB, w.streams[1]); /* behind a wait on the device */
    kit_use(&w, w.streams[1], block, 2 * MEND_MIB, 10);
    kit_expect_waits(&w, 1, 0);
    kit_free(&w, block, w.streams[1]);
    EXPECT_TRUE(mend_world_check(&w));
    expect_commit(range, 0, MEND_MIB, w.streams[2]); /* the old mapping is in use by stream 0 */
    kit_use(&w, w.streams[2], at(range, 0), MEND_MIB, 10);
    EXPECT_TRUE(mend_world_stats(&w).host_waits > 0);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[2]));
    kit_close(&w);
}

MEND_TEST(pool_range_streams, the_same_pages_for_another_stream_wait_on_the_device)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 2 * MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 2 * MEND_MIB, w.streams[0]);
    kit_use(&w, w.streams[0], at(range, 0), 2 * MEND_MIB, 50000);
    expect_decommit(range, 0, 2 * MEND_MIB, w.streams[0]);
    expect_commit(range, 0, 2 * MEND_MIB, w.streams[1]);
    kit_use(&w, w.streams[1], at(range, 0), 2 * MEND_MIB, 10);
    kit_expect_waits(&w, 1, 0);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[1]));
    kit_close(&w);
}

MEND_TEST(pool_range_streams, recorded_streams_keep_the_memory)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = MEND_MIB;
    w.pool_config.allow_stream_waits = -1;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, MEND_MIB, w.streams[0]);
    kit_write(&w, w.streams[0], at(range, 0), MEND_MIB);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(w.sim, w.streams[1], w.streams[0]));
    kit_verify_until(&w, w.streams[1], at(range, 0), MEND_MIB, mend_sim_now_ns(w.sim) + 90000);
    EXPECT_RESULT(MEND_OK, mend_range_record_stream(range, 0, MEND_MIB, w.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_range_record_stream(range, 0, MEND_MIB, w.streams[1]));
    EXPECT_TRUE(mend_world_check(&w));
    expect_decommit(range, 0, MEND_MIB, w.streams[0]);
    void *block = kit_alloc(&w, MEND_MIB, w.streams[0]);
    kit_use(&w, w.streams[0], block, MEND_MIB, 10);
    EXPECT_TRUE(mend_world_stats(&w).host_waits > 0);
    kit_free(&w, block, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range_streams, pages_in_use_by_another_stream_wait_on_the_host)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.allow_stream_waits = -1;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, MEND_MIB, w.streams[0]);
    kit_use(&w, w.streams[0], at(range, 0), MEND_MIB, 50000);
    expect_decommit(range, 0, MEND_MIB, w.streams[0]);
    expect_commit(range, 0, MEND_MIB, w.streams[1]);
    kit_use(&w, w.streams[1], at(range, 0), MEND_MIB, 10);
    EXPECT_TRUE(mend_world_stats(&w).host_waits > 0);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[1]));
    kit_close(&w);
}

MEND_TEST(pool_range_streams, no_stream_waits_for_all_work)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = MEND_MIB;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, MEND_MIB, MEND_NO_STREAM);
    kit_use(&w, w.streams[1], at(range, 0), MEND_MIB, 50000);
    expect_decommit(range, 0, MEND_MIB, MEND_NO_STREAM);
    void *block = kit_alloc(&w, MEND_MIB, w.streams[0]);
    kit_use(&w, w.streams[0], block, MEND_MIB, 10);
    EXPECT_TRUE(mend_world_stats(&w).host_waits > 0);
    kit_free(&w, block, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, MEND_NO_STREAM));
    kit_close(&w);
}

/* ---- the end ---------------------------------------------------------------------------------
 */

MEND_TEST(pool_range_streams, a_destroyed_range_goes_when_its_work_is_done)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]);
    kit_use(&w, w.streams[0], at(range, 0), 4 * PAGE, 50000);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    EXPECT_U64_EQ(0, mend_world_stats(&w).ranges);
    EXPECT_TRUE(mend_world_stats(&w).range_address_bytes > 0);
    EXPECT_TRUE(mend_world_check(&w));
    mend_sim_advance(w.sim, 1000000);
    uint64_t released = 0;
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, &released));
    EXPECT_U64_EQ(4 * PAGE, released);
    EXPECT_U64_EQ(0, mend_world_stats(&w).range_address_bytes);
    EXPECT_U64_EQ(0, mend_world_stats(&w).reserved_bytes);
    kit_close(&w);
}

MEND_TEST(pool_range_streams, a_pinned_page_stays_mapped)
{
    mend_world w;
    mend_world_init(&w);
    w.pool_config.limit_bytes = 8 * PAGE;
    ASSERT_TRUE(kit_open(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 2 * PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_pin(w.pool, at(range, 0), PAGE));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_range_destroy(range, w.streams[0]));
    kit_expect_words("mend_unpin");
    expect_decommit(range, 0, 2 * PAGE, w.streams[0]);
    EXPECT_TRUE(mend_world_check(&w));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_range_commit(range, 8 * PAGE, 8 * PAGE, w.streams[0]));
    expect_commit(range, 0, PAGE, w.streams[0]);
    use(&w, range, 0, PAGE, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_unpin(w.pool, at(range, 0), PAGE));
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, w.streams[0]));
    kit_close(&w);
}

MEND_TEST(pool_range_streams, a_pool_ends_with_its_ranges)
{
    mend_world w;
    ASSERT_TRUE(kit_open_default(&w));
    mend_range *range = create(&w, MEND_GIB, PAGE);
    expect_commit(range, 0, 4 * PAGE, w.streams[0]);
    mend_range *closed = create(&w, MEND_GIB, PAGE);
    expect_commit(closed, 0, PAGE, w.streams[0]);
    kit_use(&w, w.streams[0], at(closed, 0), PAGE, 50000);
    EXPECT_RESULT(MEND_OK, mend_range_destroy(closed, w.streams[0]));
    char line[MEND_REMAINS_BYTES]; /* what a destruction of the pool warns of */
    EXPECT_TRUE(mend_observe_remains(&w.pool->heap, line));
    EXPECT_STR_EQ("1 ranges, 1.00 MiB committed", line);
    kit_alloc(&w, 512, w.streams[0]);
    EXPECT_TRUE(mend_observe_remains(&w.pool->heap, line));
    EXPECT_TRUE(strstr(line, "1.00 MiB committed, and 1 blocks alive") == line + 10);
    kit_close(&w);
}
