/* Which stream is meant: streams met in a capture, when nobody may ask who they are, and streams of
 * green contexts. */
#include <string.h>

#include "tests/support/kit.h"

static const uint64_t block_bytes = 5 * MEND_MIB;

static void may_vanish(mend_world *w)
{
    w->pool_config.streams_may_vanish = 1;
}

static void vanish(mend_world *w, int number)
{
    mend_stream gone = w->streams[number];
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w->sim, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(w->sim, &w->streams[number]));
    EXPECT_PTR_EQ(gone, w->streams[number]);
}

static void begin_global(mend_world *w, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(w->sim, stream, MEND_SIM_CAPTURE_GLOBAL));
}

/* Frees a block on the stream while that is captured. */
static void free_in_capture(mend_world *w, mend_stream stream)
{
    void *block = kit_alloc(w, block_bytes, w->streams[1]);
    kit_use(w, stream, block, block_bytes, 1000);
    begin_global(w, stream);
    kit_free(w, block, stream);
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, stream));
}

/* PyTorch captures on a stream of its own, which allocates for the first time in the capture. */
static void meet_in_a_capture(void (*configure)(mend_world *))
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, configure));
    mend_group *group = kit_begin_group(&w, w.streams[0]);
    begin_global(&w, w.streams[0]);
    void *block = kit_leave_in_flight(&w, block_bytes, w.streams[0], 100, w.streams[0]);
    void *again = kit_alloc(&w, block_bytes, w.streams[0]);
    EXPECT_PTR_EQ(block, again);
    kit_use(&w, w.streams[0], again, block_bytes, 100);
    kit_free(&w, again, w.streams[0]);
    mend_sim_graph *graph = kit_end_captured_group(&w, w.streams[0], group);
    kit_launch_graph(&w, graph, w.streams[0]);
    mend_world_check(&w);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[0]));
    mend_sim_graph_destroy(w.sim, graph);
    /* It is as any other from here on: another stream waits for it on the device. */
    for (int i = 0; i < 3; i++) {
        kit_leave_in_flight(&w, block_bytes, w.streams[i % 2], 100, w.streams[i % 2]);
    }
    EXPECT_U64_EQ(0, mend_world_stats(&w).host_waits);
    kit_close(&w);
}

MEND_TEST(pool_identity, a_stream_met_in_its_capture_works_there_and_afterwards)
{
    meet_in_a_capture(NULL);
    meet_in_a_capture(may_vanish);
}

MEND_TEST(pool_identity, what_was_freed_in_the_capture_of_a_stream_just_met_gets_a_fence)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    free_in_capture(&w, w.streams[0]);
    kit_alloc(&w, block_bytes, w.streams[2]);
    kit_expect_waits(&w, 1, 0);
    kit_close(&w);
}

/* Was it captured as well? Nothing tells: the context covers both. */
MEND_TEST(pool_identity, of_one_that_may_have_vanished_since_the_context_is_waited_for)
{
    for (int vanishes = 0; vanishes < 2; vanishes++) {
        mend_world w;
        ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, may_vanish));
        free_in_capture(&w, w.streams[0]);
        if (vanishes) {
            vanish(&w, 0);
        }
        kit_alloc(&w, 512, w.streams[0]);
        kit_alloc_used(&w, block_bytes, w.streams[0], 10);
        kit_expect_waits(&w, 0, 1);
        kit_close(&w);
    }
}

static void may_vanish_unasked(mend_world *w)
{
    w->pool_config.streams_may_vanish = 1;
    w->pool_config.capture_checks = -1;
}

static void declare_in_capture(void (*configure)(mend_world *))
{
    mend_world w;
    EXPECT_TRUE(kit_open_with(&w, 8 * MEND_MIB, configure));
    kit_alloc(&w, 512, w.streams[0]);
    void *block = kit_alloc(&w, block_bytes, w.streams[1]);
    begin_global(&w, w.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(w.pool, block, w.streams[0]));
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
    kit_use(&w, w.streams[0], block, block_bytes, 1000);
    kit_alloc(&w, 512, w.streams[0]);
    mend_world_check(&w);
    kit_alloc(&w, 512, w.streams[2]); /* takes no slot that the block names */
    kit_free(&w, block, w.streams[1]);
    mend_world_check(&w);
    kit_alloc_used(&w, block_bytes, w.streams[2], 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    kit_close(&w);
}

/* The slot of the capture is that of the stream which had the handle before and has it after. */
MEND_TEST(pool_identity, a_user_declared_in_a_capture_is_waited_for_after_it)
{
    declare_in_capture(may_vanish);
    declare_in_capture(may_vanish_unasked);
}

/* Of a capture that was spoilt not even a number is left. */
MEND_TEST(pool_identity, a_spoilt_capture_ends_before_its_stream_is_used_again)
{
    mend_world w;
    void *block = NULL;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, may_vanish));
    void *old = kit_alloc(&w, block_bytes, w.streams[0]);
    begin_global(&w, w.streams[0]);
    EXPECT_INT_EQ(MEND_DRIVER_CAPTURE_UNSUPPORTED, w.driver->stream_query(w.driver, w.streams[0]));
    w.violations_meant = 1;
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_alloc(w.pool, 512, w.streams[0], &block));
    EXPECT_PTR_EQ(NULL, block);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_record_stream(w.pool, old, w.streams[0]));
    /* A free succeeds, says nothing, and leaves the memory to a wait for the context. */
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc(w.pool, 0, NULL, &block));
    kit_free(&w, old, w.streams[0]);
    kit_expect_error(MEND_ERROR_INVALID_ARGUMENT);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(w.sim, w.streams[0], NULL));
    kit_alloc(&w, 512, w.streams[0]);
    mend_world_check(&w);
    for (int i = 0; i < 3; i++) {
        kit_alloc(&w, block_bytes, w.streams[0]);
    }
    EXPECT_U64_EQ(1, mend_world_stats(&w).host_waits);
    kit_close(&w);
}

/* Memory is shared with the primary context; only events must be of the stream's own. */
static void use_green_streams(void (*configure)(mend_world *))
{
    mend_world w;
    mend_stream green[2] = {NULL, NULL};
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, configure));
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create_green(w.sim, i + 1, &green[i]));
    }
    const mend_stream streams[] = {green[0], w.streams[0], green[1], green[0], w.streams[1]};
    for (int i = 0; i < 5; i++) {
        kit_leave_in_flight(&w, block_bytes, streams[i], 100, streams[i]);
        mend_world_check(&w);
    }
    kit_expect_waits(&w, 4, 0);
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, green[i]));
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, green[i]));
    }
    kit_close(&w);
}

MEND_TEST(pool_identity, streams_of_green_contexts_are_served)
{
    use_green_streams(NULL);
    use_green_streams(may_vanish);
}

/* An event of a green context that is in no fence is in nobody's way: it was destroyed. */
MEND_TEST(pool_identity, events_of_green_contexts_are_not_kept)
{
    mend_world w;
    mend_stream green = NULL;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create_green(w.sim, 3, &green));
    void *block = kit_alloc(&w, block_bytes, green);
    kit_free(&w, block, green);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(w.pool, green));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w.sim, green));
    EXPECT_U64_EQ(1, mend_world_ledger(&w).events);
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(&w).events);
    EXPECT_U64_EQ(0, mend_world_stats(&w).reserved_bytes);
    kit_close(&w);
}

/* The driver does not tell of captures: a wait might spoil one. The pool goes, and leaves what work
 * may be using. */
MEND_TEST(pool_identity, a_pool_that_cannot_ask_for_captures_is_destroyed_without_a_wait)
{
    mend_world w;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    ASSERT_TRUE(kit_open_with(&w, 16 * MEND_MIB, NULL));
    kit_alloc(&w, block_bytes, w.streams[0]);
    begin_global(&w, w.streams[1]);
    fault.call = "stream_get_info";
    fault.status = MEND_DRIVER_UNKNOWN;
    fault.count = UINT64_MAX;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(w.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_pool_destroy(w.pool));
    mend_sim_clear_faults(w.sim);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(w.sim, w.streams[1], NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(&w).violations);
    EXPECT_U64_EQ(0, mend_world_ledger(&w).host_syncs);
    EXPECT_INT_EQ(MEND_DRIVER_OK, w.driver->device_close(w.driver, 0));
    mend_sim_destroy(w.sim);
}

/* Another thread begins a capture on a stream, between the question whether it is captured and the
 * record of an event there. */
typedef struct beginning {
    mend_world *w;
    int records; /* still to come before it begins */
} beginning;

static void begin_before_the_record(void *context, const char *call, int is_after)
{
    beginning *b = context;
    if (strcmp(call, "event_record") == 0 && !is_after && b->records-- == 0) {
        begin_global(b->w, b->w->streams[0]);
    }
}

/* The event is in the graph now: nobody waits for it, and the memory stays where it is. */
MEND_TEST(pool_identity, a_fence_that_ended_up_in_a_graph_covers_nothing)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    beginning b = {&w, 0};
    kit_leave_in_flight(&w, block_bytes, w.streams[0], 1000, w.streams[0]);
    mend_sim_set_call_observer(w.sim, begin_before_the_record, &b);
    w.captured_records_meant = 1;
    kit_expect_none(&w, block_bytes, w.streams[1], "");
    mend_sim_set_call_observer(w.sim, NULL, NULL);
    EXPECT_INT_EQ(-1, b.records);
    EXPECT_U64_EQ(0, mend_world_stats(&w).stream_waits);
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
    kit_alloc_used(&w, block_bytes, w.streams[1], 10);
    EXPECT_U64_EQ(1, mend_world_stats(&w).stream_waits);
    kit_close(&w);
}

/* A release cannot be undone: where its events are in a graph it fails. */
MEND_TEST(pool_identity, a_group_is_not_released_behind_a_graph)
{
    mend_world w;
    ASSERT_TRUE(kit_open_with(&w, 8 * MEND_MIB, NULL));
    beginning b = {&w, 0};
    mend_group *group = kit_begin_group(&w, w.streams[1]);
    void *block = kit_alloc(&w, block_bytes, w.streams[1]);
    kit_free(&w, block, w.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    kit_alloc(&w, 512, w.streams[0]);
    mend_sim_set_call_observer(w.sim, begin_before_the_record, &b);
    w.captured_records_meant = 1;
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_group_release(group, w.streams[0]));
    mend_sim_set_call_observer(w.sim, NULL, NULL);
    mend_world_check(&w);
    mend_sim_graph_destroy(w.sim, kit_end_capture(&w, w.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, w.streams[0]));
    kit_close(&w);
}
