/* Capture: what is recorded instead of run, which streams take part, and how it ends. */

#include "tests/support/threads.h"
#include "tests/unit/sim/sim_fixture.h"

static mend_capture_state state_of(sim_fixture *f, mend_stream stream)
{
    mend_stream_info info = {0};
    EXPECT_OK(f->driver->stream_get_info(f->driver, stream, &info));
    EXPECT_TRUE((info.capture == MEND_CAPTURE_ACTIVE) == (info.capture_id != 0));
    return info.capture;
}

static void begin(sim_fixture *f, mend_stream stream)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, stream, MEND_SIM_CAPTURE_GLOBAL));
}

static mend_stream make_stream(sim_fixture *f)
{
    mend_stream stream = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(f->sim, &stream));
    return stream;
}

static mend_event make_event(sim_fixture *f)
{
    mend_event event = NULL;
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    return event;
}

SIM_TEST(sim_capture, captured_work_does_not_run)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    begin(f, f->stream);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_sim_begin_capture(f->sim, f->stream, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, state_of(f, f->stream));
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).pending_work);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, state_of(f, f->stream));
    EXPECT_OK(f->driver->stream_query(f->driver, f->stream));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_capture, asking_a_captured_stream_spoils_it)
{
    mend_sim_graph *graph = NULL;
    begin(f, f->stream);
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_UNSUPPORTED, f->driver->stream_query(f->driver, f->stream));
    EXPECT_HEARD(f, 1, "is captured");
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_INVALIDATED,
                  f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_INVALIDATED, f->driver->fill(f->driver, 0, 0, 0, f->stream));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream, &graph));
    EXPECT_TRUE(graph == NULL);
    EXPECT_OK(f->driver->stream_query(f->driver, f->stream));
}

SIM_TEST(sim_capture, waiting_for_a_captured_stream_on_the_host_spoils_it)
{
    begin(f, f->stream);
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_UNSUPPORTED,
                  f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_HEARD(f, 1, "is captured");
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream, NULL));
}

SIM_TEST(sim_capture, the_context_cannot_be_waited_for)
{
    begin(f, f->stream);
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_UNSUPPORTED, f->driver->context_synchronize(f->driver));
    EXPECT_HEARD(f, 1, "a stream of the context is captured");
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_OK(f->driver->context_synchronize(f->driver));
}

/* It is legal, but a library that records for its own ends puts it into the graph: the ledger
 * counts. */
SIM_TEST(sim_capture, recording_on_a_captured_stream_is_counted)
{
    mend_event event = make_event(f);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).captured_records);
    begin(f, f->stream);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).captured_records);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_U64_EQ(0, f->heard);
}

/* A thread in this mode asks who a stream is that is captured in that mode. */
static void ask_identity(sim_fixture *f, mend_capture_mode mode, mend_sim_capture_mode capture,
                         bool is_told)
{
    mend_sim_identity identity = {0};
    mend_stream_info info = {0};
    uint64_t heard = f->heard;
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, capture));
    EXPECT_OK(f->driver->exchange_capture_mode(f->driver, &mode));
    EXPECT_OK(f->driver->stream_get_info(f->driver, f->stream, &info));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info.capture);
    EXPECT_U64_EQ(0, info.id);
    EXPECT_PTR_EQ(NULL, info.context);
    EXPECT_PTR_EQ(NULL, info.home);
    EXPECT_STATUS(is_told ? MEND_DRIVER_OK : MEND_DRIVER_CAPTURE_UNSUPPORTED,
                  mend_sim_stream_identity(f->sim, f->stream, &identity));
    EXPECT_INT_EQ(is_told ? MEND_CAPTURE_ACTIVE : MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
    EXPECT_OK(f->driver->exchange_capture_mode(f->driver, &mode));
    EXPECT_RESULT(is_told ? MEND_OK : MEND_ERROR_DRIVER,
                  mend_sim_end_capture(f->sim, f->stream, NULL));
    if (!is_told) {
        EXPECT_HEARD(f, heard + 1, "who it is may not be asked");
    }
}

SIM_TEST(sim_capture, who_a_captured_stream_is_may_not_be_asked)
{
    mend_sim_identity identity = {0};
    for (int mode = 0; mode < 3; mode++) {
        for (int capture = 0; capture < 3; capture++) {
            ask_identity(f, (mend_capture_mode)mode, (mend_sim_capture_mode)capture, false);
        }
    }
    EXPECT_INT_EQ(MEND_DRIVER_OK, mend_sim_stream_identity(f->sim, f->stream, &identity));
    EXPECT_TRUE(identity.id != 0);
    EXPECT_PTR_EQ((void *)f->info.context, identity.context);
    EXPECT_INT_EQ(0, identity.is_green);
}

MEND_TEST(sim_capture, a_relaxed_thread_may_ask_who_a_captured_stream_is)
{
    sim_fixture f;
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.identity_in_capture = 1;
    if (!sim_fixture_open(&f, &config)) {
        return;
    }
    for (int mode = 0; mode < 3; mode++) {
        for (int capture = 0; capture < 3; capture++) {
            bool is_told =
                mode == MEND_CAPTURE_MODE_RELAXED || capture == (int)MEND_SIM_CAPTURE_RELAXED;
            ask_identity(&f, (mend_capture_mode)mode, (mend_sim_capture_mode)capture, is_told);
        }
    }
    sim_fixture_close(&f);
}

/* The table always knows the special streams, and asks no context. */
SIM_TEST(sim_capture, the_streams_that_nobody_created_are_known_in_captures)
{
    mend_stream_info before = {0};
    mend_stream_info captured = {0};
    const mend_stream own = MEND_STREAM_PER_THREAD;
    EXPECT_OK(f->driver->stream_get_info(f->driver, own, &before));
    begin(f, own);
    EXPECT_OK(f->driver->stream_get_info(f->driver, own, &captured));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, captured.capture);
    EXPECT_U64_EQ(before.id, captured.id);
    EXPECT_PTR_EQ(f->info.context, captured.context);
    EXPECT_PTR_EQ(f->info.context, captured.home);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, own, NULL));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_capture, a_captured_event_cannot_be_asked)
{
    mend_event event = make_event(f);
    begin(f, f->stream);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_STATUS(MEND_DRIVER_CAPTURED_EVENT, f->driver->event_query(f->driver, event));
    EXPECT_HEARD(f, 1, "last recorded in a stream that was captured");
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_STATUS(MEND_DRIVER_CAPTURED_EVENT, f->driver->event_query(f->driver, event));
    EXPECT_STATUS(MEND_DRIVER_CAPTURED_EVENT, f->driver->event_synchronize(f->driver, event));
    EXPECT_STATUS(MEND_DRIVER_CAPTURED_EVENT, f->driver->stream_wait(f->driver, f->stream, event));
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_OK(f->driver->event_query(f->driver, event));
}

SIM_TEST(sim_capture, nothing_from_outside_is_waited_for)
{
    mend_event event = make_event(f);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    begin(f, f->stream);
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_ISOLATION,
                  f->driver->stream_wait(f->driver, f->stream, event));
    EXPECT_HEARD(f, 1, "recorded outside the capture");
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
}

SIM_TEST(sim_capture, a_stream_that_waits_for_a_captured_one_joins)
{
    mend_stream other = make_stream(f);
    begin(f, f->stream);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, other, f->stream));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, state_of(f, other));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_end_capture(f->sim, other, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, state_of(f, other));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_capture, two_captures_do_not_merge)
{
    mend_stream other = make_stream(f);
    begin(f, f->stream);
    begin(f, other);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_stream_wait(f->sim, other, f->stream));
    EXPECT_HEARD(f, 1, "are of two captures");
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, other));
}

SIM_TEST(sim_capture, work_nobody_waits_for_fails_it)
{
    mend_stream other = make_stream(f);
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    mend_sim_graph *graph = NULL;
    for (int joined = 0; joined < 2; joined++) {
        begin(f, f->stream);
        sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 0);
        EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, other, f->stream));
        sim_fixture_work(f, other, MEND_SIM_WORK_TOUCH, address, 512, 0, 0);
        if (joined) {
            EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, f->stream, other));
        }
        EXPECT_RESULT(joined ? MEND_OK : MEND_ERROR_DRIVER,
                      mend_sim_end_capture(f->sim, f->stream, &graph));
        EXPECT_TRUE((graph != NULL) == joined);
        EXPECT_INT_EQ(MEND_CAPTURE_NONE, state_of(f, other));
    }
    mend_sim_graph_destroy(f->sim, graph);
    EXPECT_U64_EQ(0, f->heard);
}

static void *end_elsewhere(void *argument)
{
    sim_fixture *f = argument;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_end_capture(f->sim, f->stream, NULL));
    return NULL;
}

SIM_TEST(sim_capture, ends_in_the_thread_that_began_it)
{
    begin(f, f->stream);
    mend_test_run_thread(end_elsewhere, f);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, state_of(f, f->stream));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
}
