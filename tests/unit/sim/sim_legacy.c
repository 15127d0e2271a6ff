/* The legacy stream and those it takes turns with: the order of work, and what capture makes of it.
 */
#include "tests/unit/sim/sim_fixture.h"

static void spin(sim_fixture *f, mend_stream stream, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    EXPECT_OK(f->driver->launch(f->driver, stream, &kernel));
}

static mend_stream make_blocking(sim_fixture *f)
{
    mend_stream stream = NULL;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create_blocking(f->sim, &stream));
    return stream;
}

static mend_event make_event(sim_fixture *f)
{
    mend_event event = NULL;
    EXPECT_OK(f->driver->event_create(f->driver, &event));
    return event;
}

static void expect_busy(sim_fixture *f, mend_stream stream)
{
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, f->driver->stream_query(f->driver, stream));
}

SIM_TEST(sim_legacy, waits_for_blocking_streams)
{
    mend_stream blocking = make_blocking(f);
    spin(f, blocking, 100);
    spin(f, NULL, 10);
    mend_sim_advance(f->sim, 109);
    expect_busy(f, NULL);
    EXPECT_OK(f->driver->stream_query(f->driver, f->stream));
    mend_sim_advance(f->sim, 1);
    EXPECT_OK(f->driver->stream_query(f->driver, NULL));
}

SIM_TEST(sim_legacy, blocking_streams_wait_for_it)
{
    mend_stream blocking = make_blocking(f);
    spin(f, NULL, 100);
    spin(f, blocking, 10);
    spin(f, MEND_STREAM_PER_THREAD, 20);
    spin(f, f->stream, 30);
    mend_sim_advance(f->sim, 109);
    expect_busy(f, blocking);
    expect_busy(f, MEND_STREAM_PER_THREAD);
    EXPECT_OK(f->driver->stream_query(f->driver, f->stream));
    mend_sim_advance(f->sim, 11);
    EXPECT_OK(f->driver->stream_query(f->driver, blocking));
    EXPECT_OK(f->driver->stream_query(f->driver, MEND_STREAM_PER_THREAD));
}

/* A mark on the legacy stream is between what blocking streams did before and do after. */
SIM_TEST(sim_legacy, an_event_on_it_covers_blocking_streams)
{
    mend_stream first = make_blocking(f);
    mend_stream second = make_blocking(f);
    mend_event event = make_event(f);
    spin(f, first, 100);
    EXPECT_OK(f->driver->event_record(f->driver, event, NULL));
    spin(f, second, 10);
    mend_sim_advance(f->sim, 99);
    EXPECT_STATUS(MEND_DRIVER_NOT_READY, f->driver->event_query(f->driver, event));
    mend_sim_advance(f->sim, 1);
    EXPECT_OK(f->driver->event_query(f->driver, event));
    expect_busy(f, second);
    EXPECT_OK(f->driver->stream_synchronize(f->driver, second));
    EXPECT_U64_EQ(110, mend_sim_now_ns(f->sim));
}

SIM_TEST(sim_legacy, waits_for_a_blocking_stream_that_was_destroyed)
{
    mend_stream blocking = make_blocking(f);
    spin(f, blocking, 100);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(f->sim, blocking));
    EXPECT_OK(f->driver->stream_synchronize(f->driver, NULL));
    EXPECT_U64_EQ(100, mend_sim_now_ns(f->sim));
}

static mend_stream_info info_of(sim_fixture *f, mend_stream stream)
{
    mend_stream_info info = {0};
    EXPECT_OK(f->driver->stream_get_info(f->driver, stream, &info));
    return info;
}

SIM_TEST(sim_legacy, looks_captured_while_a_blocking_stream_is)
{
    mend_stream blocking = make_blocking(f);
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, MEND_SIM_CAPTURE_RELAXED));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(f, NULL).capture);
    EXPECT_OK(f->driver->stream_query(f->driver, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, blocking, MEND_SIM_CAPTURE_RELAXED));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(f, NULL).capture);
    EXPECT_U64_EQ(0, info_of(f, MEND_STREAM_LEGACY).capture_id);
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(f, MEND_STREAM_PER_THREAD).capture);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, blocking, NULL));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(f, NULL).capture);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_U64_EQ(0, f->heard);
}

SIM_TEST(sim_legacy, is_out_of_use_while_a_blocking_stream_is_captured)
{
    enum { USES = 6 };
    const mend_status implicit = MEND_DRIVER_CAPTURE_IMPLICIT;
    mend_stream blocking = make_blocking(f);
    mend_event event = make_event(f);
    const mend_kernel kernel = {.kind = MEND_KERNEL_SPIN};
    const mend_sim_work work = {.kind = MEND_SIM_WORK_TOUCH};
    for (int use = 0; use < USES; use++) {
        EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, blocking, MEND_SIM_CAPTURE_RELAXED));
        switch (use) {
        case 0:
            EXPECT_STATUS(implicit, f->driver->event_record(f->driver, event, NULL));
            break;
        case 1:
            EXPECT_STATUS(implicit, f->driver->stream_wait(f->driver, NULL, event));
            break;
        case 2:
            EXPECT_STATUS(implicit, f->driver->launch(f->driver, NULL, &kernel));
            break;
        case 3:
            EXPECT_STATUS(implicit, f->driver->stream_query(f->driver, MEND_STREAM_LEGACY));
            break;
        case 4:
            EXPECT_STATUS(implicit, f->driver->stream_synchronize(f->driver, NULL));
            break;
        default:
            EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_launch(f->sim, NULL, &work));
            break;
        }
        EXPECT_HEARD(f, (uint64_t)use + 1, "on the legacy stream");
        EXPECT_INT_EQ(MEND_CAPTURE_INVALIDATED, info_of(f, blocking).capture);
        EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, blocking, NULL));
    }
}

SIM_TEST(sim_legacy, a_threads_own_stream_can_be_captured_but_not_it)
{
    const mend_sim_capture_mode mode = MEND_SIM_CAPTURE_GLOBAL;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_begin_capture(f->sim, NULL, mode));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_sim_begin_capture(f->sim, MEND_STREAM_LEGACY, mode));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, MEND_STREAM_PER_THREAD, mode));
    EXPECT_INT_EQ(MEND_CAPTURE_ACTIVE, info_of(f, MEND_STREAM_PER_THREAD).capture);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, MEND_STREAM_PER_THREAD, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, mode));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_sim_stream_wait(f->sim, NULL, f->stream));
    EXPECT_HEARD(f, 1, "cannot join a capture");
}

MEND_TEST(sim_legacy, of_another_context_stays_in_use)
{
    sim_fixture f;
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    mend_device_info second = {0};
    config.device_count = 2;
    ASSERT_TRUE(sim_fixture_open(&f, &config));
    mend_stream blocking = make_blocking(&f);
    EXPECT_OK(f.driver->device_open(f.driver, 1, &second));
    EXPECT_OK(f.driver->context_push(f.driver, second.context));
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f.sim, blocking, MEND_SIM_CAPTURE_RELAXED));
    EXPECT_INT_EQ(MEND_CAPTURE_NONE, info_of(&f, NULL).capture);
    spin(&f, NULL, 10);
    EXPECT_OK(f.driver->stream_synchronize(f.driver, NULL));
    EXPECT_OK(f.driver->context_synchronize(f.driver));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f.sim, blocking, NULL));
    EXPECT_U64_EQ(0, f.heard);
    sim_fixture_close(&f);
}
