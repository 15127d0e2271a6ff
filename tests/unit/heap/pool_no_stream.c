/* Blocks for whatever stream: made only of memory that nothing uses any more. */
#include "tests/support/kit.h"

enum { BLOCK_BYTES = 5 << 20, LONG_NS = 1000, SHORT_NS = 10 };

typedef struct scene {
    mend_world w;
    mend_stream streams[2];
} scene;

/* A device of 8 MiB, so that a block of 5 MiB is in everybody's way. */
static bool open_scene(scene *s)
{
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 8 * MEND_MIB;
    if (!kit_open(&s->w)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(s->w.sim, &s->streams[i]));
    }
    return true;
}

static void close_scene(scene *s)
{
    mend_sim_advance(s->w.sim, 10 * LONG_NS);
    mend_world_check(&s->w);
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(s->w.pool, s->streams[i]));
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(s->w.sim, s->streams[i]));
    }
    kit_close(&s->w);
}

static void *allocate(scene *s, mend_stream stream)
{
    void *pointer = kit_alloc(&s->w, BLOCK_BYTES, stream);
    return pointer;
}

static void give(scene *s, void *pointer, mend_stream stream)
{
    kit_free(&s->w, pointer, stream);
}

static void launch(scene *s, mend_stream stream, mend_sim_work_kind kind, void *pointer,
                   uint64_t tag, uint64_t duration_ns)
{
    kit_launch(&s->w, stream, kind, pointer, BLOCK_BYTES, tag,
               mend_sim_now_ns(s->w.sim) + duration_ns);
}

/* Writes that come late would be seen by the owner's last look. */
static void write_late(scene *s, mend_stream stream, void *pointer)
{
    launch(s, stream, MEND_SIM_WORK_WRITE, pointer, 1, LONG_NS);
}

static void own(scene *s, mend_stream stream, void *pointer)
{
    launch(s, stream, MEND_SIM_WORK_WRITE, pointer, 2, SHORT_NS);
    launch(s, stream, MEND_SIM_WORK_VERIFY, pointer, 2, 2 * LONG_NS);
}

/* Freed on a stream, or on none; used by the other one, of which the pool has not heard. */
static void hand_on(mend_stream (*freed_on)(scene *s))
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    void *block = allocate(&s, s.streams[0]);
    write_late(&s, s.streams[0], block);
    give(&s, block, freed_on(&s));
    block = allocate(&s, MEND_NO_STREAM);
    EXPECT_U64_EQ(1, mend_world_stats(&s.w).host_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).stream_waits);
    own(&s, s.streams[1], block);
    give(&s, block, MEND_NO_STREAM);
    close_scene(&s);
}

static mend_stream its_own(scene *s)
{
    return s->streams[0];
}

static mend_stream none(scene *s)
{
    (void)s;
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
    scene s;
    ASSERT_TRUE(open_scene(&s));
    void *small = NULL;
    void *block = allocate(&s, s.streams[0]);
    launch(&s, s.streams[0], MEND_SIM_WORK_TOUCH, block, 0, LONG_NS);
    give(&s, block, s.streams[0]);
    small = kit_alloc(&s.w, MEND_MIB, MEND_NO_STREAM);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).host_waits);
    give(&s, small, MEND_NO_STREAM);
    close_scene(&s);
}

MEND_TEST(pool_no_stream, work_that_is_done_is_seen_without_waiting)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    void *block = allocate(&s, s.streams[0]);
    write_late(&s, s.streams[0], block);
    give(&s, block, s.streams[0]);
    mend_sim_advance(s.w.sim, 2 * LONG_NS);
    block = allocate(&s, MEND_NO_STREAM);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).host_waits);
    own(&s, s.streams[1], block);
    give(&s, block, s.streams[1]);
    close_scene(&s);
}

MEND_TEST(pool_no_stream, a_block_tells_that_it_is_for_any)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    void *block = allocate(&s, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_get_block_info(s.w.pool, block, &info));
    EXPECT_PTR_EQ(MEND_NO_STREAM, info.stream);
    EXPECT_U64_EQ(0, mend_world_stats(&s.w).streams);
    give(&s, block, MEND_NO_STREAM);
    close_scene(&s);
}

/* What a group keeps for its graphs is nobody's, and a group of every stream takes no block that
 * any stream may use. */
MEND_TEST(pool_no_stream, a_group_neither_gives_nor_takes)
{
    scene s;
    ASSERT_TRUE(open_scene(&s));
    mend_group *group;
    void *block;
    EXPECT_RESULT(MEND_OK, mend_group_create(s.w.pool, &group));
    EXPECT_RESULT(MEND_OK, mend_group_begin(group, MEND_EVERY_STREAM));
    block = allocate(&s, s.streams[0]);
    give(&s, block, s.streams[0]);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(s.w.pool, BLOCK_BYTES, MEND_NO_STREAM, &block));
    block = kit_alloc(&s.w, MEND_MIB, MEND_NO_STREAM);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, s.streams[0]));
    void *second = allocate(&s, MEND_NO_STREAM);
    give(&s, block, s.streams[0]);
    give(&s, second, s.streams[0]);
    close_scene(&s);
}
