/* Captures beside the pool: it harms none, and memory that they delay comes back at their end.
 */

#include "mend/mend_sleep.h"
#include "tests/support/kit.h"

/* So little that no fence is recorded at its free: the pool records one when a stream needs it. */
static const uint64_t block_bytes = 3 * MEND_MIB;

/* There is no work left on the stream, and it was never seen captured. */
static void get_known(mend_world *w, mend_stream stream)
{
    kit_alloc(w, 512, stream);
}

/* The capture is whole: its work, one touch of a block, can be launched. */
static void end_whole(mend_world *w, mend_stream stream, void *block)
{
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = (uint64_t)(uintptr_t)block,
                                .size_bytes = block != NULL ? 512 : 0};
    if (block != NULL) {
        EXPECT_OK(mend_sim_launch(w->sim, stream, &work));
    }
    mend_sim_graph *graph = kit_end_capture(w, stream);
    kit_launch_graph(w, graph, S(1));
    mend_sim_graph_destroy(w->sim, graph);
}

#define WORLD_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_with(w, 8 * MEND_MIB, NULL))

/* All the pool could know the capture by is the graph pool that was begun for it: for its stream,
 * or for all. Of these, the pool knows it by calls outside, or by one in the graph pool alone. */
KIT_EACH(pool_captures, the_context_is_not_waited_for_while_a_graph_pool_is_begun_for_one, int, way,
         3, kit_open_with(w, 8 * MEND_MIB, NULL))
{
    kit_alloc(w, 4 * MEND_MIB + 768 * MEND_KIB, S(1)); /* and all that is left */
    if (way < 2) {
        get_known(w, S(0));
    }
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, way > 0 ? MEND_EVERY_STREAM : S(0));
    if (way == 2) {
        get_known(w, S(0));
    }
    kit_begin_capture(w, S(0));
    kit_expect_none(w, block_bytes, S(1), "Ending the capture");
    EXPECT_LEDGER(w, host_syncs, 0);
    end_whole(w, S(0), NULL);
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    kit_alloc_used(w, block_bytes, S(1), 10);
    EXPECT_LEDGER(w, host_syncs, 1);
}

/* The legacy stream tells of blocking streams, which the pool need not know. */
WORLD_TEST(pool_captures, of_blocking_streams_nobody_knows_are_noticed)
{
    mend_stream blocking = NULL;
    EXPECT_OK(mend_sim_stream_create(w->sim, KIT_OPTIONS(mend_sim_stream_options, .is_blocking = 1),
                                     &blocking));
    kit_alloc(w, 5 * MEND_MIB, S(1));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    kit_begin_capture(w, blocking);
    kit_expect_none(w, block_bytes, S(1), "");
    EXPECT_ERROR(CAPTURING, mend_pool_destroy(w->pool));
    end_whole(w, blocking, NULL);
    EXPECT_TRUE(kit_alloc(w, block_bytes, S(1)) != NULL);
    EXPECT_OK(mend_sim_stream_destroy(w->sim, blocking));
}

KIT_TEST_IN(pool_captures, nothing_mapped_goes_while_one_is_known,
            kit_open_with(w, 7 * MEND_MIB, NULL))
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, S(1));
    /* moves chunks, so that retired mappings are there as well */
    kit_free(w, kit_alloc_with(w, 7 * MEND_MIB, S(1), .alignment_bytes = MEND_GIB), S(1));
    uint64_t retired = mend_world_stats(w).retired_bytes;
    EXPECT_TRUE(retired > 0);
    mend_sim_advance(w->sim, 10000);
    kit_begin_capture(w, S(0));
    void *block = kit_alloc(w, MEND_MIB, S(0));
    uint64_t mapped = mend_world_ledger(w).mapped_bytes;
    kit_expect_trim(w, 0, 0);
    EXPECT_OK(mend_set_limit(w->pool, MEND_MIB));
    EXPECT_STATS(w, limit_bytes, MEND_MIB);
    EXPECT_OK(mend_set_limit(w->pool, 0));
    EXPECT_LEDGER(w, mapped_bytes, mapped);
    EXPECT_STATS(w, retired_bytes, retired);
    end_whole(w, S(0), block);
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_TRUE(mend_world_ledger(w).mapped_bytes < mapped);
}

/* An engine captures one graph after the other on a stream, and calls for it in captures alone. */
KIT_EACH(pool_captures, the_next_one_of_a_stream_that_only_a_capture_named_is_known, int, ends, 2,
         kit_open_with(w, 8 * MEND_MIB, NULL))
{
    kit_begin_capture(w, S(0));
    void *block = kit_alloc(w, 512, S(0));
    mend_sim_graph *first = kit_end_capture(w, S(0));
    if (ends) {
        mend_sim_graph_destroy(w->sim, first);
    }
    kit_free(w, kit_alloc(w, 512, S(1)), S(1));
    kit_alloc(w, 4 * MEND_MIB, S(1));
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    kit_begin_capture(w, S(0));
    kit_expect_none(w, block_bytes, S(1), "");
    EXPECT_LEDGER(w, host_syncs, 0);
    end_whole(w, S(0), block);
    if (!ends) {
        mend_sim_graph_destroy(w->sim, first);
    }
}

/* Two pools of a device. The world's is the one that knows. */
typedef struct two_pools {
    mend_world w;
    mend_pool *other; /* has memory that waits for the context */
} two_pools;

static bool open_two(two_pools *r, bool (*open)(mend_world *w))
{
    *r = (two_pools){0};
    if (!open(&r->w)) {
        return false;
    }
    EXPECT_OK(mend_world_create_pool(&r->w, &r->other));
    void *block = kit_alloc_from(r->other, MEND_MIB, MEND_NO_STREAM);
    EXPECT_OK(mend_free(r->other, block, MEND_NO_STREAM));
    return !mend_test_has_failed();
}

static void close_two(two_pools *r)
{
    EXPECT_OK(mend_pool_destroy(r->other));
    kit_close(&r->w);
}

/* Ways to know of a capture: a graph pool is begun on its stream, or on all streams and a call
 * names it, or a call names it and there is no graph pool, or a call before the capture names its
 * stream anew, or a trim asks about it. */
KIT_RIG_EACH(pool_captures, no_pool_waits_while_another_one_knows_of_one, int, way, 5, two_pools, r,
             open_two(r, kit_open_default), close_two(r))
{
    mend_world *w = &r->w;
    mend_graph_pool *graph_pool =
        way != 2 && way != 4 ? kit_begin_graph_pool(w, way == 1 ? MEND_EVERY_STREAM : S(0)) : NULL;
    if (way >= 3) {
        EXPECT_OK(mend_unregister_stream(w->pool, S(0)));
        kit_free(w, kit_alloc(w, 512, S(1)), S(0));
    }
    kit_begin_capture(w, S(0));
    void *block = way == 1 || way == 2 ? kit_alloc(w, 512, S(0)) : NULL;
    EXPECT_OK(way == 4 ? mend_trim(w->pool, UINT64_MAX, MEND_TRIM_IDLE, NULL) : MEND_OK);
    EXPECT_ERROR(CAPTURING, mend_trim(r->other, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_ERROR(CAPTURING, mend_sleep(r->other, NULL, NULL));
    EXPECT_ERROR(CAPTURING, mend_compact(r->other, NULL, NULL));
    EXPECT_ERROR(CAPTURING, mend_pool_destroy(r->other));
    EXPECT_LEDGER(w, host_syncs, 0);
    end_whole(w, S(0), block);
    EXPECT_OK(graph_pool != NULL ? mend_graph_pool_end(graph_pool) : MEND_OK);
    EXPECT_OK(mend_trim(r->other, 0, MEND_TRIM_WAIT, NULL));
}

KIT_RIG_TEST(pool_captures, an_invalidated_one_hides_no_other, two_pools,
             open_two(r, kit_open_default), close_two(r))
{
    for (int i = 0; i < 2; i++) {
        kit_begin_capture(w, S(i));
        kit_alloc(w, 512, S(i));
    }
    EXPECT_INT_EQ(MEND_DRIVER_CAPTURE_UNSUPPORTED, w->driver->stream_query(w->driver, S(0)));
    w->violations_meant = 1;
    EXPECT_ERROR(CAPTURING, mend_trim(r->other, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_LEDGER(w, host_syncs, 0);
    mend_sim_graph *graph = NULL;
    EXPECT_FALSE(mend_sim_end_capture(w->sim, S(0), &graph) == MEND_OK);
    end_whole(w, S(1), NULL);
}

static bool open_vanishing(mend_world *w)
{
    return kit_open_set(w, w->pool_config.detect_destroyed_streams = 1);
}

/* Asking the driver about it would be a mistake. Nor about one that may end without a word. */
KIT_RIG_EACH(pool_captures, no_pool_asks_about_a_stream_that_another_one_has_unregistered, int, way,
             3, two_pools, r, open_two(r, way == 2 ? open_vanishing : kit_open_default),
             close_two(r))
{
    mend_world *w = &r->w;
    mend_stream stream = kit_stream(w);
    mend_graph_pool *graph_pool = way == 0 ? kit_begin_graph_pool(w, stream) : NULL;
    kit_begin_capture(w, stream);
    kit_alloc(w, 512, stream);
    mend_sim_graph *graph = kit_end_capture(w, stream);
    EXPECT_OK(way == 2 ? MEND_OK : mend_unregister_stream(w->pool, stream));
    EXPECT_OK(mend_sim_stream_destroy(w->sim, stream));
    EXPECT_OK(mend_trim(r->other, 0, MEND_TRIM_WAIT, NULL));
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(graph_pool != NULL ? mend_graph_pool_end(graph_pool) : MEND_OK);
}

/* Whether or not the stream was known before. Streams that come and go make the pool forget others.
 */
KIT_EACH(pool_captures, a_capture_outlives_its_graph_pool_in_the_pool_s_memory, int, is_known, 2,
         kit_open_set(w, w->pool_config.detect_destroyed_streams = 1))
{
    mend_graph_pool *graph_pool = NULL;
    void *block = is_known ? kit_alloc(w, 512, S(0)) : NULL;
    EXPECT_OK(mend_graph_pool_create(w->pool, &graph_pool));
    kit_begin_capture(w, S(0));
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .graph_pool = graph_pool);
    EXPECT_OK(mend_alloc_with(w->pool, 512, S(0), options, &block));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, MEND_NO_STREAM));
    for (int i = 0; i < 400; i++) {
        const mend_stream stream = kit_stream(w);
        kit_free(w, kit_alloc(w, 512, stream), stream);
        EXPECT_OK(mend_sim_stream_destroy(w->sim, stream));
    }
    kit_free(w, kit_alloc(w, MEND_MIB, MEND_NO_STREAM), MEND_NO_STREAM);
    EXPECT_ERROR(CAPTURING, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    end_whole(w, S(0), block);
}
