/* Streams that end without a word. */

#include <stdlib.h>

#include "pool/pool.h"
#include "tests/support/kit.h"
#include "tests/support/regions.h"
#include "tests/support/threads.h"

static const uint64_t block_bytes = 5 * MEND_MIB;

KIT_SETTING(may_vanish, w->pool_config.detect_destroyed_streams = 1);

/* Ends a stream of the program, and puts a new one in its place, with the same handle. */
static void vanish(mend_world *w, int number)
{
    mend_stream gone = S(number);
    EXPECT_OK(mend_sim_stream_destroy(w->sim, gone));
    EXPECT_OK(mend_sim_stream_create(w->sim, NULL, &S(number)));
    EXPECT_PTR_EQ(gone, S(number));
}

/* Gets the memory, and writes it at once. */
static void take_over(mend_world *w, mend_stream stream)
{
    kit_alloc_used(w, block_bytes, stream, 10);
}

static void expect_waits(mend_world *w, uint64_t on_device, uint64_t on_host)
{
    kit_expect_waits(w, on_device, on_host);
    EXPECT_LEDGER(w, host_syncs, on_host);
}

#define MAY_VANISH_TEST(suite, name)                                                               \
    KIT_TEST_IN(suite, name, kit_open_with(w, 8 * MEND_MIB, may_vanish))

/* Freed on a captured stream: no fence can be recorded, and the wait for the context covers it. */
KIT_EACH(pool_vanish, memory_freed_in_a_capture_comes_back_when_its_graph_is_destroyed, int, i, 4,
         kit_open_with(w, 8 * MEND_MIB, may_vanish))
{
    const bool named_again = i / 2, vanishes = i % 2;
    void *block = kit_alloc_used(w, block_bytes, S(0), 1000);
    kit_begin_capture(w, S(0));
    kit_free(w, block, S(0));
    kit_expect_none(w, block_bytes, S(1), "");
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    if (vanishes) {
        vanish(w, 0);
    }
    /* It may be captured still, and the pool cannot ask. */
    kit_expect_none(w, block_bytes, S(1), "");
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    mend_sim_graph_destroy(w->sim, graph);
    if (named_again) {
        kit_alloc(w, 512, S(0));
    }
    take_over(w, S(1));
    expect_waits(w, 0, 1);
}

/* The earlier capture, which its memory belonged to, has ended. */
MAY_VANISH_TEST(pool_vanish, a_capture_is_not_taken_for_the_one_before_it)
{
    kit_leave_in_flight(w, block_bytes, S(1), 1000, MEND_NO_STREAM);
    kit_begin_capture(w, S(0));
    kit_free(w, kit_alloc(w, 512, S(0)), S(0));
    mend_sim_graph *graph = kit_end_capture(w, S(0));
    kit_begin_capture(w, S(0));
    kit_free(w, kit_alloc(w, 512, S(0)), S(0));
    mend_sim_graph_destroy(w->sim, graph);
    kit_expect_none(w, block_bytes, S(1), "");
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    take_over(w, S(1));
}

/* It is unknown whether it is of the same stream. */
MAY_VANISH_TEST(pool_vanish, a_capture_of_a_graph_pool_is_not_taken_for_the_one_before_it)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    uint32_t slots[2];
    for (int i = 0; i < 2; i++) {
        kit_begin_capture(w, S(0));
        kit_alloc(w, 512, S(0));
        slots[i] = w->pool->heap.streams.count;
        mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    }
    EXPECT_U64_EQ(slots[0] + 1, slots[1]);
    EXPECT_OK(mend_graph_pool_end(graph_pool));
}

static void *use_own_stream(void *context)
{
    mend_world *w = context;
    kit_leave_in_flight(w, MEND_MIB, KIT_PER_THREAD, 1000, KIT_PER_THREAD);
    return NULL;
}

static void *use_own_stream_and_forget_it(void *context)
{
    mend_world *w = context;
    use_own_stream(context);
    EXPECT_OK(mend_unregister_stream(w->pool, KIT_PER_THREAD));
    return NULL;
}

/* Each thread has a per-thread stream of its own, and only it can record an event there. */
KIT_EACH(pool_vanish,
         per_thread_streams_of_threads_that_ended_wait_for_the_context_unless_forgotten, int,
         is_forgotten, 2, kit_open_with(w, 8 * MEND_MIB, NULL))
{
    enum { THREADS = 4 };
    void *(*body)(void *) = is_forgotten ? use_own_stream_and_forget_it : use_own_stream;
    mend_test_run_threads_of(body, w, 0, THREADS);
    kit_alloc_used(w, 8 * MEND_MIB, S(0), 10);
    expect_waits(w, is_forgotten ? THREADS : 0, is_forgotten ? 0 : 1);
}

/* The next stream of the handle is another one, and its end is not that of the first. */
MAY_VANISH_TEST(pool_vanish, memory_of_a_graph_pool_stays_with_the_stream_that_vanished)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    vanish(w, 0);
    kit_free(w, kit_alloc(w, 512, S(0)), S(0));
    EXPECT_OK(mend_unregister_stream(w->pool, S(0)));
    size_t count = 0;
    size_t of_graphs = 0;
    mend_region *regions = mend_regions_of(w->pool, &count);
    for (size_t i = 0; i < count; i++) {
        of_graphs += regions[i].is_for_graphs != 0;
        EXPECT_TRUE(!regions[i].is_for_graphs || regions[i].stream == S(0));
    }
    EXPECT_TRUE(of_graphs > 0);
    free(regions);
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(1)));
}
