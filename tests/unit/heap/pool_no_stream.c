/* Blocks for whatever stream: made only of memory that nothing uses any more. */
#include "tests/support/kit.h"

/* Of a device of 8 MiB, so that it is in the way of every other. */
enum { BLOCK_BYTES = 5 << 20, LONG_NS = 1000, SHORT_NS = 10 };

static void launch(mend_world *w, mend_stream stream, mend_sim_work_kind kind, void *pointer,
                   uint64_t tag, uint64_t duration_ns)
{
    kit_launch(w, stream, kind, pointer, BLOCK_BYTES, tag, mend_sim_now_ns(w->sim) + duration_ns);
}

/* Writes that come late would be seen by the owner's last look. */
static void write_late(mend_world *w, mend_stream stream, void *pointer)
{
    launch(w, stream, MEND_SIM_WORK_WRITE, pointer, 1, LONG_NS);
}

static void own(mend_world *w, mend_stream stream, void *pointer)
{
    launch(w, stream, MEND_SIM_WORK_WRITE, pointer, 2, SHORT_NS);
    launch(w, stream, MEND_SIM_WORK_VERIFY, pointer, 2, 2 * LONG_NS);
}

/* Freed on a stream, or on none; used by the other one, of which the pool has not heard. */
static void hand_on(mend_stream (*freed_on)(mend_world *w))
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    write_late(&w, w.streams[0], block);
    kit_free(&w, block, freed_on(&w));
    block = kit_alloc(&w, BLOCK_BYTES, MEND_NO_STREAM);
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&w).stream_waits);
    own(&w, w.streams[1], block);
    kit_free(&w, block, MEND_NO_STREAM);
    kit_close(&w);
}

static mend_stream its_own(mend_world *w)
{
    return w->streams[0];
}

static mend_stream none(mend_world *w)
{
    (void)w;
    return MEND_NO_STREAM;
}

MEND_TEST(pool_no_stream, memory_of_the_only_stream_known_is_waited_for)
{
    hand_on(its_own);
}

MEND_TEST(pool_no_stream, so_is_what_was_freed_without_a_stream)
{
    hand_on(none);
}

MEND_TEST(pool_no_stream, nobody_waits_while_there_is_other_memory)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    launch(&w, w.streams[0], MEND_SIM_WORK_TOUCH, block, 0, LONG_NS);
    kit_free(&w, block, w.streams[0]);
    void *small = kit_alloc(&w, MEND_MIB, MEND_NO_STREAM);
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    kit_free(&w, small, MEND_NO_STREAM);
    kit_close(&w);
}

MEND_TEST(pool_no_stream, work_that_is_done_is_seen_without_waiting)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    write_late(&w, w.streams[0], block);
    kit_free(&w, block, w.streams[0]);
    mend_sim_advance(w.sim, 2 * LONG_NS);
    block = kit_alloc(&w, BLOCK_BYTES, MEND_NO_STREAM);
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    own(&w, w.streams[1], block);
    kit_free(&w, block, w.streams[1]);
    kit_close(&w);
}

MEND_TEST(pool_no_stream, a_block_tells_that_it_is_for_any)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    void *block = kit_alloc(&w, BLOCK_BYTES, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_get_block_info(w.pool, block, &info));
    EXPECT_PTR_EQ(MEND_NO_STREAM, info.stream);
    EXPECT_U64_EQ(0, mend_world_stats(&w).streams);
    kit_free(&w, block, MEND_NO_STREAM);
    kit_close(&w);
}

/* What a group keeps for its graphs is nobody's, and a group of every stream takes no block that
 * any stream may use. */
MEND_TEST(pool_no_stream, a_group_neither_gives_nor_takes)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    mend_group *group = kit_begin_group(&w, MEND_EVERY_STREAM);
    void *block = kit_alloc(&w, BLOCK_BYTES, w.streams[0]);
    kit_free(&w, block, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(w.pool, BLOCK_BYTES, MEND_NO_STREAM, &block));
    block = kit_alloc(&w, MEND_MIB, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[0]));
    void *second = kit_alloc(&w, BLOCK_BYTES, MEND_NO_STREAM);
    kit_free(&w, block, w.streams[0]);
    kit_free(&w, second, w.streams[0]);
    kit_close(&w);
}
