/* Captures at their edges: blocks that are not the capture's own and are declared in it, and
 * streams that the pool meets in a capture for the first time. */
#include "pool/pool.h"
#include "tests/support/kit.h"

static const uint64_t block_bytes = 5 * MEND_MIB;
static const uint64_t work_ns = 100000;

KIT_SETTING(may_vanish, w->pool_config.detect_destroyed_streams = 1);
KIT_SETTING(ask_in_graph_pools_alone, w->pool_config.capture_checks = -1);

/* In the capture of `stream`, another one joins it, uses the block, and is declared for it. */
static void declare_joined(mend_world *w, mend_stream stream, mend_stream joined, void *block)
{
    kit_begin_capture(w, stream);
    EXPECT_OK(mend_sim_stream_wait(w->sim, joined, stream));
    kit_use(w, joined, block, block_bytes, 10);
    EXPECT_OK(mend_record_stream(w->pool, block, joined));
    EXPECT_OK(mend_sim_stream_wait(w->sim, stream, joined));
}

/* The memory comes back when the work is done, and not before. */
static void expect_after_work(mend_world *w)
{
    kit_alloc_used(w, 8 * MEND_MIB, S(2), 10);
    EXPECT_U64_EQ(1, mend_world_stats(w).stream_waits + mend_world_stats(w).host_waits);
}

#define WORLD_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_with(w, 8 * MEND_MIB, NULL))

WORLD_TEST(pool_capture_edges, work_from_before_is_waited_for_though_another_stream_is_declared)
{
    void *block = kit_alloc_used(w, block_bytes, S(0), work_ns);
    declare_joined(w, S(0), S(1), block);
    kit_free(w, block, S(0));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    expect_after_work(w);
}

/* The promise to capture in graph pools alone is kept, and the graph uses the block at each
 * launch. */
KIT_TEST_IN(pool_capture_edges, a_block_freed_in_a_capture_of_a_graph_pool_stays_without_checks_too,
            kit_open_with(w, 8 * MEND_MIB, ask_in_graph_pools_alone))
{
    void *block = kit_alloc(w, block_bytes, S(0));
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(0));
    kit_use(w, S(0), block, block_bytes, 10);
    kit_free(w, block, S(0));
    mend_sim_graph *graph = kit_end_captured_graph_pool(w, S(0), graph_pool);
    kit_expect_none(w, block_bytes, S(1), "");
    kit_launch_graph(w, graph, S(0));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(0)));
    EXPECT_TRUE(kit_alloc(w, 8 * MEND_MIB, S(1)) != NULL);
    mend_sim_advance(w->sim, work_ns);
    mend_sim_graph_destroy(w->sim, graph);
}

/* Memory that only a wait for the context makes idle, and a capture that such a wait would spoil.
 */
static mend_sim_graph *serve_and_want_more(mend_world *w, bool is_named_again)
{
    kit_free(w, kit_alloc(w, 4 * MEND_MIB, S(1)), MEND_NO_STREAM);
    kit_begin_capture(w, S(0));
    kit_alloc(w, 1 * MEND_MIB, S(0));
    EXPECT_ERROR(CAPTURING, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    kit_expect_none(w, 6 * MEND_MIB, S(1), "");
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    if (is_named_again) {
        kit_alloc(w, 512, S(0));
        EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    }
    return graph;
}

KIT_EACH(pool_capture_edges, a_capture_that_is_served_is_not_spoilt_where_streams_may_vanish, int,
         is_named_again, 2, kit_open_with(w, 8 * MEND_MIB, may_vanish))
{
    mend_sim_graph *graph = serve_and_want_more(w, is_named_again != 0);
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
}

KIT_EACH(pool_capture_edges, a_stream_known_from_its_capture_alone_is_not_forgotten_in_it, int,
         in_graph_pool, 2, kit_open_with(w, 8 * MEND_MIB, NULL))
{
    mend_graph_pool *graph_pool = in_graph_pool ? kit_begin_graph_pool(w, S(0)) : NULL;
    kit_begin_capture(w, S(0));
    kit_alloc(w, 1 * MEND_MIB, S(0));
    EXPECT_ERROR(CAPTURING, mend_unregister_stream(w->pool, S(0)));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    EXPECT_OK(mend_unregister_stream(w->pool, S(0)));
    EXPECT_TRUE(graph_pool == NULL || mend_graph_pool_end(graph_pool) == MEND_OK);
    mend_sim_graph_destroy(w->sim, graph);
}

/* No request needs their memory, so their last fences are not polled. */
KIT_EACH(pool_capture_edges, streams_that_captures_named_and_that_ended_keep_no_slots, int,
         vanishes, 2, kit_open_with(w, 32 * MEND_MIB, vanishes ? may_vanish : NULL))
{
    uint32_t slots = 0;
    for (int i = 0; i < 600; i++) {
        mend_stream stream = kit_stream(w);
        kit_begin_capture(w, stream);
        kit_free(w, kit_alloc(w, MEND_MIB, stream), stream);
        mend_sim_graph *graph = kit_end_capture(w, stream);
        kit_end_stream(w, stream);
        mend_sim_graph_destroy(w->sim, graph);
        slots = i == 299 ? w->pool->heap.streams.count : slots;
    }
    EXPECT_U64_EQ(slots, w->pool->heap.streams.count);
}
