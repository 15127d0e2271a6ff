/* Capture: recorded work, its streams, and its end. */

#include "tests/support/threads.h"
#include "tests/unit/sim/sim_fixture.h"

static mend_capture_state state_of(sim_fixture *f, mend_stream stream)
{
    mend_stream_info info = sim_fixture_info(f, stream);
    EXPECT_TRUE((info.capture == MEND_CAPTURE_ACTIVE) == (info.capture_id != 0));
    return info.capture;
}

/* It is legal, but a library that records for its own ends puts it into the graph: the ledger
 * counts. */
SIM_TEST(sim_capture, recording_on_a_captured_stream_is_counted)
{
    mend_event event = sim_fixture_event(f);
    PASS(event_record, event, f->stream);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).captured_records);
    sim_fixture_begin_capture(f, f->stream);
    PASS(event_record, event, f->stream);
    EXPECT_U64_EQ(1, sim_fixture_ledger(f).captured_records);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_EACH(sim_capture, who_a_captured_stream_is_may_not_be_asked, i, 18,
         SIM_CONFIG(.identity_in_capture = i / 9))
{
    const mend_sim_capture_mode capture = (mend_sim_capture_mode)(i % 3);
    mend_capture_mode mode = (mend_capture_mode)(i / 3 % 3); /* of the thread */
    const bool is_told =
        i / 9 && (mode == MEND_CAPTURE_MODE_RELAXED || capture == MEND_SIM_CAPTURE_RELAXED);
    mend_sim_identity identity = MEND_SIM_IDENTITY_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, capture));
    PASS(exchange_capture_mode, &mode);
    mend_stream_info info = sim_fixture_info(f, f->stream);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info.capture);
    EXPECT_TRUE(info.id == 0 && info.context == NULL && info.home == NULL);
    EXPECT_STATUS(is_told ? MEND_DRIVER_OK : MEND_DRIVER_CAPTURE_UNSUPPORTED,
                  mend_sim_stream_identity(f->sim, f->stream, &identity));
    EXPECT_INT_EQ(is_told ? MEND_CAPTURE_ACTIVE : MEND_CAPTURE_INVALIDATED, state_of(f, f->stream));
    EXPECT_RESULT(is_told ? MEND_OK : MEND_ERROR_DRIVER,
                  mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_HEARD(f, !is_told, is_told ? "" : "who it is may not be asked");
    PASS(exchange_capture_mode, &mode);
    EXPECT_STATUS(MEND_DRIVER_OK, mend_sim_stream_identity(f->sim, f->stream, &identity));
    EXPECT_TRUE(identity.id != 0 && identity.is_green == 0);
    EXPECT_PTR_EQ((void *)f->info.context, identity.context);
}

SIM_TEST(sim_capture, a_stream_that_waits_for_a_captured_one_joins)
{
    mend_stream other = sim_fixture_stream(f);
    sim_fixture_begin_capture(f, f->stream);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, other, f->stream));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, state_of(f, other));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_end_capture(f->sim, other, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, state_of(f, other));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_capture, the_order_of_two_streams_is_that_of_the_graph)
{
    mend_stream other = sim_fixture_stream(f);
    bool is_behind = true;
    PASS(stream_is_behind, f->stream, other, &is_behind);
    EXPECT_FALSE(is_behind); /* no capture */
    sim_fixture_begin_capture(f, f->stream);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, other, f->stream));
    PASS(stream_is_behind, f->stream, other, &is_behind);
    EXPECT_TRUE(is_behind); /* nothing was recorded */
    sim_fixture_spin(f, other, 10);
    PASS(stream_is_behind, f->stream, other, &is_behind);
    EXPECT_FALSE(is_behind);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(f->sim, f->stream, other));
    sim_fixture_spin(f, f->stream, 10);
    PASS(stream_is_behind, f->stream, other, &is_behind);
    EXPECT_TRUE(is_behind);
    PASS(stream_is_behind, other, f->stream, &is_behind);
    EXPECT_FALSE(is_behind);
    mend_sim_graph_destroy(f->sim, sim_fixture_end_capture(f, f->stream));
}

SIM_TEST(sim_capture, work_nobody_waits_for_fails_it)
{
    mend_stream other = sim_fixture_stream(f);
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    mend_sim_graph *graph = NULL;
    for (int joined = 0; joined < 2; joined++) {
        sim_fixture_begin_capture(f, f->stream);
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
    sim_fixture_begin_capture(f, f->stream);
    mend_test_run_thread(end_elsewhere, f);
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, state_of(f, f->stream));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
}
