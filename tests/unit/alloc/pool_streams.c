/* Memory that crosses from stream to stream: when it may, and the waits for it. */
#include "tests/support/kit.h"

/* A device of 8 MiB, so that two blocks of 5 MiB do not fit. */
enum { BLOCK_BYTES = 5 << 20 };

#define WAITING_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_allowing(w, 8 * MEND_MIB, 0))

/* Its fence has passed, but a block names it: a stream that comes then has nothing to do with it.
 */
WAITING_TEST(pool_streams, a_block_holds_the_slot_of_a_forgotten_stream)
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    EXPECT_OK(mend_unregister_stream(w->pool, S(1)));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    mend_stream third = kit_stream(w);
    kit_alloc(w, 512, third);
    kit_use(w, third, block, BLOCK_BYTES, 1000);
    kit_free(w, block, S(0));
    kit_alloc(w, BLOCK_BYTES, S(0));
    kit_expect_waits(w, 0, 0);
    mend_sim_advance(w->sim, 2000);
    kit_end_stream(w, third);
}

/* Its memory waits already for the earlier work of that stream. */
WAITING_TEST(pool_streams, a_declared_use_is_later_than_what_the_memory_was_used_for)
{
    for (int i = 0; i < 3; i++) {
        void *block = kit_alloc(w, BLOCK_BYTES, S(0));
        kit_expect_waits(w, (uint64_t)i, 0);
        EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
        kit_use(w, S(1), block, BLOCK_BYTES, 1000);
        kit_free(w, block, S(0));
    }
}

/* Streams whose work is in flight, each with one block, which is freed at once. */
enum { MANY = 64 };

static const uint64_t of_many[] = {1000, 3 * MEND_MIB};

KIT_EACH(pool_streams, many_share_chunks_rather_than_each_have_one, size_t, i, 2,
         kit_open_with(w, MEND_GIB, NULL))
{
    mend_stream many[MANY];
    for (int k = 0; k < MANY; k++) {
        many[k] = kit_stream(w);
        kit_leave_in_flight(w, of_many[i], many[k], 1000000, many[k]);
    }
    const uint64_t most_bytes = MANY * of_many[i] / 5 * 6;
    EXPECT_TRUE(mend_world_stats(w).reserved_bytes <= mend_max_u64(most_bytes, MEND_MIB));
    kit_expect_waits(w, 0, 0);
    mend_sim_advance(w->sim, 1000000);
    for (int k = 0; k < MANY; k++) {
        kit_end_stream(w, many[k]);
    }
}

/* Three streams in a pool of one page: none waits while part of it was never used. */
KIT_TEST_IN(pool_streams, a_full_pool_has_room_between_what_waits,
            kit_open_with(w, 64 * MEND_KIB, NULL))
{
    for (int i = 0; i < MEND_WORLD_STREAMS; i++) {
        kit_leave_in_flight(w, 1000, S(i), 1000000, S(i));
    }
    kit_expect_waits(w, 0, 0);
}

KIT_TEST(pool_streams, a_chunk_of_its_own_is_idle)
{
    void *used = kit_alloc_with(w, 2 * MEND_MIB, S(0), .in_one_chunk = 1);
    kit_use(w, S(0), used, 2 * MEND_MIB, 1000);
    kit_free(w, used, S(0));
    EXPECT_TRUE(used != kit_alloc_with(w, 2 * MEND_MIB, S(1), .in_one_chunk = 1));
    kit_alloc(w, 8 * MEND_MIB, S(1));
    kit_alloc_with(w, 3 * MEND_MIB + 512, S(1), .in_one_chunk = 1); /* under pressure */
}

/* A program that lets no stream wait, and graphs, of which the host would wait for all. */
KIT_TEST_IN(pool_streams, the_host_waits_for_the_oldest_work_alone,
            kit_open_allowing(w, 8 * MEND_MIB, -1))
{
    kit_begin_capture(w, S(2));
    kit_free(w, kit_alloc(w, 512, S(2)), S(2));
    mend_sim_graph *graph = kit_end_capture(w, S(2));
    void *later = kit_alloc(w, 2 * MEND_MIB, S(1));
    kit_leave_in_flight(w, 5 * MEND_MIB, S(0), 10, S(0));
    kit_use(w, S(1), later, 2 * MEND_MIB, 1000);
    kit_alloc(w, 5 * MEND_MIB, S(1));
    kit_expect_waits(w, 0, 1);
    EXPECT_U64_EQ(10, mend_sim_now_ns(w->sim));
    mend_sim_graph_destroy(w->sim, graph);
}

/* The fence comes with the free: what the stream does later is not waited for. */
KIT_TEST(pool_streams, much_that_is_freed_has_its_fence_at_once)
{
    void *own = kit_alloc(w, MEND_MIB, S(0));
    kit_free(w, kit_alloc(w, 512, S(1)), S(1));
    kit_leave_in_flight(w, 60 * MEND_MIB, S(0), 10, S(0));
    kit_use(w, S(0), own, MEND_MIB, 100000);
    kit_alloc_used(w, 60 * MEND_MIB, S(1), 10);
    EXPECT_OK(mend_sim_synchronize(w->sim, S(1)));
    EXPECT_TRUE(mend_sim_now_ns(w->sim) < 100000);
}

/* Of three blocks in a row that are free another stream still reads the first and the last. */
static void leave_row(mend_world *w, void *row[3], uint64_t size_bytes)
{
    kit_free(w, kit_alloc(w, 3 * size_bytes, S(0)), S(0)); /* so that they lie in a row */
    kit_alloc_row(w, row, 3, size_bytes, S(0));
    for (int i = 0; i < 3; i += 2) {
        EXPECT_OK(mend_record_stream(w->pool, row[i], S(1)));
        kit_use(w, S(1), row[i], size_bytes, 1000000);
    }
    kit_free_row(w, row, 3, S(0));
}

KIT_TEST(pool_streams, an_idle_chunk_serves_where_it_lies)
{
    void *row[3];
    leave_row(w, row, BLOCK_BYTES);
    const void *block = kit_alloc(w, BLOCK_BYTES - MEND_MIB, S(0));
    EXPECT_TRUE(block >= row[1] && block < row[2]);
    EXPECT_STATS(w, chunks_moved, 0, stream_waits, 0, soft_limit_passed, 0);
}

KIT_TEST(pool_streams, where_streams_are_many_a_block_in_one_chunk_crosses_no_edge)
{
    void *row[3];
    for (int i = 0; i < 7; i++) {
        kit_free(w, kit_alloc(w, 512, kit_stream(w)), NULL);
    }
    leave_row(w, row, 11 * MEND_MIB / 16);
    kit_alloc_with(w, 10 * MEND_MIB / 16, S(0), .in_one_chunk = 1);
}
