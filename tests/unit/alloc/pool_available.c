/* About how much can be had: a request of the answer is served without a CPU stall. */
#include <mend/mend_range.h>

#include "tests/support/kit.h"

static mend_available room_for(mend_world *w, mend_stream stream)
{
    mend_available room = MEND_AVAILABLE_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_available(w->pool, stream, &room));
    return room;
}

static bool is_served_at_once(mend_world *w, uint64_t size_bytes, mend_stream stream)
{
    void *block = NULL;
    uint64_t waits_before = mend_world_stats(w).host_waits;
    mend_result result = mend_alloc(w->pool, size_bytes, stream, &block);
    EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
    if (result == MEND_OK) {
        kit_free(w, block, stream);
    }
    return result == MEND_OK && mend_world_stats(w).host_waits == waits_before;
}

static uint64_t expect_served(mend_world *w, mend_stream stream)
{
    mend_available room = room_for(w, stream);
    EXPECT_TRUE(room.after_waiting_bytes >= room.now_bytes);
    EXPECT_TRUE(room.now_bytes == 0 || is_served_at_once(w, room.now_bytes, stream));
    return room.now_bytes;
}

#define ROOM_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_with(w, 16 * MEND_MIB, NULL))

/* Memory of others on the device is not available, and a query does not change the pool. */
ROOM_TEST(pool_available, knows_what_the_limit_and_the_device_have)
{
    EXPECT_RESULT(MEND_OK, mend_set_limit(w->pool, 10 * MEND_MIB + 5000));
    EXPECT_U64_EQ(10 * MEND_MIB, expect_served(w, w->streams[0]));
    EXPECT_RESULT(MEND_OK, mend_set_limit(w->pool, 0));
    EXPECT_RESULT(MEND_OK, mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    mend_sim_set_foreign_bytes(w->sim, 0, 9 * MEND_MIB);
    mend_available room = room_for(w, w->streams[0]);
    EXPECT_U64_EQ(7 * MEND_MIB, room.now_bytes);
    EXPECT_U64_EQ(7 * MEND_MIB, room.device_free_bytes);
    EXPECT_U64_EQ(7 * MEND_MIB, mend_world_stats(w).effective_limit_bytes);
    EXPECT_U64_EQ(7 * MEND_MIB, expect_served(w, w->streams[0]));
}

/* A graph keeps the start of a chunk that is empty: the rest of the chunk grows, for a block of any
 * size. */
ROOM_TEST(pool_available, is_had_behind_what_graphs_hold)
{
    enum { KEPT = 80 * 1024, STEP = 24 * 1024, LIMIT = 6 * MEND_MIB };
    EXPECT_RESULT(MEND_OK, mend_set_limit(w->pool, LIMIT));
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, w->streams[0]);
    kit_free(w, kit_alloc(w, KEPT, w->streams[0]), w->streams[0]);
    EXPECT_RESULT(MEND_OK, mend_graph_pool_end(graph_pool));
    EXPECT_U64_EQ(KEPT, room_for(w, S(0)).graph_pool_bytes);
    for (uint64_t bytes = LIMIT - KEPT; bytes > STEP; bytes -= STEP) {
        ASSERT_TRUE(is_served_at_once(w, bytes, w->streams[0]));
        EXPECT_RESULT(MEND_OK, mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    }
    EXPECT_TRUE(expect_served(w, w->streams[0]) < LIMIT);
}

/* Pages that are pinned and free serve their range alone. */
ROOM_TEST(pool_available, is_not_what_a_range_keeps_pinned)
{
    mend_range *range = NULL;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    EXPECT_OK(mend_range_create(w->pool, MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_commit(range, 0, MEND_MIB, S(0)));
    EXPECT_OK(mend_range_get_info(range, &info));
    EXPECT_OK(mend_pin(w->pool, info.base, MEND_MIB));
    EXPECT_OK(mend_range_decommit(range, 0, MEND_MIB, S(0)));
    kit_alloc(w, 15 * MEND_MIB, S(0));
    EXPECT_U64_EQ(0, expect_served(w, S(0)));
    EXPECT_OK(mend_unpin(w->pool, info.base, MEND_MIB));
    EXPECT_OK(mend_range_destroy(range, S(0)));
}

/* Without a stream only idle memory is there at once. In a capture the context cannot be waited
 * for.
 */
ROOM_TEST(pool_available, a_capture_takes_what_waits_for_the_context)
{
    kit_leave_in_flight(w, 9 * MEND_MIB, w->streams[0], 1000, MEND_NO_STREAM);
    EXPECT_U64_EQ(16 * MEND_MIB, room_for(w, MEND_NO_STREAM).after_waiting_bytes);
    EXPECT_U64_EQ(7 * MEND_MIB, room_for(w, MEND_NO_STREAM).now_bytes);
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, w->streams[1]);
    EXPECT_U64_EQ(7 * MEND_MIB, room_for(w, w->streams[2]).after_waiting_bytes);
    mend_sim_graph_destroy(w->sim, kit_end_captured_graph_pool(w, w->streams[1], graph_pool));
    EXPECT_U64_EQ(16 * MEND_MIB, room_for(w, w->streams[2]).after_waiting_bytes);
    EXPECT_U64_EQ(7 * MEND_MIB, expect_served(w, MEND_NO_STREAM));
}

/* The parts of a chunk on both sides of memory that another stream uses. */
KIT_TEST_IN(pool_available, memory_in_use_parts_what_is_free, kit_open_allowing(w, MEND_MIB, -1))
{
    void *row[4];
    kit_alloc_row(w, row, 4, MEND_MIB / 4, S(0));
    EXPECT_OK(mend_record_stream(w->pool, row[2], S(1)));
    kit_use(w, S(1), row[2], MEND_MIB / 4, 1000);
    kit_free_row(w, row, 4, S(0));
    EXPECT_U64_EQ(MEND_MIB / 2, expect_served(w, S(0)));
}

KIT_TEST_IN(pool_available, a_guard_takes_its_part,
            kit_open_set(w, w->pool_config.observe = "guard"))
{
    const mend_available room = room_for(w, S(0));
    EXPECT_U64_EQ(room.now_bytes, room.after_waiting_bytes);
    kit_alloc(w, room.after_waiting_bytes, S(0));
}
