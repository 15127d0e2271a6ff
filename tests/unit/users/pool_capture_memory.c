/* Captures outside of groups: what they use is kept for their graphs, in whatever order the program
 * makes its calls; and one group serves graphs that are launched in any order. */
#include "tests/support/kit.h"

static const uint64_t block_bytes = 3 * MEND_MIB;

/* Which calls on the block the capture sees. */
typedef struct order {
    int alloc_inside;
    int free_inside;
    int declared; /* the block is another stream's, which frees it before the capture ends */
} order;

static const order orders[] = {{1, 1, 0}, {0, 1, 0}, {1, 0, 0}, {0, 0, 1}};
enum { ORDERS = sizeof(orders) / sizeof(orders[0]) };

/* A graph that writes a block which nobody holds any more. */
static mend_sim_graph *capture_use(mend_world *w, const order *o)
{
    mend_stream stream = w->streams[0];
    mend_stream owner = o->declared ? w->streams[1] : stream;
    void *block = o->alloc_inside ? NULL : kit_alloc(w, block_bytes, owner);
    kit_begin_capture(w, stream);
    if (o->alloc_inside) {
        block = kit_alloc(w, block_bytes, stream);
    }
    kit_use(w, stream, block, block_bytes, 10);
    if (o->declared) {
        EXPECT_RESULT(MEND_OK, mend_record_stream(w->pool, block, stream));
        kit_free(w, block, owner);
    } else if (o->free_inside) {
        kit_free(w, block, stream);
    }
    mend_sim_graph *graph = kit_end_capture(w, stream);
    if (!o->declared && !o->free_inside) {
        kit_free(w, block, w->streams[2]);
    }
    return graph;
}

/* All memory there is but what the graph has, in use on another stream while it is launched. */
static void use_the_rest(mend_world *w, mend_sim_graph *graph)
{
    void *rest = kit_alloc(w, 8 * MEND_MIB - block_bytes, w->streams[1]);
    kit_expect_none(w, block_bytes, w->streams[1], "destroying such graphs");
    kit_expect_none(w, block_bytes, w->streams[0], "destroying such graphs");
    for (int i = 0; i < 3; i++) {
        kit_launch_graph(w, graph, w->streams[2]);
        kit_use(w, w->streams[1], rest, 8 * MEND_MIB - block_bytes, 100);
    }
    kit_free(w, rest, w->streams[1]);
}

MEND_TEST(pool_capture_memory, nobody_gets_what_a_graph_uses_before_it_is_destroyed)
{
    for (int i = 0; i < ORDERS; i++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
        mend_sim_graph *graph = capture_use(&w, &orders[i]);
        EXPECT_U64_EQ(1, mend_world_stats(&w).captures);
        EXPECT_U64_EQ(0, mend_world_stats(&w).groups);
        use_the_rest(&w, graph);
        mend_sim_advance(w.sim, 10000);
        mend_sim_graph_destroy(w.sim, graph);
        kit_alloc_used(&w, 8 * MEND_MIB, w.streams[1], 10);
        EXPECT_U64_EQ(0, mend_world_stats(&w).captures);
        kit_close(&w);
    }
}

/* A launch is under way when the graph is destroyed: its memory is in use until that is done, which
 * the stream that needs the memory waits for. */
static bool open_in_flight(mend_world *w)
{
    if (!kit_open_with(w, 8 * MEND_MIB, NULL)) {
        return false;
    }
    mend_sim_graph *graph = capture_use(w, &orders[0]);
    EXPECT_RESULT(MEND_OK, mend_sim_graph_launch(w->sim, graph, w->streams[2], 5000));
    mend_sim_graph_destroy(w->sim, graph);
    return true;
}

MEND_TEST(pool_capture_memory, a_launch_in_flight_keeps_what_it_uses_until_it_ends)
{
    mend_world w;
    ASSERT_TRUE(open_in_flight(&w));
    kit_alloc(&w, 8 * MEND_MIB - block_bytes, w.streams[1]);
    EXPECT_U64_EQ(0, mend_sim_now_ns(w.sim));
    void *block = kit_alloc(&w, block_bytes, w.streams[1]);
    EXPECT_TRUE(mend_sim_now_ns(w.sim) >= 5000);
    kit_use(&w, w.streams[1], block, block_bytes, 10);
    kit_close(&w);
}

MEND_TEST(pool_capture_memory, a_trim_that_waits_and_a_defragmentation_wait_for_such_a_launch)
{
    mend_world w;
    ASSERT_TRUE(open_in_flight(&w));
    EXPECT_RESULT(MEND_OK, mend_trim_wait(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).reserved_bytes);
    kit_close(&w);
    ASSERT_TRUE(open_in_flight(&w));
    EXPECT_RESULT(MEND_OK, mend_defrag(w.pool, NULL, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).captures);
    kit_close(&w);
}

/* What the stream was at before the capture began may use the block longer than any graph. */
MEND_TEST(pool_capture_memory, earlier_work_of_the_stream_is_waited_for_too)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 100000);
    kit_begin_capture(&w, w.streams[0]);
    kit_free(&w, block, w.streams[0]);
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
    kit_alloc_used(&w, 8 * MEND_MIB, w.streams[1], 10);
    kit_close(&w);
}

/* In one capture memory goes round; another capture does not get it, nor the stream itself. */
MEND_TEST(pool_capture_memory, each_capture_has_its_own)
{
    mend_world w;
    void *blocks[2];
    mend_sim_graph *graphs[2];
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    for (int i = 0; i < 2; i++) {
        kit_begin_capture(&w, w.streams[0]);
        blocks[i] = kit_leave_in_flight(&w, block_bytes, w.streams[0], 10, w.streams[0]);
        EXPECT_PTR_EQ(blocks[i], kit_alloc(&w, block_bytes, w.streams[0]));
        kit_free(&w, blocks[i], w.streams[0]);
        graphs[i] = kit_end_capture(&w, w.streams[0]);
    }
    EXPECT_TRUE(blocks[0] != blocks[1]);
    EXPECT_U64_EQ(2, mend_world_stats(&w).captures);
    kit_launch_graph(&w, graphs[0], w.streams[1]);
    kit_launch_graph(&w, graphs[1], w.streams[2]);
    for (int i = 0; i < 2; i++) {
        mend_sim_advance(w.sim, 10000);
        mend_sim_graph_destroy(w.sim, graphs[i]);
        EXPECT_PTR_EQ(blocks[i], kit_alloc(&w, block_bytes, w.streams[0]));
    }
    kit_close(&w);
}

/* What the stream freed a moment ago, outside of the capture, is not made a part of it unnoticed:
 * the front cache would serve such a request. */
MEND_TEST(pool_capture_memory, the_front_cache_serves_no_capture)
{
    enum { SIZE = 256 << 10 };
    for (uint64_t is_captured = 0; is_captured < 2; is_captured++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 64 * MEND_MIB, NULL));
        void *row[3];
        for (int i = 0; i < 3; i++) {
            row[i] = kit_alloc(&w, SIZE, w.streams[0]);
        }
        kit_free(&w, row[1], w.streams[0]);
        if (is_captured) {
            kit_begin_capture(&w, w.streams[0]);
        }
        kit_alloc_used(&w, SIZE, w.streams[0], 10);
        EXPECT_U64_EQ(1 - is_captured, mend_world_stats(&w).cache_hits);
        EXPECT_U64_EQ(is_captured, mend_world_stats(&w).captures);
        if (is_captured) {
            mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
        }
        kit_close(&w);
    }
}

/* A graph's result lives on when the graph does not, and is freed as any block. */
MEND_TEST(pool_capture_memory, a_block_may_outlive_its_graph)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    kit_begin_capture(&w, w.streams[0]);
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 10);
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&w).captures);
    kit_use(&w, w.streams[1], block, block_bytes, 10);
    kit_free(&w, block, w.streams[1]);
    EXPECT_TRUE(kit_alloc(&w, 8 * MEND_MIB, w.streams[1]) != NULL);
    kit_close(&w);
}

/* A capture that comes to nothing keeps nothing. */
MEND_TEST(pool_capture_memory, a_spoilt_capture_gives_back_all)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    kit_begin_capture(&w, w.streams[0]);
    void *block = kit_alloc_used(&w, block_bytes, w.streams[0], 10);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(w.sim, w.streams[1], w.streams[0]));
    kit_use(&w, w.streams[1], block, block_bytes, 10);
    kit_free(&w, block, w.streams[0]);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(w.sim, w.streams[0], NULL));
    EXPECT_TRUE(kit_alloc(&w, 8 * MEND_MIB, w.streams[1]) != NULL);
    kit_close(&w);
}

/* The driver refuses: the call fails, and nothing has changed. */
MEND_TEST(pool_capture_memory, without_an_answer_of_the_driver_nothing_is_done)
{
    static const char *const calls[] = {"stream_get_capture", "capture_keep"};
    for (int i = 0; i < 2; i++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
        void *none = NULL;
        void *block = kit_alloc(&w, block_bytes, w.streams[0]);
        kit_begin_capture(&w, w.streams[0]);
        mend_stats before = mend_world_stats(&w);
        kit_fail(&w, calls[i], 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
        mend_pool *pool = w.pool;
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_alloc(pool, 512, w.streams[0], &none));
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_record_stream(pool, block, w.streams[0]));
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_free(pool, block, w.streams[0]));
        mend_sim_clear_faults(w.sim);
        EXPECT_U64_EQ(before.live_bytes, mend_world_stats(&w).live_bytes);
        EXPECT_U64_EQ(0, mend_world_stats(&w).captures);
        kit_free(&w, block, w.streams[0]);
        EXPECT_U64_EQ(1, mend_world_stats(&w).captures);
        mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
        kit_close(&w);
    }
}

/* The driver tells of the graph's end when the pool is no more. */
MEND_TEST(pool_capture_memory, a_graph_may_outlive_the_pool)
{
    mend_world w;
    mend_stream stream = NULL;
    mend_sim_graph *graph = NULL;
    ASSERT_TRUE(kit_open_default(&w));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w.sim, &stream));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(w.sim, stream, MEND_SIM_CAPTURE_GLOBAL));
    kit_alloc(&w, block_bytes, stream);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(w.sim, stream, &graph));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(w.pool));
    mend_sim_graph_destroy(w.sim, graph);
    mend_sim_destroy(w.sim);
}

static void check_nothing(mend_world *w)
{
    w->pool_config.capture_checks = -1;
}

static uint64_t captures_held(void (*configure)(mend_world *), mend_stream captured)
{
    mend_world w;
    EXPECT_TRUE(kit_open_with(&w, 8 * MEND_MIB, configure));
    mend_stream stream = captured != NULL ? captured : w.streams[0];
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->context_push(w.driver, w.info.context));
    kit_begin_capture(&w, stream);
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->context_pop(w.driver));
    void *block = kit_alloc(&w, block_bytes, stream);
    kit_free(&w, block, stream);
    uint64_t held = mend_world_stats(&w).captures;
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->context_push(w.driver, w.info.context));
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->context_pop(w.driver));
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, stream));
    kit_close(&w);
    return held;
}

MEND_TEST(pool_capture_memory, the_per_thread_stream_is_asked_too_and_none_where_checks_are_off)
{
    EXPECT_U64_EQ(1, captures_held(NULL, NULL));
    EXPECT_U64_EQ(1, captures_held(NULL, KIT_PER_THREAD));
    EXPECT_U64_EQ(0, captures_held(check_nothing, NULL));
}

/* As an engine captures one graph for each batch size, largest last, and launches them as requests
 * come: one after the other, in no order. Every byte of every launch is compared. */
MEND_TEST(pool_capture_memory, graphs_of_one_group_are_launched_in_any_order)
{
    enum { GRAPHS = 12, LAUNCHES = 200, LAYERS = 3 };
    mend_world w;
    mend_sim_graph *graphs[GRAPHS];
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    ASSERT_TRUE(kit_open_with(&w, 32 * MEND_MIB, NULL));
    mend_stream stream = w.streams[0];
    mend_group *group = kit_begin_group(&w, stream);
    for (uint64_t i = 0; i < GRAPHS; i++) {
        uint64_t size_bytes = (i + 1) * 128 * MEND_KIB;
        kit_begin_capture(&w, stream);
        for (int layer = 0; layer < LAYERS; layer++) {
            void *x = kit_alloc(&w, size_bytes, stream);
            void *y = kit_alloc(&w, 2 * size_bytes, stream);
            kit_use(&w, stream, x, size_bytes, 10);
            kit_use(&w, stream, y, 2 * size_bytes, 10);
            kit_free(&w, x, stream);
            kit_free(&w, y, stream);
        }
        graphs[i] = kit_end_capture(&w, stream);
    }
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    uint64_t most_bytes = mend_world_stats(&w).reserved_bytes;
    EXPECT_TRUE(most_bytes <= 3 * GRAPHS * 128 * MEND_KIB * 3 / 2); /* the largest, and a half */
    void *other = kit_alloc(&w, 16 * MEND_MIB, w.streams[1]);
    for (int i = 0; i < LAUNCHES; i++) {
        kit_launch_graph(&w, graphs[mend_test_random_next(&random) % GRAPHS], stream);
        kit_use(&w, w.streams[1], other, 16 * MEND_MIB, 30);
    }
    EXPECT_RESULT(MEND_OK, mend_group_release(group, stream));
    mend_sim_advance(w.sim, UINT64_C(1) << 30);
    mend_world_check(&w);
    for (int i = 0; i < GRAPHS; i++) {
        mend_sim_graph_destroy(w.sim, graphs[i]);
    }
    kit_close(&w);
}
