/* Which stream is meant: streams met in a capture, when nobody may ask who they are, and streams of
 * green contexts. */
#include <string.h>

#include "tests/support/graph_program.h"

#define MIB MEND_MIB

static const uint64_t block_bytes = 5 * MIB;

static void may_vanish(mend_pool_config *config)
{
    config->streams_may_vanish = 1;
}

static void vanish(graph_program *p, int number)
{
    mend_stream gone = p->streams[number];
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p->world.sim, gone));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(p->world.sim, &p->streams[number]));
    EXPECT_PTR_EQ(gone, p->streams[number]);
}

static void begin_global(graph_program *p, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(p->world.sim, stream, MEND_SIM_CAPTURE_GLOBAL));
}

/* Frees a block on the stream while that is captured. */
static void free_in_capture(graph_program *p, mend_stream stream)
{
    void *block = graph_program_alloc(p, block_bytes, p->streams[1]);
    graph_program_use(p, stream, block, block_bytes, 1000);
    begin_global(p, stream);
    graph_program_free(p, block, stream);
    mend_sim_graph_destroy(p->world.sim, graph_program_end_capture(p, stream));
}

/* PyTorch captures on a stream of its own, which allocates for the first time in the capture. */
static void meet_in_a_capture(void (*configure)(mend_pool_config *))
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, configure));
    mend_group *group = graph_program_begin_group(&p, p.streams[0]);
    begin_global(&p, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 100);
    graph_program_free(&p, block, p.streams[0]);
    void *again = graph_program_alloc(&p, block_bytes, p.streams[0]);
    EXPECT_PTR_EQ(block, again);
    graph_program_use(&p, p.streams[0], again, block_bytes, 100);
    graph_program_free(&p, again, p.streams[0]);
    mend_sim_graph *graph = graph_program_end_capture(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_launch(&p, graph, p.streams[0]);
    mend_world_check(&p.world);
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[0]));
    mend_sim_graph_destroy(p.world.sim, graph);
    /* It is as any other from here on: another stream waits for it on the device. */
    for (int i = 0; i < 3; i++) {
        void *eager = graph_program_alloc(&p, block_bytes, p.streams[i % 2]);
        graph_program_use(&p, p.streams[i % 2], eager, block_bytes, 100);
        graph_program_free(&p, eager, p.streams[i % 2]);
    }
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).host_waits);
    graph_program_close(&p);
}

MEND_TEST(pool_identity, a_stream_met_in_its_capture_works_there_and_afterwards)
{
    meet_in_a_capture(NULL);
    meet_in_a_capture(may_vanish);
}

MEND_TEST(pool_identity, what_was_freed_in_the_capture_of_a_stream_just_met_gets_a_fence)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    free_in_capture(&p, p.streams[0]);
    graph_program_alloc(&p, block_bytes, p.streams[2]);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).stream_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).host_waits);
    graph_program_close(&p);
}

/* Was it captured as well? Nothing tells: the context covers both. */
MEND_TEST(pool_identity, of_one_that_may_have_vanished_since_the_context_is_waited_for)
{
    for (int vanishes = 0; vanishes < 2; vanishes++) {
        graph_program p;
        ASSERT_TRUE(graph_program_open(&p, 8 * MIB, may_vanish));
        free_in_capture(&p, p.streams[0]);
        if (vanishes) {
            vanish(&p, 0);
        }
        graph_program_alloc(&p, 512, p.streams[0]);
        void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
        graph_program_use(&p, p.streams[0], block, block_bytes, 10);
        EXPECT_U64_EQ(0, mend_world_stats(&p.world).stream_waits);
        EXPECT_U64_EQ(1, mend_world_stats(&p.world).host_waits);
        graph_program_close(&p);
    }
}

static void may_vanish_unasked(mend_pool_config *config)
{
    config->streams_may_vanish = 1;
    config->capture_checks = -1;
}

static void declare_in_capture(void (*configure)(mend_pool_config *))
{
    graph_program p;
    EXPECT_TRUE(graph_program_open(&p, 8 * MIB, configure));
    graph_program_alloc(&p, 512, p.streams[0]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    begin_global(&p, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_record_stream(p.world.pool, block, p.streams[0]));
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_alloc(&p, 512, p.streams[0]);
    mend_world_check(&p.world);
    graph_program_alloc(&p, 512, p.streams[2]); /* takes no slot that the block names */
    graph_program_free(&p, block, p.streams[1]);
    mend_world_check(&p.world);
    void *taken = graph_program_alloc(&p, block_bytes, p.streams[2]);
    graph_program_use(&p, p.streams[2], taken, block_bytes, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).host_waits);
    graph_program_close(&p);
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
    graph_program p;
    void *block = NULL;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, may_vanish));
    void *old = graph_program_alloc(&p, block_bytes, p.streams[0]);
    begin_global(&p, p.streams[0]);
    EXPECT_INT_EQ(MEND_DRIVER_CAPTURE_UNSUPPORTED, p.driver->stream_query(p.driver, p.streams[0]));
    p.world.violations_meant = 1;
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_alloc(p.world.pool, 512, p.streams[0], &block));
    EXPECT_PTR_EQ(NULL, block);
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_record_stream(p.world.pool, old, p.streams[0]));
    /* A free succeeds, says nothing, and leaves the memory to a wait for the context. */
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_alloc(p.world.pool, 0, NULL, &block));
    graph_program_free(&p, old, p.streams[0]);
    EXPECT_RESULT(MEND_OK, mend_last_error(&error));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, error.result);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(p.world.sim, p.streams[0], NULL));
    graph_program_alloc(&p, 512, p.streams[0]);
    mend_world_check(&p.world);
    for (int i = 0; i < 3; i++) {
        graph_program_alloc(&p, block_bytes, p.streams[0]);
    }
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).host_waits);
    graph_program_close(&p);
}

/* Memory is shared with the primary context; only events must be of the stream's own. */
static void use_green_streams(void (*configure)(mend_pool_config *))
{
    graph_program p;
    mend_stream green[2] = {NULL, NULL};
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, configure));
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create_green(p.world.sim, i + 1, &green[i]));
    }
    const mend_stream streams[] = {green[0], p.streams[0], green[1], green[0], p.streams[1]};
    for (int i = 0; i < 5; i++) {
        void *block = graph_program_alloc(&p, block_bytes, streams[i]);
        graph_program_use(&p, streams[i], block, block_bytes, 100);
        graph_program_free(&p, block, streams[i]);
        mend_world_check(&p.world);
    }
    EXPECT_U64_EQ(4, mend_world_stats(&p.world).stream_waits);
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).host_waits);
    for (int i = 0; i < 2; i++) {
        EXPECT_RESULT(MEND_OK, mend_forget_stream(p.world.pool, green[i]));
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p.world.sim, green[i]));
    }
    graph_program_close(&p);
}

MEND_TEST(pool_identity, streams_of_green_contexts_are_served)
{
    use_green_streams(NULL);
    use_green_streams(may_vanish);
}

/* An event of a green context that is in no fence is in nobody's way: it was destroyed. */
MEND_TEST(pool_identity, events_of_green_contexts_are_not_kept)
{
    graph_program p;
    mend_stream green = NULL;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create_green(p.world.sim, 3, &green));
    void *block = graph_program_alloc(&p, block_bytes, green);
    graph_program_free(&p, block, green);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(p.world.pool, green));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(p.world.sim, green));
    EXPECT_U64_EQ(1, mend_world_ledger(&p.world).events);
    EXPECT_RESULT(MEND_OK, mend_trim(p.world.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(&p.world).events);
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).reserved_bytes);
    graph_program_close(&p);
}

/* The driver does not tell of captures: a wait might spoil one. The pool goes, and leaves what work
 * may be using. */
MEND_TEST(pool_identity, a_pool_that_cannot_ask_for_captures_is_destroyed_without_a_wait)
{
    graph_program p;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    ASSERT_TRUE(graph_program_open(&p, 16 * MIB, NULL));
    graph_program_alloc(&p, block_bytes, p.streams[0]);
    begin_global(&p, p.streams[1]);
    fault.call = "stream_get_info";
    fault.status = MEND_DRIVER_UNKNOWN;
    fault.count = UINT64_MAX;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(p.world.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_pool_destroy(p.world.pool));
    mend_sim_clear_faults(p.world.sim);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(p.world.sim, p.streams[1], NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(&p.world).violations);
    EXPECT_U64_EQ(0, mend_world_ledger(&p.world).host_syncs);
    EXPECT_INT_EQ(MEND_DRIVER_OK, p.driver->device_close(p.driver, 0));
    mend_sim_destroy(p.world.sim);
}

/* Another thread begins a capture on a stream, between the question whether it is captured and the
 * record of an event there. */
typedef struct beginning {
    graph_program *p;
    int records; /* still to come before it begins */
} beginning;

static void begin_before_the_record(void *context, const char *call, int is_after)
{
    beginning *b = context;
    if (strcmp(call, "event_record") == 0 && !is_after && b->records-- == 0) {
        begin_global(b->p, b->p->streams[0]);
    }
}

/* The event is in the graph now: nobody waits for it, and the memory stays where it is. */
MEND_TEST(pool_identity, a_fence_that_ended_up_in_a_graph_stands_for_nothing)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    beginning b = {&p, 0};
    void *block = graph_program_alloc(&p, block_bytes, p.streams[0]);
    graph_program_use(&p, p.streams[0], block, block_bytes, 1000);
    graph_program_free(&p, block, p.streams[0]);
    mend_sim_set_call_observer(p.world.sim, begin_before_the_record, &b);
    p.world.captured_records_meant = 1;
    graph_program_expect_none(&p, block_bytes, p.streams[1], "");
    mend_sim_set_call_observer(p.world.sim, NULL, NULL);
    EXPECT_INT_EQ(-1, b.records);
    EXPECT_U64_EQ(0, mend_world_stats(&p.world).stream_waits);
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    graph_program_use(&p, p.streams[1], block, block_bytes, 10);
    EXPECT_U64_EQ(1, mend_world_stats(&p.world).stream_waits);
    graph_program_close(&p);
}

/* A release cannot be undone: where its events are in a graph it fails. */
MEND_TEST(pool_identity, a_group_is_not_released_behind_a_graph)
{
    graph_program p;
    ASSERT_TRUE(graph_program_open(&p, 8 * MIB, NULL));
    beginning b = {&p, 0};
    mend_group *group = graph_program_begin_group(&p, p.streams[1]);
    void *block = graph_program_alloc(&p, block_bytes, p.streams[1]);
    graph_program_free(&p, block, p.streams[1]);
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
    graph_program_alloc(&p, 512, p.streams[0]);
    mend_sim_set_call_observer(p.world.sim, begin_before_the_record, &b);
    p.world.captured_records_meant = 1;
    EXPECT_RESULT(MEND_ERROR_CAPTURING, mend_group_release(group, p.streams[0]));
    mend_sim_set_call_observer(p.world.sim, NULL, NULL);
    mend_world_check(&p.world);
    mend_sim_graph_destroy(p.world.sim, graph_program_end_capture(&p, p.streams[0]));
    EXPECT_RESULT(MEND_OK, mend_group_release(group, p.streams[0]));
    graph_program_close(&p);
}
