/* The checkers of a trial see whatever the driver lies about to the pools. The linker puts the liar
 * in the way: see CMakeLists.txt. */
#include "tests/sim/generator.h"
#include "tests/sim/shrink.h"
#include "tests/sim/soak.h"
#include "tests/sim/trial.h"
#include "tests/support/test.h"

void __real_trial_witness_init(trial *t);
void __wrap_trial_witness_init(trial *t);

static void (*lie)(mend_driver *driver); /* NULL: the truth */

void __wrap_trial_witness_init(trial *t)
{
    __real_trial_witness_init(t);
    if (lie != NULL) {
        lie(&t->witness.table);
    }
}

/* ---- the lies -------------------------------------------------------------------------------- */

static mend_status nothing_for_event(const mend_driver *driver, mend_event event)
{
    (void)driver;
    (void)event;
    return MEND_DRIVER_OK;
}

static mend_status nothing_for_context(const mend_driver *driver)
{
    (void)driver;
    return MEND_DRIVER_OK;
}

static mend_status no_wait(const mend_driver *driver, mend_stream stream, mend_event event)
{
    (void)stream;
    return nothing_for_event(driver, event);
}

static mend_status no_record(const mend_driver *driver, mend_event event, mend_stream stream)
{
    (void)stream;
    return nothing_for_event(driver, event);
}

static mend_status (*get_info)(const mend_driver *, mend_stream, mend_stream_info *);

static mend_status info_of_one_stream(const mend_driver *driver, mend_stream stream,
                                      mend_stream_info *info)
{
    mend_status status = get_info(driver, stream, info);
    info->id = stream == MEND_STREAM_PER_THREAD ? UINT64_MAX : info->id;
    return status;
}

/* Within so many seeds, in which threads have streams of their own. Without the lie all is well.
 * Its consequence may end the process. */
static void expect_seen(void (*told)(mend_driver *driver))
{
    enum { MOST_SEEDS = 300 };
    static operation ops[TRIAL_MOST_STEPS];
    static trial_outcome outcome;
    trial_config config;
    outcome.verdict = TRIAL_HOLDS;
    lie = told;
    for (uint64_t seed = 1; seed <= MOST_SEEDS && outcome.verdict == TRIAL_HOLDS; seed++) {
        trial_draw(seed, SOAK_STEPS, &config, ops);
        config.threads = 3;
        config.thread_streams = 1;
        ASSERT_TRUE(trial_run_apart(&config, ops, SOAK_STEPS, &outcome));
    }
    EXPECT_TRUE(outcome.verdict != TRIAL_HOLDS);
    lie = NULL;
    ASSERT_TRUE(trial_run_apart(&config, ops, SOAK_STEPS, &outcome));
    EXPECT_INT_EQ(TRIAL_HOLDS, outcome.verdict);
}

#define LIE(name, ...)                                                                             \
    static void name(mend_driver *driver)                                                          \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    MEND_TEST(sim_lies, name)                                                                      \
    {                                                                                              \
        expect_seen(name);                                                                         \
    }
LIE(events_have_passed, driver->event_query = nothing_for_event)
LIE(events_are_waited_for, driver->event_synchronize = nothing_for_event)
LIE(the_context_is_waited_for, driver->context_synchronize = nothing_for_context)
LIE(stream_waits_are_queued, driver->stream_wait = no_wait)
LIE(events_are_recorded, driver->event_record = no_record)
LIE(threads_share_a_stream, get_info = driver->stream_get_info,
    driver->stream_get_info = info_of_one_stream)
