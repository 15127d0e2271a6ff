/* Captures outside of groups: what they use is kept for their graphs, in whatever order the program
 * makes its calls; and one group serves graphs that are launched in any order. */
#include "tests/support/graph_program.h"

#define MIB MEND_MIB

static const uint64_t block_bytes = 3 * MIB;

static bool open_small(graph_program *p)
{
    return graph_program_open(p, 8 * MIB, NULL);
}

/* Which calls on the block the capture sees. */
typedef struct order {
    int alloc_inside;
    int free_inside;
    int declared; /* the block is another stream's, which frees it before the capture ends */
} order;

static const order orders[] = {{1, 1, 0}, {0, 1, 0}, {1, 0, 0}, {0, 0, 1}};
enum { ORDERS = sizeof(orders) / sizeof(orders[0]) };

/* A graph that writes a block which nobody holds any more. */
static mend_sim_graph *capture_use(graph_program *p, const order *o)
{
    mend_stream stream = p->streams[0];
    mend_stream owner = o->declared ? p->streams[1] : stream;
    void *block = o->alloc_inside ? NULL : graph_program_alloc(p, block_bytes, owner);
    graph_program_begin_capture(p, stream);
    if (o->alloc_inside) {
        block = graph_program_alloc(p, block_bytes, stream);
    }
    graph_program_use(p, stream, block, block_bytes, 10);
    if (o->declared) {
        EXPECT_RESULT(MEND_OK, mend_record_stream(p->world.pool, block, stream));
        graph_program_free(p, block, owner);
    } else if (o->free_inside) {
        graph_program_free(p, block, stream);
    }
    mend_sim_graph *graph = graph_program_end_capture(p, stream);
    if (!o->declared && !o->free_inside) {
        graph_program_free(p, block, p->streams[2]);
    }
    return graph;
}

/* All memory there is but what the graph has, in use on another stream while it is launched. */
static void use_the_rest(graph_program *p, mend_sim_graph *graph)
{
    void *rest = graph_program_alloc(p, 8 * MIB - block_bytes, p->streams[1]);
    graph_program_expect_none(p, block_bytes, p->streams[1], "destroying such graphs");
    graph_program_expect_none(p, block_bytes, p->streams[0], "destroying such graphs");
    for (int i = 0; i < 3; i++) {
        graph_program_launch(p, graph, p->streams[2]);
        graph_program_use(p, p->streams[1], rest, 8 * MIB - block_bytes, 100);
    }
    graph_program_free(p, rest, p->streams[1]);
}

MEND_TEST(pool_capture_memory, nobody_gets_what_a_graph_uses_before_it_is_destroyed)
{
    for (int i = 0; i < ORDERS; i++) {
        graph_program p;
        ASSERT_TRUE(open_small(&p));
        mend_sim_graph *graph = capture_use(&p, &orders[i]);
        EXPECT_U64_EQ(1, mend_world_stats(&p.world).captures);
        EXPECT_U64_EQ(0, mend_world_stats(&p.world).groups);
        use_the_rest(&p, graph);
        mend_sim_advance(p.world.sim, 10000);
        mend_sim_graph_destroy(p.world.sim, graph);
        void *all = graph_program_alloc(&p, 8 * MIB, p.streams[1]);
        graph_program_use(&p, p.streams[1], all, 8 * MIB, 10);
        EXPECT_U64_EQ(0, mend_world_stats(&p.world).captures);
        graph_program_close(&p);
    }
}

/* A launch is under way when the graph is destroyed: its memory is in use until that is done, which
 * whoever needs the memory waits for. */
static bool open_in_flight(graph_program *p)
{
    if (!open_small(p)) {
        return false;
    }
    mend_sim_graph *graph = capture_use(p, &orders[0]);
    EXPECT_RESULT(MEND_OK, mend_sim_graph_launch(p->world.sim, graph, p->streams[2], 5000));
    mend_sim_graph_destroy(p->world.sim, graph);
    return true;
}

MEND_TEST(pool_capture_memory, a_launch_in_flight_keeps_what_it_uses_until_it_ends)
{
    graph_program p;
    ASSERT_TRUE(open_in_flight(&p));
    graph_program_alloc(&p, 8 * MIB - block_bytes, p.streams[1]);
    EXPECT_U64_EQ(0, mend_sim_now_ns(p.world.sim));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    EXPECT_TRUE(mend_sim_now_ns(p.world.sim) >= 5000);
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    graph_program_close(&p);
}

MEND_TEST(pool_capture_memory, a_trim_that_waits_and_a_defragmentation_wait_for_such_a_launch)
{
    graph_program p;
    ASSERT_TRUE(open_in_flight(&p));
    EXPECT_RESULT(MEND_OK, mend_trim_wait(p.world.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).reserved_bytes);
    graph_program_close(&p);
    ASSERT_TRUE(open_in_flight(&p));
    EXPECT_RESULT(MEND_OK, mend_defrag(p.world.pool, NULL, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).captures);
    graph_program_close(&p);
}

/* What the stream was at before the capture began may use the block longer than any graph. */
MEND_TEST(pool_capture_memory, earlier_work_of_the_stream_is_waited_for_too)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 100000);
    graph_program_begin_capture(&p, p.streams[0]);
    graph_program_free(&p, block, p.streams[0]);
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    void *all = graph_program_alloc(&p, 8 * MIB, p.streams[1]);
    graph_program_use(&p, p.streams[1], all, 8 * MIB, 10);
    graph_program_close(&p);
}

/* In one capture memory goes round; another capture does not get it, nor the stream itself. */
MEND_TEST(pool_capture_memory, each_capture_has_its_own)
{
    graph_program p;
    void *blocks[2];
    mend_sim_graph *graphs[2];
    ASSERT_TRUE(open_small(&p));
    for (int i = 0; i < 2; i++) {
        graph_program_begin_capture(&p, p.streams[0]);
        blocks[i] = graph_program_alloc(&p, block_bytes, p.streams[0]);
        graph_program_use(&p, p.streams[0], blocks[i], block_bytes, 10);
        graph_program_free(&p, blocks[i], p.streams[0]);
        EXPECT_PTR_EQ(blocks[i], graph_program_alloc(&p, block_bytes, p.streams[0]));
        graph_program_free(&p, blocks[i], p.streams[0]);
        graphs[i] = graph_program_end_capture(&p, p.streams[0]);
    }
    EXPECT_TRUE(blocks[0] != blocks[1]);
    EXPECT_U64_EQ(2, mend_world_stats(&p.world).captures);
    graph_program_launch(&p, graphs[0], p.streams[1]);
    graph_program_launch(&p, graphs[1], p.streams[2]);
    for (int i = 0; i < 2; i++) {
        mend_sim_advance(p.world.sim, 10000);
        mend_sim_graph_destroy(p.world.sim, graphs[i]);
        EXPECT_PTR_EQ(blocks[i], graph_program_alloc(&p, block_bytes, p.streams[0]));
    }
    graph_program_close(&p);
}

/* What the stream freed a moment ago, outside of the capture, is not made a part of it unnoticed:
 * the front cache would serve such a request. */
MEND_TEST(pool_capture_memory, the_front_cache_serves_no_capture)
{
    enum { SIZE = 256 << 10 };
    for (uint64_t is_captured = 0; is_captured < 2; is_captured++) {
        graph_program p;
        ASSERT_TRUE(graph_program_open(&p, 64 * MIB, NULL));
        void *row[3];
        for (int i = 0; i < 3; i++) {
            row[i] = graph_program_alloc(&p, SIZE, p.streams[0]);
        }
        graph_program_free(&p, row[1], p.streams[0]);
        if (is_captured) {
            graph_program_begin_capture(&p, p.streams[0]);
        }
        void *block = graph_program_alloc(&p, SIZE, p.streams[0]);
        graph_program_use(&p, p.streams[0], block, SIZE, 10);
        EXPECT_U64_EQ(1 - is_captured, mend_world_stats(&p.world).cache_hits);
        EXPECT_U64_EQ(is_captured, mend_world_stats(&p.world).captures);
        if (is_captured) {
            mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
        }
        graph_program_close(&p);
    }
}

/* A graph's result lives on when the graph does not, and is freed as any block. */
MEND_TEST(pool_capture_memory, a_block_may_outlive_its_graph)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 10);
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).captures);
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    graph_program_free(&p, block, p.streams[1]);
    EXPECT_TRUE(graph_program_alloc(&p, 8 * MIB, p.streams[1]) != NULL);
    graph_program_close(&p);
}

/* A capture that comes to nothing keeps nothing. */
MEND_TEST(pool_capture_memory, a_spoilt_capture_gives_back_all)
{
    graph_program p;
    ASSERT_TRUE(open_small(&p));
    graph_program_begin_capture(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 10);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(p.world.sim, p.streams[1], p.streams[0]));
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    graph_program_free(&p, block, p.streams[0]);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(p.world.sim, p.streams[0], NULL));
    EXPECT_TRUE(graph_program_alloc(&p, 8 * MIB, p.streams[1]) != NULL);
    graph_program_close(&p);
}

/* The driver refuses: the call fails, and nothing has changed. */
MEND_TEST(pool_capture_memory, without_an_answer_of_the_driver_nothing_is_done)
{
    static const char *const calls[] = {"stream_get_capture", "capture_keep"};
    for (int i = 0; i < 2; i++) {
        graph_program p;
        ASSERT_TRUE(open_small(&p));
        void *none = NULL;
        void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
        graph_program_begin_capture(&p, p.streams[0]);
        mend_stats before = mend_world_stats(&p.world);
        mend_sim_fault fault = MEND_SIM_FAULT_INIT;
        fault.call = calls[i];
        fault.count = UINT64_MAX;
        fault.status = MEND_DRIVER_UNKNOWN;
        EXPECT_RESULT(MEND_OK, mend_sim_fail(p.world.sim, &fault));
        mend_pool *pool = p.world.pool;
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(pool, 512, p.streams[0], &none));
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_record_stream(pool, block, p.streams[0]));
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_free(pool, block, p.streams[0]));
        mend_sim_clear_faults(p.world.sim);
        EXPECT_U64_EQ(before.live_bytes, mend_world_stats(&p.world).live_bytes);
        EXPECT_U64_EQ(0, mend_world_stats(&p.world).captures);
        graph_program_free(&p, block, p.streams[0]);
        EXPECT_U64_EQ(1, mend_world_stats(&p.world).captures);
        mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
        graph_program_close(&p);
    }
}

/* The driver tells of the graph's end when the pool is no more. */
MEND_TEST(pool_capture_memory, a_graph_may_outlive_the_pool)
{
    mend_world world;
    mend_stream stream = NULL;
    void *block = NULL;
    mend_sim_graph *graph = NULL;
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(world.sim, &stream));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(world.sim, stream, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_RESULT(MEND_OK, mend_alloc(world.pool, block_bytes, stream, &block));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(world.sim, stream, &graph));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(world.pool));
    mend_sim_graph_destroy(world.sim, graph);
    mend_sim_destroy(world.sim);
}

static void check_nothing(mend_pool_config *config)
{
    config->capture_checks = -1;
}

static uint64_t captures_held(void (*configure)(mend_pool_config *), mend_stream captured)
{
    graph_program p;
    EXPECT_TRUE(graph_program_open(&p, 8 * MIB, configure));
    mend_stream stream = captured != NULL ? captured : p.streams[0];
    EXPECT_INT_EQ(MEND_DRIVER_OK, p.driver->context_push(p.driver, p.info.context));
    graph_program_begin_capture(&p, stream);
    EXPECT_INT_EQ(MEND_DRIVER_OK, p.driver->context_pop(p.driver));
    void *block = graph_program_alloc(&p, block_bytes, stream);
    graph_program_free(&p, block, stream);
    uint64_t held = mend_world_stats(&p.world).captures;
    EXPECT_INT_EQ(MEND_DRIVER_OK, p.driver->context_push(p.driver, p.info.context));
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, p.driver->context_pop(p.driver));
    EXPECT_RESULT(MEND_OK, mend_forget_stream(p.world.pool, stream));
    graph_program_close(&p);
    return held;
}

MEND_TEST(pool_capture_memory, the_per_thread_stream_is_asked_too_and_none_where_checks_are_off)
{
    EXPECT_U64_EQ(1, captures_held(NULL, NULL));
    EXPECT_U64_EQ(1, captures_held(NULL, PROGRAM_PER_THREAD));
    EXPECT_U64_EQ(0, captures_held(check_nothing, NULL));
}

/* As an engine captures one graph for each batch size, largest last, and launches them as requests
 * come: one after the other, in no order. Every byte of every launch is compared. */
MEND_TEST(pool_capture_memory, graphs_of_one_group_are_launched_in_any_order)
{
    enum { GRAPHS = 12, LAUNCHES = 200, LAYERS = 3 };
    graph_program p;
    mend_sim_graph *graphs[GRAPHS];
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    ASSERT_TRUE(graph_program_open(&p, 32 * MIB, NULL));
    mend_stream stream = p.streams[0];
    mend_group *group = graph_program_begin_group(&p, stream);
    for (uint64_t i = 0; i < GRAPHS; i++) {
        uint64_t size_bytes = (i + 1) * 128 * MEND_KIB;
        graph_program_begin_capture(&p, stream);
        for (int layer = 0; layer < LAYERS; layer++) {
            void *x = graph_program_alloc(&p, size_bytes, stream);
            void *y = graph_program_alloc(&p, 2 * size_bytes, stream);
            graph_program_use(&p, stream, x, size_bytes, 10);
            graph_program_use(&p, stream, y, 2 * size_bytes, 10);
            graph_program_free(&p, x, stream);
            graph_program_free(&p, y, stream);
        }
        graphs[i] = graph_program_end_capture(&p, stream);
    }
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    uint64_t most_bytes = mend_world_stats(&p.world).reserved_bytes;
    EXPECT_TRUE(most_bytes <= 3 * GRAPHS * 128 * MEND_KIB * 3 / 2); /* the largest, and a half */
    void *other = graph_program_alloc(&p, 16 * MIB, p.streams[1]);
    for (int i = 0; i < LAUNCHES; i++) {
        graph_program_launch(&p, graphs[mend_test_random_next(&random) % GRAPHS], stream);
        graph_program_use(&p, p.streams[1], other, 16 * MIB, 30);
    }
    EXPECT_RESULT(MEND_OK, mend_group_release(group, stream));
    mend_sim_advance(p.world.sim, UINT64_C(1) << 30);
    mend_world_check(&p.world);
    for (int i = 0; i < GRAPHS; i++) {
        mend_sim_graph_destroy(p.world.sim, graphs[i]);
    }
    graph_program_close(&p);
}
