/* Blocks for whatever stream: made only of memory that nothing uses any more. */
#include "tests/support/child.h"
#include "tests/support/kit.h"
#include "tests/support/place.h"

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

/* ---- what the context's event finds idle --------------------------------------------------- */

#define NO_STREAM_TEST(name)                                                                       \
    KIT_TEST_IN(pool_no_stream, name, kit_open_with(w, 4096 * MEND_MIB, NULL))

/* Allocates and frees so many blocks, one by one. */
static void alloc_and_free(mend_world *w, int count, uint64_t size_bytes)
{
    for (int i = 0; i < count; i++) {
        kit_free(w, kit_alloc(w, size_bytes, MEND_NO_STREAM), MEND_NO_STREAM);
    }
}

static void expect_reserved(mend_world *w, uint64_t most_bytes, uint64_t most_waits)
{
    EXPECT_TRUE(mend_world_stats(w).peak_reserved_bytes <= most_bytes);
    EXPECT_TRUE(mend_world_stats(w).host_waits <= most_waits);
}

KIT_TEST_IN(pool_no_stream, without_such_events_the_host_waits_now_and_then,
            kit_open_set(w, w->sim_config.memory_bytes = 4096 * MEND_MIB,
                         w->sim_config.has_no_context_events = 1))
{
    alloc_and_free(w, 1000, BLOCK_BYTES);
    expect_reserved(w, 160 * MEND_MIB, 1000 * 5 / 128);
    const uint64_t waits = mend_world_stats(w).host_waits;
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0)); /* nor where a capture may begin */
    alloc_and_free(w, 100, BLOCK_BYTES);
    EXPECT_STATS(w, context_fences, 0, host_waits, waits);
    kit_end_graph_pool(graph_pool, S(0));
}

KIT_TEST_IN(pool_no_stream, a_program_may_forbid_both_until_the_memory_is_full,
            kit_open_set(w, w->sim_config.memory_bytes = 256 * MEND_MIB,
                         w->pool_config.allow_context_fences = -1))
{
    alloc_and_free(w, 51, BLOCK_BYTES);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, context_fences, 0, host_waits, 0, reserved_bytes, 255 * MEND_MIB);
    alloc_and_free(w, 1, BLOCK_BYTES);
    expect_reserved(w, 256 * MEND_MIB, 1);
}

KIT_TEST_IN(pool_no_stream, a_pool_that_ends_leaves_no_event_of_the_context,
            kit_open_set(w, w->sim_config.memory_bytes = 8192 * MEND_MIB))
{
    mend_pool *pool = NULL;
    ASSERT_TRUE(mend_world_create_pool(w, &pool) == MEND_OK);
    const uint64_t events_before = mend_world_ledger(w).events;
    void *pointer;
    EXPECT_OK(mend_alloc(pool, MEND_MIB, S(0), &pointer));
    for (uint64_t i = 0; i < 3; i++) { /* each search records one, because the work is not done */
        EXPECT_OK(mend_alloc(pool, (200 + 100 * i) * MEND_MIB, S(1), &pointer));
        kit_launch(w, S(1), MEND_SIM_WORK_TOUCH, pointer, 1, 0,
                   mend_sim_now_ns(w->sim) + 1000000000);
        EXPECT_OK(mend_free(pool, pointer, MEND_NO_STREAM));
        EXPECT_OK(mend_alloc(pool, (700 + 10 * i) * MEND_MIB, S(0), &pointer));
    }
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_OK(mend_get_stats(pool, &stats));
    EXPECT_U64_EQ(3, stats.context_fences);
    EXPECT_OK(mend_pool_destroy(pool));
    EXPECT_U64_EQ(events_before, mend_world_ledger(w).events);
}

NO_STREAM_TEST(a_request_that_cannot_be_served_waits_for_nothing)
{
    void *pointer = NULL;
    kit_fail(w, "context_record", 0, UINT64_MAX, MEND_DRIVER_NOT_SUPPORTED);
    alloc_and_free(w, 26, BLOCK_BYTES);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(w->pool, 8192 * MEND_MIB, MEND_NO_STREAM, &pointer));
    EXPECT_STATS(w, host_waits, 0);
    mend_available room = MEND_AVAILABLE_INIT;
    EXPECT_OK(mend_get_available(w->pool, MEND_NO_STREAM, &room));
    EXPECT_U64_EQ(0, room.now_bytes); /* the next one stalls the CPU */
    EXPECT_TRUE(room.after_waiting_bytes > 4000 * MEND_MIB);
}

/* A known capture forbids waits for the context. The event of a stream can be waited for. */
NO_STREAM_TEST(beside_a_capture_the_host_waits_for_streams_and_room_knows)
{
    enum { BLOCKS = 26 };
    mend_sim_graph *graph = NULL;
    void *blocks[BLOCKS];
    mend_available room = MEND_AVAILABLE_INIT;
    kit_alloc(w, 512, S(1));
    EXPECT_OK(mend_sim_begin_capture(w->sim, S(1), MEND_SIM_CAPTURE_RELAXED));
    kit_alloc(w, 512, S(1));
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = kit_alloc_used(w, BLOCK_BYTES, S(0), LONG_NS);
    }
    kit_free_row(w, blocks, BLOCKS, S(0));
    EXPECT_OK(mend_get_available(w->pool, MEND_NO_STREAM, &room));
    EXPECT_U64_EQ(32 * MEND_KIB, room.now_bytes); /* beside the small blocks */
    kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
    EXPECT_STATS(w, host_waits, 1);
    EXPECT_OK(mend_sim_end_capture(w->sim, S(1), &graph));
    mend_sim_graph_destroy(w->sim, graph);
}

/* The pool cannot know of the captures, and harms one. It waits for twice as much before it may
 * harm another one. */
NO_STREAM_TEST(hidden_captures_are_met_ever_less_often)
{
    enum { BLOCKS = 8 }; /* above its first threshold, and below twice as much */
    mend_sim_graph *graph = NULL;
    w->violations_meant = 1;
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_sim_begin_capture(w->sim, S(1), MEND_SIM_CAPTURE_RELAXED));
        alloc_and_free(w, i == 0 ? BLOCKS : BLOCKS / 2, BLOCK_BYTES);
        EXPECT_RESULT(i == 0 ? MEND_ERROR_DRIVER : MEND_OK,
                      mend_sim_end_capture(w->sim, S(1), &graph));
    }
    mend_sim_graph_destroy(w->sim, graph);
    alloc_and_free(w, 2 * BLOCKS, BLOCK_BYTES);
    expect_reserved(w, 96 * MEND_MIB, 0);
}

NO_STREAM_TEST(a_known_capture_is_left_alone)
{
    mend_sim_graph *graph = NULL;
    kit_alloc(w, 512, S(1));
    EXPECT_OK(mend_sim_begin_capture(w->sim, S(1), MEND_SIM_CAPTURE_RELAXED));
    kit_alloc(w, 512, S(1));
    alloc_and_free(w, 100, BLOCK_BYTES);
    EXPECT_OK(mend_sim_end_capture(w->sim, S(1), &graph));
    mend_sim_graph_destroy(w->sim, graph);
    alloc_and_free(w, 100, BLOCK_BYTES);
    EXPECT_STATS(w, host_waits, 0);
}

/* The first of two neighbors is idle when the event passes that was recorded before the other was
 * freed. */
KIT_TEST_IN(pool_no_stream, a_later_free_beside_it_keeps_nothing_waiting,
            kit_open_with(w, 12 * MEND_MIB, NULL))
{
    mend_test_place(w->pool, &(mend_test_sizes){.unfenced_bytes = MEND_MIB});
    kit_free(w, kit_alloc(w, 2 * BLOCK_BYTES, S(0)), S(0));
    void *first = kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
    void *second = kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
    EXPECT_PTR_EQ((char *)first + BLOCK_BYTES, second);
    write_late(w, S(0), first);
    kit_free(w, first, MEND_NO_STREAM);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL)); /* records the event */
    kit_free(w, second, MEND_NO_STREAM);
    mend_sim_advance(w->sim, 2 * LONG_NS);
    launch(w, S(0), MEND_SIM_WORK_TOUCH, second, 0, LONG_NS);
    kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
    EXPECT_STATS(w, host_waits, 0);
}

NO_STREAM_TEST(long_work_elsewhere_neither_grows_the_pool_nor_stops_the_host)
{
    void *long_used = kit_alloc(w, MEND_MIB, S(1));
    kit_use(w, S(1), long_used, MEND_MIB, 1000 * LONG_NS);
    for (int i = 0; i < 200; i++) {
        void *block = kit_alloc(w, BLOCK_BYTES, S(0));
        kit_use(w, S(0), block, BLOCK_BYTES, SHORT_NS);
        kit_free(w, block, MEND_NO_STREAM);
        mend_sim_advance(w->sim, LONG_NS);
    }
    expect_reserved(w, 256 * MEND_MIB, 0);
    kit_free(w, long_used, S(1));
}

/* Requests without a stream, whose frees have one. */
NO_STREAM_TEST(behind_a_late_gpu_the_host_waits_also_for_frees_of_streams)
{
    for (int i = 0; i < 400; i++) {
        void *block = kit_alloc(w, BLOCK_BYTES, MEND_NO_STREAM);
        kit_use(w, S(i % 2), block, BLOCK_BYTES, 100 * LONG_NS);
        kit_free(w, block, S(i % 2));
        mend_sim_advance(w->sim, LONG_NS);
    }
    EXPECT_TRUE(mend_world_stats(w).peak_reserved_bytes <= 256 * MEND_MIB);
}

/* Whether no stream may wait for another, or those of a graph pool, or there is no such event. */
KIT_EACH(pool_no_stream, the_host_waits_where_no_stream_can, int, way, 3,
         kit_open_set(w, w->sim_config.memory_bytes = 4096 * MEND_MIB,
                      w->pool_config.allow_stream_waits = way == 0 ? -1 : 0,
                      w->sim_config.has_no_context_events = way == 2))
{
    mend_graph_pool *graph_pool = way == 1 ? kit_graph_pool(w) : NULL;
    kit_alloc(w, 512, S(1));
    for (int i = 0; i < 100; i++) {
        void *block = kit_alloc_with(w, BLOCK_BYTES, S(0), .graph_pool = graph_pool);
        kit_use(w, S(0), block, BLOCK_BYTES, 100 * LONG_NS);
        kit_free(w, block, MEND_NO_STREAM);
    }
    expect_reserved(w, 256 * MEND_MIB, 100);
    EXPECT_OK(way == 1 ? mend_graph_pool_destroy(graph_pool, MEND_NO_STREAM) : MEND_OK);
}

/* ... and a request of a stream that can grows the pool. */
NO_STREAM_TEST(what_a_stream_can_wait_for_takes_no_room)
{
    mend_available room = MEND_AVAILABLE_INIT;
    kit_alloc(w, 512, S(1));
    kit_leave_in_flight(w, 150 * MEND_MIB, S(0), LONG_NS, MEND_NO_STREAM);
    EXPECT_OK(mend_get_available(w->pool, S(1), &room));
    EXPECT_TRUE(room.now_bytes > 3000 * MEND_MIB);
}

/* Graph pools are begun all the time, and their blocks freed in between. A release that the driver
 * refuses loses nothing. */
KIT_EACH(pool_no_stream, what_graph_pools_leave_is_covered_before_the_next_begins, int, is_refused,
         2, kit_open_with(w, 4096 * MEND_MIB, NULL))
{
    for (int i = 0; i < 20; i++) {
        mend_graph_pool *graph_pool = kit_begin_graph_pool(w, MEND_EVERY_STREAM);
        void *outlives = kit_alloc(w, (is_refused ? 1 : 40) * MEND_MIB, S(0));
        void *freed = kit_alloc(w, (is_refused ? 40 : 1) * MEND_MIB, S(1));
        void *small = kit_alloc(w, 4096, S(0));
        kit_free(w, freed, S(1));
        kit_free(w, small, S(0));
        EXPECT_OK(mend_graph_pool_end(graph_pool));
        if (is_refused) {
            kit_fail(w, "event_record", 1, 1, MEND_DRIVER_UNKNOWN);
            EXPECT_ERROR(DRIVER, mend_graph_pool_destroy(graph_pool, S(0)));
            mend_sim_clear_faults(w->sim);
        }
        EXPECT_OK(mend_graph_pool_destroy(graph_pool, MEND_NO_STREAM));
        kit_free(w, outlives, S(0));
        mend_sim_advance(w->sim, LONG_NS);
    }
    expect_reserved(w, 256 * MEND_MIB, 0);
}

/* The pieces that small blocks leave all wait. The chunk behind them has free memory. */
NO_STREAM_TEST(pieces_that_wait_keep_no_small_request_from_room)
{
    enum { PIECES = 32 };
    void *blocks[2 * PIECES];
    kit_alloc_row(w, blocks, 2 * PIECES, 512, S(0));
    const uint64_t reserved = mend_world_stats(w).reserved_bytes;
    for (int i = 0; i < 2 * PIECES; i += 2) {
        kit_free(w, blocks[i], MEND_NO_STREAM);
    }
    kit_free(w, kit_alloc(w, 1024, MEND_NO_STREAM), MEND_NO_STREAM); /* the start waits too */
    kit_free(w, kit_alloc(w, 512, MEND_NO_STREAM), MEND_NO_STREAM);
    EXPECT_STATS(w, reserved_bytes, reserved);
}

KIT_TEST_IN(pool_no_stream, ready_chunks_are_moved_before_the_host_waits,
            kit_open_set(w, w->sim_config.memory_bytes = 4096 * MEND_MIB,
                         w->sim_config.has_no_context_events = 1,
                         w->pool_config.allow_stream_waits = -1))
{
    void *blocks[8];
    kit_alloc_row(w, blocks, 8, 64 * MEND_MIB, S(0));
    void *unnamed = kit_alloc(w, 512 * MEND_MIB, S(0));
    for (int i = 0; i < 8; i += 2) {
        kit_free(w, blocks[i], S(0));
    }
    kit_free(w, unnamed, MEND_NO_STREAM);
    kit_alloc(w, 96 * MEND_MIB, S(0));
    EXPECT_STATS(w, host_waits, 0);
}

/* Of another pool, which alone knows of it, or of this one, of a stream that nothing was freed on.
 */
KIT_EACH(pool_no_stream, a_capture_that_any_pool_was_told_of_is_left_alone, int, is_of_other, 2,
         kit_open_with(w, 4096 * MEND_MIB, NULL))
{
    mend_pool *told = is_of_other ? kit_pool(w) : w->pool;
    mend_graph_pool *graph_pool = NULL;
    mend_sim_graph *graph = NULL;
    EXPECT_OK(mend_graph_pool_create(told, &graph_pool));
    EXPECT_OK(mend_graph_pool_begin(graph_pool, S(1)));
    alloc_and_free(w, 20, BLOCK_BYTES); /* the capture may begin at any time */
    EXPECT_STATS(w, context_fences, 0, host_waits, 0);
    EXPECT_OK(mend_sim_begin_capture(w->sim, S(1), MEND_SIM_CAPTURE_RELAXED));
    alloc_and_free(w, 100, BLOCK_BYTES);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, context_fences, 0, host_waits, 0);
    EXPECT_OK(mend_sim_end_capture(w->sim, S(1), &graph));
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(is_of_other ? mend_pool_destroy(told) : mend_graph_pool_end(graph_pool));
    alloc_and_free(w, 100, BLOCK_BYTES);
    EXPECT_TRUE(mend_world_stats(w).context_fences > 0);
}

static bool records_an_event(KIT_UNUSED void *unused)
{
    mend_world own;
    bool records = kit_open_default(&own);
    alloc_and_free(&own, 20, BLOCK_BYTES);
    records = records && mend_world_stats(&own).context_fences > 0;
    kit_close(&own);
    return records;
}

KIT_TEST(pool_no_stream, a_child_of_fork_knows_of_no_capture_of_its_parent)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(0));
    EXPECT_TRUE(mend_test_holds_in_a_child(records_an_event, NULL));
    EXPECT_OK(mend_graph_pool_end(graph_pool));
}
