/* The legacy stream and blocking streams: the order of work, and the effect of a capture.
 */
#include "tests/unit/sim/sim_fixture.h"

static mend_stream make_blocking(sim_fixture *f)
{
    mend_stream stream = NULL;
    EXPECT_RESULT(MEND_OK,
                  mend_sim_stream_create(
                      f->sim, KIT_OPTIONS(mend_sim_stream_options, .is_blocking = 1), &stream));
    return stream;
}

SIM_TEST(sim_legacy, a_threads_own_stream_can_be_captured_but_not_it)
{
    const mend_sim_capture_mode mode = MEND_SIM_CAPTURE_GLOBAL;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_begin_capture(f->sim, NULL, mode));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_sim_begin_capture(f->sim, MEND_STREAM_LEGACY, mode));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, MEND_STREAM_PER_THREAD, mode));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, sim_fixture_info(f, MEND_STREAM_PER_THREAD).capture);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, MEND_STREAM_PER_THREAD, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, mode));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_stream_wait(f->sim, NULL, f->stream));
    EXPECT_HEARD(f, 1, "cannot join a capture");
}

SIM_TEST_AS(sim_legacy, of_another_context_stays_in_use, .device_count = 2)
{
    mend_device_info second = {0};
    mend_stream blocking = make_blocking(f);
    PASS(device_open, 1, &second);
    PASS(context_push, second.context);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, blocking, MEND_SIM_CAPTURE_RELAXED));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, sim_fixture_info(f, NULL).capture);
    sim_fixture_spin(f, NULL, 10);
    PASS(stream_synchronize, NULL);
    PASS(context_synchronize);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, blocking, NULL));
    EXPECT_U64_EQ(0, f->heard);
}
