/* Captures outside of graph pools: their memory is reserved for their graphs, in whatever order the
 * program makes its calls, and one graph pool serves graphs that are launched in any order. */
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

/* A graph that writes a freed block. */
static mend_sim_graph *capture_use(mend_world *w, const order *o)
{
    mend_stream stream = S(0);
    mend_stream owner = o->declared ? S(1) : stream;
    void *block = o->alloc_inside ? NULL : kit_alloc(w, block_bytes, owner);
    kit_begin_capture(w, stream);
    if (o->alloc_inside) {
        block = kit_alloc(w, block_bytes, stream);
    }
    kit_use(w, stream, block, block_bytes, 10);
    if (o->declared) {
        EXPECT_OK(mend_record_stream(w->pool, block, stream));
        kit_free(w, block, owner);
    } else if (o->free_inside) {
        kit_free(w, block, stream);
    }
    mend_sim_graph *graph = kit_end_capture(w, stream);
    if (!o->declared && !o->free_inside) {
        kit_free(w, block, S(2));
    }
    return graph;
}

/* All memory except the graph's, in use on another stream while it is launched. */
static void use_the_rest(mend_world *w, mend_sim_graph *graph)
{
    void *rest = kit_alloc(w, 8 * MEND_MIB - block_bytes, S(1));
    kit_expect_none(w, block_bytes, S(1), "Destroying graphs");
    kit_expect_none(w, block_bytes, S(0), "Destroying graphs");
    for (int i = 0; i < 3; i++) {
        kit_launch_graph(w, graph, S(2));
        kit_use(w, S(1), rest, 8 * MEND_MIB - block_bytes, 100);
    }
    kit_free(w, rest, S(1));
}

KIT_EACH(pool_capture_memory, nobody_gets_what_a_graph_uses_before_it_is_destroyed, int, i, ORDERS,
         kit_open_with(w, 8 * MEND_MIB, NULL))
{
    mend_sim_graph *graph = capture_use(w, &orders[i]);
    EXPECT_STATS(w, captures, 1, graph_pools, 0);
    use_the_rest(w, graph);
    mend_sim_advance(w->sim, 10000);
    mend_sim_graph_destroy(w->sim, graph);
    kit_alloc_used(w, 8 * MEND_MIB, S(1), 10);
    EXPECT_STATS(w, captures, 0);
}

/* A launch is under way when the graph is destroyed: its memory is in use until that is done, which
 * the stream that needs the memory waits for. */
static bool open_in_flight(mend_world *w)
{
    if (!kit_open_with(w, 8 * MEND_MIB, NULL)) {
        return false;
    }
    mend_sim_graph *graph = capture_use(w, &orders[0]);
    EXPECT_OK(mend_sim_graph_launch(w->sim, graph, S(2), 5000));
    mend_sim_graph_destroy(w->sim, graph);
    return true;
}

KIT_TEST_IN(pool_capture_memory, a_launch_in_flight_keeps_what_it_uses_until_it_ends,
            open_in_flight(w))
{
    kit_alloc(w, 8 * MEND_MIB - block_bytes, S(1));
    EXPECT_U64_EQ(0, mend_sim_now_ns(w->sim));
    void *block = kit_alloc(w, block_bytes, S(1));
    EXPECT_TRUE(mend_sim_now_ns(w->sim) >= 5000);
    kit_use(w, S(1), block, block_bytes, 10);
}

/* A use declared in a capture is one of the stream, too, once the capture has ended. */
KIT_TEST_IN(pool_capture_memory, a_declared_use_outlives_its_capture,
            kit_open_allowing(w, 8 * MEND_MIB, 1))
{
    void *block = kit_alloc(w, block_bytes, S(1));
    kit_begin_capture(w, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(0)));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    kit_use(w, S(0), block, block_bytes, 1000);
    kit_free(w, block, S(1));
    kit_alloc_used(w, 8 * MEND_MIB, S(1), 10);
    kit_expect_waits(w, 1, 0);
}

/* Memory that the stream freed a moment ago, outside of the capture, does not silently become a
 * part of it: the cache would serve such a request. */
KIT_EACH(pool_capture_memory, the_front_cache_serves_no_capture, uint64_t, is_captured, 2,
         kit_open_with(w, 64 * MEND_MIB, NULL))
{
    enum { SIZE = 256 << 10 };
    void *row[3];
    kit_alloc_row(w, row, 3, SIZE, S(0));
    kit_free(w, row[1], S(0));
    if (is_captured) {
        kit_begin_capture(w, S(0));
    }
    kit_alloc_used(w, SIZE, S(0), 10);
    EXPECT_STATS(w, cache_hits, 1 - is_captured, captures, is_captured);
    if (is_captured) {
        mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    }
}

KIT_EACH(pool_capture_memory, without_an_answer_of_the_driver_nothing_is_done, int, i, 2,
         kit_open_with(w, 8 * MEND_MIB, NULL))
{
    static const char *const calls[] = {"stream_get_capture", "capture_keep"};
    void *none = NULL;
    void *block = kit_alloc(w, block_bytes, S(0));
    kit_begin_capture(w, S(0));
    mend_stats before = mend_world_stats(w);
    kit_fail(w, calls[i], 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    mend_pool *pool = w->pool;
    EXPECT_ERROR(DRIVER, mend_alloc(pool, 512, S(0), &none));
    EXPECT_ERROR(DRIVER, mend_record_stream(pool, block, S(0)));
    EXPECT_ERROR(DRIVER, mend_free(pool, block, S(0)));
    mend_sim_clear_faults(w->sim);
    EXPECT_STATS(w, live_bytes, before.live_bytes, captures, 0);
    kit_free(w, block, S(0));
    EXPECT_STATS(w, captures, 1);
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
}

KIT_SETTING(check_nothing, w->pool_config.capture_checks = -1);

static uint64_t captures_held(void (*configure)(mend_world *), mend_stream captured)
{
    mend_world w;
    EXPECT_TRUE(kit_open_with(&w, 8 * MEND_MIB, configure));
    mend_stream stream = captured != NULL ? captured : w.streams[0];
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->context_push(w.driver, w.info.context));
    kit_begin_capture(&w, stream);
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->context_pop(w.driver));
    kit_free(&w, kit_alloc(&w, block_bytes, stream), stream);
    uint64_t held = mend_world_stats(&w).captures;
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->context_push(w.driver, w.info.context));
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->context_pop(w.driver));
    EXPECT_OK(mend_unregister_stream(w.pool, stream));
    kit_close(&w);
    return held;
}

MEND_TEST(pool_capture_memory, the_per_thread_stream_is_asked_too_and_none_where_checks_are_off)
{
    EXPECT_U64_EQ(1, captures_held(NULL, NULL));
    EXPECT_U64_EQ(1, captures_held(NULL, KIT_PER_THREAD));
    EXPECT_U64_EQ(0, captures_held(check_nothing, NULL));
}
