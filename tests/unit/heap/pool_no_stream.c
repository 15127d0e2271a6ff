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
KIT_EACH(pool_no_stream, memory_of_the_only_stream_known_is_waited_for, int, is_named, 2,
         kit_open_with(w, 8 * MEND_MIB, NULL))
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    write_late(w, S(0), block);
    kit_free(w, block, is_named ? S(0) : MEND_NO_STREAM);
    block = kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
    kit_expect_waits(w, 0, 1);
    own(w, S(1), block);
    kit_free(w, block, MEND_NO_STREAM);
}

KIT_TEST_IN(pool_no_stream, nobody_waits_while_there_is_other_memory,
            kit_open_with(w, 8 * MEND_MIB, NULL))
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    launch(w, S(0), MEND_SIM_WORK_TOUCH, block, 0, LONG_NS);
    kit_free(w, block, S(0));
    kit_alloc(w, MEND_MIB, MEND_NO_STREAM);
    EXPECT_STATS(w, host_waits, 0);
}

KIT_TEST_IN(pool_no_stream, work_that_is_done_is_seen_without_waiting,
            kit_open_with(w, 8 * MEND_MIB, NULL))
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    write_late(w, S(0), block);
    kit_free(w, block, S(0));
    mend_sim_advance(w->sim, 2 * LONG_NS);
    block = kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
    EXPECT_STATS(w, host_waits, 0);
    own(w, S(1), block);
}

KIT_TEST_IN(pool_no_stream, a_block_tells_that_it_is_for_any, kit_open_with(w, 8 * MEND_MIB, NULL))
{
    void *block = kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
    mend_block_info info = kit_info(w, block);
    EXPECT_PTR_EQ(MEND_NO_STREAM, info.stream);
    EXPECT_STATS(w, streams, 0);
}

/* What a group keeps for its graphs is nobody's, and a group of every stream takes no block that
 * any stream may use. */
KIT_TEST_IN(pool_no_stream, a_group_neither_gives_nor_takes, kit_open_with(w, 8 * MEND_MIB, NULL))
{
    mend_group *group = kit_begin_group(w, MEND_EVERY_STREAM);
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    kit_free(w, block, S(0));
    kit_expect_none(w, BLOCK_BYTES, MEND_NO_STREAM, "");
    block = kit_alloc(w, MEND_MIB, MEND_NO_STREAM);
    kit_end_group(group, S(0));
    kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
}
