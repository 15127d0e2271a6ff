/* Growable ranges on several streams, and their end. */

#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/unit/pool/pages.h"

RANGE_TEST(pool_range_streams, memory_passes_to_other_streams_behind_their_work, 2 * MEND_MIB)
{
    expect_commit(range, 0, 2 * MEND_MIB, S(0));
    kit_use(w, S(0), at(range, 0), 2 * MEND_MIB, 50000);
    expect_decommit(range, 0, 2 * MEND_MIB, S(0));
    void *block = kit_alloc(w, 2 * MEND_MIB, S(1)); /* behind a wait on the device */
    kit_use(w, S(1), block, 2 * MEND_MIB, 10);
    kit_expect_waits(w, 1, 0);
    kit_free(w, block, S(1));
    EXPECT_TRUE(mend_world_check(w));
    expect_commit(range, 0, MEND_MIB, S(2)); /* the old mapping is in use by stream 0 */
    kit_use(w, S(2), at(range, 0), MEND_MIB, 10);
    EXPECT_TRUE(mend_world_stats(w).host_waits > 0);
}

/* They are of the stream outside of it, which has freed their memory. */
RANGE_TEST(pool_range_streams, pages_are_of_no_graph_pool_that_is_begun, 4 * PAGE)
{
    expect_commit(range, 0, 4 * PAGE, S(0));
    use(w, range, 0, 4 * PAGE, S(0));
    expect_decommit(range, 0, 4 * PAGE, S(0));
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    expect_commit(range, 4 * PAGE, 4 * PAGE, S(0));
    kit_expect_waits(w, 0, 0);
    kit_end_graph_pool(graph_pool, S(0));
}

/* Of each stream that used the pages an event is recorded, while the stream must still be there. */
KIT_TEST_IN(pool_range_streams, pages_are_idle_behind_a_declared_stream_that_vanished,
            kit_open_set(w, w->pool_config.detect_destroyed_streams = 1,
                         w->pool_config.limit_bytes = 2 * MEND_MIB))
{
    mend_range *range = create(w, 2 * MEND_MIB, PAGE);
    mend_stream reader = kit_stream(w);
    expect_commit(range, 0, 2 * MEND_MIB, S(0));
    kit_use(w, reader, at(range, 0), 2 * MEND_MIB, 50000);
    EXPECT_OK(mend_range_record_stream(range, 0, 2 * MEND_MIB, reader));
    expect_decommit(range, 0, 2 * MEND_MIB, S(0));
    EXPECT_OK(mend_sim_stream_destroy(w->sim, reader));
    kit_alloc_used(w, 2 * MEND_MIB, S(1), 10); /* behind a wait on the device */
    kit_expect_waits(w, 1, 0);
    EXPECT_STATS(w, context_fences, 0);
}

RANGE_TEST(pool_range_streams, a_pinned_page_stays_mapped, 8 * PAGE)
{
    expect_commit(range, 0, 2 * PAGE, S(0));
    kit_begin_capture(w, S(0));
    EXPECT_ERROR(CAPTURING, mend_range_destroy(range, S(0)));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    EXPECT_OK(mend_pin(w->pool, at(range, 0), PAGE));
    EXPECT_REFUSAL(INVALID_ARGUMENT, "mend_unpin", mend_range_destroy(range, S(0)));
    mend_range *other = create(w, PAGE, PAGE);
    expect_commit(other, 0, PAGE, S(0));
    EXPECT_OK(mend_range_destroy(other, S(0)));
    expect_decommit(range, 0, 2 * PAGE, S(0));
    EXPECT_REFUSAL(INVALID_ARGUMENT, "mend_unpin", mend_range_destroy(range, S(0)));
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_range_commit(range, 8 * PAGE, 8 * PAGE, S(0)));
    expect_commit(range, 0, PAGE, S(0));
    use(w, range, 0, PAGE, S(0));
    EXPECT_OK(mend_unpin(w->pool, at(range, 0), PAGE));
}

KIT_TEST_IN(pool_range_streams, pages_and_streams_need_no_nodes_for_each_pair,
            kit_open_set(w, w->pool_config.limit_bytes = 34 * MEND_MIB))
{
    enum { STREAMS = 256, PAGES = 512 };
    const uint64_t page_bytes = 64 * MEND_KIB;
    const uint64_t all_bytes = PAGES * page_bytes;
    mend_range *range = create(w, all_bytes, page_bytes);
    for (size_t i = 0; i < STREAMS; i++) {
        mend_stream stream;
        EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &stream));
        kit_free(w, kit_alloc(w, 512, stream), stream);
    }
    expect_commit(range, 0, all_bytes, S(0));
    expect_decommit(range, 0, all_bytes, S(0));
    kit_free(w, kit_alloc(w, 32 * MEND_MIB, S(0)), S(0)); /* moves their chunks */
    expect_commit(range, 0, all_bytes, S(0));             /* and back */
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    const mend_slab *nodes = &w->pool->heap.nodes.waits;
    EXPECT_TRUE(nodes->used_count + nodes->free_count < 32 * STREAMS);
}

/* A block that many streams read is one span. In a range each of its chunks has all its waits. */
KIT_TEST_IN(pool_range_streams, chunks_take_along_what_many_streams_do,
            kit_open_set(w, w->pool_config.limit_bytes = 17 * MEND_MIB))
{
    enum { STREAMS = 60 };
    const uint64_t size_bytes = 16 * MEND_MIB;
    mend_range *range = create(w, size_bytes, MEND_MIB);
    void *block = kit_alloc(w, size_bytes, S(0));
    kit_write(w, S(0), block, size_bytes);
    for (size_t i = 0; i < STREAMS; i++) {
        mend_stream stream;
        EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &stream));
        EXPECT_OK(mend_sim_stream_wait(w->sim, stream, S(0)));
        kit_verify_until(w, stream, block, MEND_KIB, mend_sim_now_ns(w->sim) + 900000);
        EXPECT_OK(mend_record_stream(w->pool, block, stream));
    }
    kit_free(w, block, S(0));
    expect_commit(range, 0, size_bytes, S(1));
    kit_use(w, S(1), at(range, 0), size_bytes, 10);
    EXPECT_TRUE(mend_world_stats(w).stream_waits >= STREAMS);
    EXPECT_TRUE(mend_world_check(w));
}

KIT_TEST_IN(pool_range_streams, a_commit_of_several_ranges_waits_for_the_streams_of_each,
            kit_open_set(w, w->pool_config.limit_bytes = 2 * MEND_MIB))
{
    mend_range_part parts[2];
    for (int i = 0; i < 2; i++) {
        parts[i] = (mend_range_part){create(w, MEND_MIB, PAGE), 0, MEND_MIB};
        expect_commit(parts[i].range, 0, MEND_MIB, S(i));
    }
    for (int i = 0; i < 2; i++) {
        kit_use(w, S(i), at(parts[i].range, 0), MEND_MIB, i == 0 ? 1000 : 100000);
        expect_decommit(parts[i].range, 0, MEND_MIB, S(i));
    }
    EXPECT_OK(mend_range_commit_all(parts, sizeof(parts[0]), 2, S(2)));
    for (int i = 0; i < 2; i++) {
        use(w, parts[i].range, 0, MEND_MIB, S(2));
    }
    kit_expect_waits(w, 2, 0);
}
