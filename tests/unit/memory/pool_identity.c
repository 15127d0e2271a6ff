/* Which stream is meant: streams first met in a capture, when they cannot be identified, and
 * streams of green contexts. */
#include <string.h>

#include "tests/support/kit.h"

static const uint64_t block_bytes = 5 * MEND_MIB;

KIT_SETTING(may_vanish, w->pool_config.detect_destroyed_streams = 1);

static void begin_global(mend_world *w, mend_stream stream)
{
    EXPECT_OK(mend_sim_begin_capture(w->sim, stream, MEND_SIM_CAPTURE_GLOBAL));
}

#define WORLD_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_with(w, 8 * MEND_MIB, NULL))

/* Of a capture that was spoilt not even a number is left. */
KIT_TEST_IN(pool_identity, a_spoilt_capture_ends_before_its_stream_is_used_again,
            kit_open_with(w, 16 * MEND_MIB, may_vanish))
{
    void *block = NULL;
    void *old = kit_alloc(w, block_bytes, S(0));
    begin_global(w, S(0));
    EXPECT_INT_EQ(MEND_DRIVER_CAPTURE_UNSUPPORTED, w->driver->stream_query(w->driver, S(0)));
    w->violations_meant = 1;
    EXPECT_ERROR(CAPTURING, mend_alloc(w->pool, 512, S(0), &block));
    EXPECT_PTR_EQ(NULL, block);
    EXPECT_ERROR(CAPTURING, mend_record_stream(w->pool, old, S(0)));
    /* A free succeeds, says nothing, and leaves the memory to a wait for the context. */
    EXPECT_INVALID(mend_alloc(w->pool, 0, NULL, &block));
    kit_free(w, old, S(0));
    kit_expect_error(MEND_ERROR_INVALID_ARGUMENT);
    EXPECT_ERROR(DRIVER, mend_sim_end_capture(w->sim, S(0), NULL));
    kit_alloc(w, 512, S(0));
    mend_world_check(w);
    for (int i = 0; i < 3; i++) {
        kit_alloc(w, block_bytes, S(0));
    }
    EXPECT_STATS(w, host_waits, 0, context_fences, 1); /* the device was idle */
}

/* Memory is shared with the primary context. Only events must be of the stream's own. */
KIT_EACH(pool_identity, streams_of_green_contexts_are_served, int, vanishes, 2,
         kit_open_with(w, 8 * MEND_MIB, vanishes ? may_vanish : NULL))
{
    mend_stream green[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_sim_stream_create(
            w->sim, KIT_OPTIONS(mend_sim_stream_options, .green = i + 1), &green[i]));
    }
    const mend_stream streams[] = {green[0], S(0), green[1], green[0], S(1)};
    for (int i = 0; i < 5; i++) {
        kit_leave_in_flight(w, block_bytes, streams[i], 100, streams[i]);
        mend_world_check(w);
    }
    kit_expect_waits(w, 4, 0);
    for (int i = 0; i < 2; i++) {
        kit_end_stream(w, green[i]);
    }
}

/* By what the driver says of a stream that the pool has not met. */
KIT_TEST(pool_identity, a_stream_that_the_driver_does_not_know_is_no_failure_of_the_driver)
{
    static const mend_status statuses[] = {
        MEND_DRIVER_INVALID_VALUE, MEND_DRIVER_INVALID_HANDLE, MEND_DRIVER_NOT_SUPPORTED,
        MEND_DRIVER_CAPTURE_UNSUPPORTED, MEND_DRIVER_CAPTURE_INVALIDATED};
    void *block = NULL;
    for (int i = 0; i < 5; i++) {
        kit_fail(w, "stream_get_info", 0, 1, statuses[i]);
        EXPECT_RESULT(i < 3 ? MEND_ERROR_UNKNOWN_STREAM : MEND_ERROR_CAPTURING,
                      mend_alloc(w->pool, 512, S(1), &block));
    }
}

/* The driver does not tell of captures: a wait might spoil one. The pool ends, and leaves memory
 * that work may use. */
KIT_LAST_TEST(pool_identity, a_pool_that_cannot_ask_for_captures_is_destroyed_without_a_wait,
              kit_open_with(w, 16 * MEND_MIB, NULL))
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    kit_alloc(w, block_bytes, S(0));
    begin_global(w, S(1));
    fault.call = "stream_get_info";
    fault.status = MEND_DRIVER_UNKNOWN;
    fault.count = UINT64_MAX;
    EXPECT_OK(mend_sim_fail(w->sim, &fault));
    EXPECT_ERROR(DRIVER, mend_pool_destroy(w->pool));
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_sim_end_capture(w->sim, S(1), NULL));
    EXPECT_LEDGER(w, violations, 0, host_syncs, 0);
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->device_close(w->driver, 0));
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

/* The event is in the graph now: no stream waits for it, and the memory stays. */
WORLD_TEST(pool_identity, a_fence_that_ended_up_in_a_graph_covers_nothing)
{
    beginning b = {w, 0};
    kit_leave_in_flight(w, block_bytes, S(0), 1000, S(0));
    w->captured_records_meant = 1;
    kit_observed(w, begin_before_the_record, &b, kit_expect_none(w, block_bytes, S(1), ""));
    EXPECT_INT_EQ(-1, b.records);
    EXPECT_STATS(w, stream_waits, 0);
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    kit_alloc_used(w, block_bytes, S(1), 10);
    EXPECT_STATS(w, stream_waits, 1);
}

/* A release cannot be undone: where its events are in a graph it fails. */
WORLD_TEST(pool_identity, a_graph_pool_is_not_released_behind_a_graph)
{
    beginning b = {w, 0};
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(1));
    kit_free(w, kit_alloc(w, block_bytes, S(1)), S(1));
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    kit_alloc(w, 512, S(0));
    w->captured_records_meant = 1;
    kit_observed(w, begin_before_the_record, &b,
                 EXPECT_ERROR(CAPTURING, mend_graph_pool_destroy(graph_pool, S(0))));
    mend_world_check(w);
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(0)));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(0)));
}
