/* Capture: what is recorded instead of run, and what spoils it. */
#include "tests/unit/sim_fixture.h"

enum { CAPTURED_EVENT = 907, MERGE = 902 };

static mend_capture_state state_of(sim_fixture *f, mend_stream stream)
{
    mend_stream_info info = {0};
    EXPECT_OK(f->driver->stream_get_info(f->driver, stream, &info));
    EXPECT_TRUE((info.capture == MEND_CAPTURE_NONE) == (info.capture_id == 0));
    return info.capture;
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
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, state_of(f, f->stream));
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).pending_work);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, state_of(f, f->stream));
    EXPECT_OK(f->driver->stream_query(f->driver, f->stream));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_end_capture(f->sim, f->stream));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_capture, asking_a_captured_stream_spoils_it)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_UNSUPPORTED, f->driver->stream_query(f->driver, f->stream));
    EXPECT_HEARD(f, 1, "is captured");
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_INVALIDATED,
                  f->driver->stream_synchronize(f->driver, f->stream));
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_INVALIDATED, f->driver->fill(f->driver, 0, 0, 0, f->stream));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream));
    EXPECT_OK(f->driver->stream_query(f->driver, f->stream));
}

SIM_TEST(sim_capture, the_context_cannot_be_waited_for)
{
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_UNSUPPORTED, f->driver->context_synchronize(f->driver));
    EXPECT_HEARD(f, 1, "a stream of the context is captured");
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream));
    EXPECT_OK(f->driver->context_synchronize(f->driver));
}

SIM_TEST(sim_capture, a_captured_event_cannot_be_asked)
{
    mend_event event = make_event(f);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_STATUS(CAPTURED_EVENT, f->driver->event_query(f->driver, event));
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream));
    EXPECT_STATUS(CAPTURED_EVENT, f->driver->event_query(f->driver, event));
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_OK(f->driver->event_query(f->driver, event));
}

SIM_TEST(sim_capture, unsafe_calls_need_a_relaxed_thread)
{
    mend_event event = make_event(f);
    mend_capture_mode mode = MEND_CAPTURE_MODE_RELAXED;
    uint64_t address = 0;
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_OK(f->driver->exchange_capture_mode(f->driver, &mode));
    EXPECT_OK(f->driver->event_query(f->driver, event));
    EXPECT_OK(f->driver->plain_alloc(f->driver, 512, &address));
    (void)sim_fixture_map(f, f->page, f->page);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, state_of(f, f->stream));
    EXPECT_U64_EQ(0, f->heard);
    EXPECT_OK(f->driver->exchange_capture_mode(f->driver, &mode));
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_UNSUPPORTED, f->driver->event_query(f->driver, event));
    EXPECT_HEARD(f, 1, "not relaxed");
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
}

SIM_TEST(sim_capture, nothing_from_outside_is_waited_for)
{
    mend_event event = make_event(f);
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_STATUS(MEND_DRIVER_CAPTURE_ISOLATION,
                  f->driver->stream_wait(f->driver, f->stream, event));
    EXPECT_HEARD(f, 1, "recorded outside the capture");
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
}

SIM_TEST(sim_capture, a_stream_that_waits_for_a_captured_event_joins)
{
    mend_stream other = NULL;
    mend_event event = make_event(f);
    EXPECT_OK(f->driver->stream_create(f->driver, &other));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_OK(f->driver->stream_wait(f->driver, other, event));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, state_of(f, other));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, state_of(f, other));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_capture, two_captures_do_not_merge)
{
    mend_stream other = NULL;
    mend_event event = make_event(f);
    EXPECT_OK(f->driver->stream_create(f->driver, &other));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, other));
    EXPECT_OK(f->driver->event_record(f->driver, event, f->stream));
    EXPECT_STATUS(MERGE, f->driver->stream_wait(f->driver, other, event));
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
    EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, state_of(f, other));
}
