/* How much can be had: a request of the answer is served without a wait of the host, and one of 512
 * bytes more is not. */
#include "tests/support/graph_program.h"

#define MIB MEND_MIB

static mend_room room_for(graph_program *p, mend_stream stream)
{
    mend_room room = MEND_ROOM_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_room(p->world.pool, stream, &room));
    return room;
}

/* A request, and whether it was served without a wait of the host. */
static bool is_served_at_once(graph_program *p, uint64_t size_bytes, mend_stream stream)
{
    void *block = NULL;
    uint64_t waits_before = mend_world_stats(&p->world).host_waits;
    mend_result result = mend_alloc(p->world.pool, size_bytes, stream, &block);
    EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
    if (result == MEND_OK) {
        graph_program_free(p, block, stream);
    }
    return result == MEND_OK && mend_world_stats(&p->world).host_waits == waits_before;
}

static uint64_t expect_exact(graph_program *p, mend_stream stream)
{
    mend_room room = room_for(p, stream);
    EXPECT_TRUE(room.after_waiting_bytes >= room.now_bytes);
    EXPECT_TRUE(room.now_bytes == 0 || is_served_at_once(p, room.now_bytes, stream));
    EXPECT_TRUE(!is_served_at_once(p, room_for(p, stream).now_bytes + 512, stream));
    return room.now_bytes;
}

MEND_TEST(pool_room, of_an_empty_pool_is_the_limit)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    EXPECT_U64_EQ(16 * MIB, expect_exact(&p, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_set_limit(p.world.pool, 10 * MIB + 5000));
    EXPECT_U64_EQ(10 * MIB, expect_exact(&p, p.streams[0]));
    graph_program_close(&p);
}

/* What others hold of the device is nobody's room, and asking teaches the pool nothing. */
MEND_TEST(pool_room, knows_what_the_device_has)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    mend_sim_set_foreign_bytes(p.world.sim, 0, 9 * MIB);
    mend_room room = room_for(&p, p.streams[0]);
    EXPECT_U64_EQ(7 * MIB, room.now_bytes);
    EXPECT_U64_EQ(7 * MIB, room.device_free_bytes);
    EXPECT_U64_EQ(16 * MIB, mend_world_stats(&p.world).attainable_bytes);
    EXPECT_U64_EQ(7 * MIB, expect_exact(&p, p.streams[0]));
    graph_program_close(&p);
}

/* The end of a partly used chunk, an empty chunk and what can be created make one block. */
MEND_TEST(pool_room, counts_the_ends_of_partly_used_chunks)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    graph_program_alloc(&p, 3 * MIB + 70 * MEND_KIB, p.streams[0]);
    void *middle = graph_program_alloc(&p, 2 * MIB, p.streams[0]);
    graph_program_alloc(&p, 4 * MIB + 7 * MEND_KIB, p.streams[0]);
    graph_program_free(&p, middle, p.streams[0]);
    mend_stats stats = mend_world_stats(&p.world);
    uint64_t by_formula = stats.limit_bytes - stats.reserved_bytes + stats.free_empty_bytes;
    EXPECT_TRUE(expect_exact(&p, p.streams[0]) >= by_formula);
    graph_program_close(&p);
}

/* The engine trial's case: 256 MiB by the formula, 156 really. */
MEND_TEST(pool_room, does_not_count_what_graphs_hold)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    graph_program_free(&p, graph_program_alloc(&p, 6 * MIB, p.streams[0]), p.streams[0]);
    mend_room of_group = room_for(&p, p.streams[0]);
    EXPECT_U64_EQ(16 * MIB, of_group.now_bytes); /* its own memory serves it again */
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    mend_room room = room_for(&p, p.streams[0]);
    EXPECT_U64_EQ(10 * MIB, room.now_bytes);
    EXPECT_U64_EQ(10 * MIB, room.after_waiting_bytes);
    EXPECT_U64_EQ(6 * MIB, room.group_bytes);
    EXPECT_U64_EQ(6 * MIB, mend_world_stats(&p.world).group_bytes);
    EXPECT_U64_EQ(10 * MIB, expect_exact(&p, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[0]));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).group_bytes);
    EXPECT_U64_EQ(16 * MIB, expect_exact(&p, p.streams[0]));
    graph_program_close(&p);
}

static void forbid_stream_waits(mend_pool_config *config)
{
    config->allow_stream_waits = -1;
}

/* Memory of another stream: behind a wait of the device at once, else after one of the host. */
MEND_TEST(pool_room, tells_apart_what_needs_a_wait)
{
    for (int may_wait = 0; may_wait < 2; may_wait++) {
        graph_program p;
        ASSERT_TRUE(graph_program_open(&p, 16 * MIB, may_wait ? NULL : forbid_stream_waits));
        graph_program_alloc(&p, 512, p.streams[1]);
        void *block = graph_program_alloc(&p, 9 * MIB, p.streams[0]);
        graph_program_use(&p, p.streams[0], block, 9 * MIB, 1000);
        graph_program_free(&p, block, p.streams[0]);
        mend_room own = room_for(&p, p.streams[0]);
        mend_room other = room_for(&p, p.streams[1]);
        EXPECT_U64_EQ(own.now_bytes, other.after_waiting_bytes);
        EXPECT_INT_EQ(may_wait, own.now_bytes == other.now_bytes);
        EXPECT_TRUE(is_served_at_once(&p, other.now_bytes, p.streams[1]));
        EXPECT_U64_EQ(0, mend_world_stats(&p.world).host_waits);
        void *after = graph_program_alloc(&p, other.after_waiting_bytes, p.streams[1]);
        EXPECT_U64_EQ(!may_wait, mend_world_stats(&p.world).host_waits);
        graph_program_free(&p, after, p.streams[1]);
        graph_program_close(&p);
    }
}

MEND_TEST(pool_room, without_a_stream_only_idle_memory_is_there_at_once)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    void *block = graph_program_alloc(&p, 9 * MIB, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, 9 * MIB, 1000);
    graph_program_free(&p, block, MEND_NO_STREAM);
    mend_room room = room_for(&p, MEND_NO_STREAM);
    EXPECT_U64_EQ(7 * MIB, room.now_bytes);
    EXPECT_U64_EQ(16 * MIB, room.after_waiting_bytes);
    EXPECT_U64_EQ(7 * MIB, expect_exact(&p, MEND_NO_STREAM));
    graph_program_close(&p);
}

/* In a capture the context cannot be waited for. */
MEND_TEST(pool_room, a_capture_takes_what_waits_for_the_context)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    void *block = graph_program_alloc(&p, 9 * MIB, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, 9 * MIB, 1000);
    graph_program_free(&p, block, MEND_NO_STREAM);
    mend_group *group = graph_program_begin_group(&p, p.streams[1]);
    graph_program_begin_capture(&p, p.streams[1]);
    EXPECT_U64_EQ(7 * MIB, room_for(&p, p.streams[2]).after_waiting_bytes);
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[1]));
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    EXPECT_U64_EQ(16 * MIB, room_for(&p, p.streams[2]).after_waiting_bytes);
    graph_program_close(&p);
}

MEND_TEST(pool_room, is_exact_whatever_the_pool_has_been_through)
{
    enum { SLOTS = 24, STEPS = 400 };
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    mend_test_random random = {7};
    void *blocks[SLOTS] = {NULL};
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        uint64_t slot = mend_test_random_below(&random, SLOTS);
        mend_stream stream = p.streams[mend_test_random_below(&random, 2)];
        if (blocks[slot] != NULL) {
            graph_program_free(&p, blocks[slot], stream);
            blocks[slot] = NULL;
        } else {
            uint64_t most_bytes = MIB >> mend_test_random_below(&random, 8);
            mend_alloc(p.world.pool, 1 + mend_test_random_below(&random, 3 * most_bytes), stream,
                       &blocks[slot]);
        }
        expect_exact(&p, p.streams[mend_test_random_below(&random, 2)]);
    }
    mend_world_check(&p.world);
    graph_program_close(&p);
}

static int count_call(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    (void)pool;
    (void)needed_bytes;
    (void)missing_bytes;
    ++*(int *)context;
    return 0;
}

/* What lies beside memory that waits is found before anybody is asked to free something. */
MEND_TEST(pool_room, nobody_is_asked_for_what_could_be_had)
{
    graph_program p;
    int calls = 0;
    ASSERT_TRUE(graph_program_open(&p, MIB, forbid_stream_waits));
    void *busy[2];
    busy[0] = graph_program_alloc(&p, MIB / 4, p.streams[1]);
    void *idle = graph_program_alloc(&p, MIB / 2, p.streams[0]);
    busy[1] = graph_program_alloc(&p, MIB / 4, p.streams[1]);
    for (int i = 0; i < 2; i++) {
        graph_program_use(&p, p.streams[1], busy[i], MIB / 4, 1000);
        graph_program_free(&p, busy[i], p.streams[1]);
    }
    graph_program_free(&p, idle, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(p.world.pool, count_call, &calls));
    EXPECT_U64_EQ(MIB / 2, room_for(&p, p.streams[0]).now_bytes);
    EXPECT_TRUE(is_served_at_once(&p, MIB / 2, p.streams[0]));
    EXPECT_INT_EQ(0, calls);
    EXPECT_RESULT(MEND_OK, mend_remove_pressure_callback(p.world.pool, count_call, &calls));
    graph_program_close(&p);
}

static void cache_nothing(mend_pool_config *config)
{
    config->front_cache = -1;
}

/* Nothing of what is asked is carried out. */
MEND_TEST(pool_room, asking_changes_nothing)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, cache_nothing));
    graph_program_free(&p, graph_program_alloc(&p, 3 * MIB, p.streams[0]), p.streams[0]);
    mend_stats before = mend_world_stats(&p.world);
    room_for(&p, p.streams[0]);
    room_for(&p, MEND_NO_STREAM);
    mend_stats after = mend_world_stats(&p.world);
#define X(field, unit, meaning) EXPECT_U64_EQ(before.field, after.field);
    MEND_STATS(X)
#undef X
    EXPECT_U64_EQ(0, mend_world_ledger(&p.world).host_syncs);
    graph_program_close(&p);
}

MEND_TEST(pool_room, mistakes_have_their_errors)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    mend_room room = MEND_ROOM_INIT;
    room.now_bytes = 77;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_get_room(NULL, NULL, &room));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_get_room(p.world.pool, NULL, NULL));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_get_room(p.world.pool, MEND_EVERY_STREAM, &room));
    EXPECT_U64_EQ(77, room.now_bytes);
    room.struct_size = 0;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_get_room(p.world.pool, NULL, &room));
    graph_program_close(&p);
}
