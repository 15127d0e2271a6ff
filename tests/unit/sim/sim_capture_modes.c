/* Calls that are unsafe beside a capture: which threads may make them, by the modes of both. */

#include "tests/support/threads.h"
#include "tests/unit/sim/sim_fixture.h"

static bool is_spoilt(sim_fixture *f)
{
    return sim_fixture_info(f, f->stream).capture == MEND_CAPTURE_INVALIDATED;
}

typedef struct trial {
    sim_fixture *f;
    mend_event event;
    mend_capture_mode mode; /* of the thread that asks */
} trial;

static void *ask(void *argument)
{
    trial *t = argument;
    const mend_driver *driver = t->f->driver;
    mend_capture_mode mode = t->mode;
    EXPECT_PASS(driver->exchange_capture_mode(driver, &mode));
    (void)driver->event_query(driver, t->event);
    EXPECT_PASS(driver->exchange_capture_mode(driver, &mode));
    return NULL;
}

SIM_TEST(sim_capture_modes, decide_who_may_make_unsafe_calls)
{
    /* [mode of the capture][mode of the thread]: rows and columns are global, local, relaxed. */
    static const bool spoils_in_own_thread[3][3] = {{true, true, false}, {true, true, false}, {0}};
    static const bool spoils_in_another[3][3] = {{true, false, false}, {0}, {0}};
    trial t = {.f = f};
    PASS(event_create, &t.event);
    for (int capture = 0; capture < 3; capture++) {
        for (int thread = 0; thread < 3; thread++) {
            const mend_sim_capture_mode mode = (mend_sim_capture_mode)capture;
            t.mode = (mend_capture_mode)thread;
            EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, mode));
            ask(&t);
            EXPECT_INT_EQ(spoils_in_own_thread[capture][thread], is_spoilt(f));
            mend_sim_end_capture(f->sim, f->stream, NULL);
            EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, mode));
            mend_test_run_thread(ask, &t);
            EXPECT_INT_EQ(spoils_in_another[capture][thread], is_spoilt(f));
            mend_sim_end_capture(f->sim, f->stream, NULL);
        }
    }
    EXPECT_HEARD(f, 5, "not relaxed");
}

/* Granules with holes: memory in a hole is not touched. */
SIM_TEST(sim_capture_modes, know_the_granules_that_work_touches)
{
    mend_capture_mode mode = MEND_CAPTURE_MODE_RELAXED;
    uint64_t address = sim_fixture_map(f, f->page, 3 * f->page);
    for (uint64_t i = 1; i < 3; i++) {
        sim_fixture_map_at(f, address + i * f->page, sim_fixture_chunk(f, f->page));
    }
    PASS(exchange_capture_mode, &mode);
    const mend_kernel kernel = sim_kernel(MEND_KERNEL_WRITE, address, 512, 2 * f->page, 2);
    sim_fixture_begin_capture(f, f->stream);
    PASS(launch, f->stream, &kernel);
    PASS(unmap, address + f->page, f->page);
    EXPECT_U64_EQ(0, f->heard);
    PASS(unmap, address + 2 * f->page, f->page);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
    EXPECT_HEARD(f, 1, "whose graph uses it");
}
