/* Calls that are unsafe beside a capture: which threads may make them, by the modes of both. */
#include <pthread.h>

#include "tests/unit/sim_fixture.h"

static bool is_spoilt(sim_fixture *f)
{
    mend_stream_info info = {0};
    EXPECT_OK(f->driver->stream_get_info(f->driver, f->stream, &info));
    return info.capture == MEND_CAPTURE_INVALIDATED;
}

typedef struct trial {
    sim_fixture *f;
    mend_event event;
    mend_capture_mode mode; /* of the thread that asks */
} trial;

/* Asks for an event, in the thread's mode of the trial; puts the mode back. */
static void *ask(void *argument)
{
    trial *t = argument;
    const mend_driver *driver = t->f->driver;
    mend_capture_mode mode = t->mode;
    EXPECT_OK(driver->exchange_capture_mode(driver, &mode));
    (void)driver->event_query(driver, t->event);
    EXPECT_OK(driver->exchange_capture_mode(driver, &mode));
    return NULL;
}

SIM_TEST(sim_capture_modes, decide_who_may_make_unsafe_calls)
{
    /* [mode of the capture][mode of the thread]: rows and columns are global, local, relaxed. */
    static const bool spoils_in_own_thread[3][3] = {{true, true, false}, {true, true, false}, {0}};
    static const bool spoils_in_another[3][3] = {{true, false, false}, {0}, {0}};
    trial t = {.f = f};
    EXPECT_OK(f->driver->event_create(f->driver, &t.event));
    for (int capture = 0; capture < 3; capture++) {
        for (int thread = 0; thread < 3; thread++) {
            const mend_sim_capture_mode mode = (mend_sim_capture_mode)capture;
            t.mode = (mend_capture_mode)thread;
            EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, mode));
            ask(&t);
            EXPECT_INT_EQ(spoils_in_own_thread[capture][thread], is_spoilt(f));
            mend_sim_end_capture(f->sim, f->stream, NULL);

            pthread_t other;
            EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, mode));
            ASSERT_INT_EQ(0, pthread_create(&other, NULL, ask, &t));
            pthread_join(other, NULL);
            EXPECT_INT_EQ(spoils_in_another[capture][thread], is_spoilt(f));
            mend_sim_end_capture(f->sim, f->stream, NULL);
        }
    }
    EXPECT_HEARD(f, 5, "not relaxed");
}

SIM_TEST(sim_capture_modes, of_no_sort_are_refused)
{
    mend_capture_mode mode = (mend_capture_mode)3;
    EXPECT_STATUS(MEND_DRIVER_INVALID_VALUE, f->driver->exchange_capture_mode(f->driver, &mode));
    EXPECT_HEARD(f, 1, "is not a mode");
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                  mend_sim_begin_capture(f->sim, f->stream, (mend_sim_capture_mode)3));
}
