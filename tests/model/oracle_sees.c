/*
 * The program's oracle can see: whatever the driver lies about to the pool, and whatever the
 * program itself does wrong, shows as wrong bytes or as a fault that the device judges.
 */
#include "tests/model/program.h"
#include "tests/support/test.h"

enum { MOST_SEEDS = 12 };

/* Memory is short, so that it must cross streams, and some of them are slow. */
static const program_config tight = {.name = "lied to, or sinning",
                                     .steps = 900,
                                     .memory_bytes = 8 << 20,
                                     .created_streams = 3,
                                     .legacy_stream = true,
                                     .streams_die = true};

/* Within some seeds; and with the first of them all is well where nobody lies or sins. */
static void expect_seen(const program_config *config)
{
    uint64_t seed = mend_test_seed();
    program_outcome outcome = {0};
    for (int i = 0; i < MOST_SEEDS && !outcome.is_seen; i++) {
        program_run(config, seed + (uint64_t)i, &outcome);
    }
    EXPECT_TRUE(outcome.is_seen);
    program_config honest = *config;
    honest.lie = LIE_NONE;
    honest.sin = SIN_NONE;
    program_run(&honest, seed, &outcome);
    if (!outcome.holds) {
        mend_test_fail(__FILE__, __LINE__, "without it too: %s", outcome.finding);
    }
}

static void expect_lie_seen(mend_lie lie)
{
    program_config config = tight;
    config.lie = lie;
    expect_seen(&config);
}

MEND_TEST(oracle_sees, events_that_have_not_passed)
{
    expect_lie_seen(LIE_EVENTS_HAVE_PASSED);
}

MEND_TEST(oracle_sees, host_waits_for_events_that_do_not_wait)
{
    program_config config = tight;
    config.lie = LIE_EVENT_WAITED_FOR;
    config.no_stream_waits = true;
    expect_seen(&config);
}

MEND_TEST(oracle_sees, host_waits_for_the_context_that_do_not_wait)
{
    expect_lie_seen(LIE_CONTEXT_WAITED_FOR);
}

MEND_TEST(oracle_sees, stream_waits_that_are_not_queued)
{
    expect_lie_seen(LIE_STREAM_WAITS);
}

MEND_TEST(oracle_sees, events_that_are_not_recorded)
{
    expect_lie_seen(LIE_EVENT_RECORDED);
}

MEND_TEST(oracle_sees, streams_of_threads_taken_for_one)
{
    program_config config = tight;
    config.lie = LIE_ONE_STREAM;
    config.threads = 3;
    config.created_streams = 0;
    config.legacy_stream = false;
    expect_seen(&config);
}

static void expect_sin_seen(program_sin sin)
{
    program_config config = tight;
    config.sin = sin;
    expect_seen(&config);
}

MEND_TEST(oracle_sees, use_on_another_stream_without_an_event)
{
    expect_sin_seen(SIN_NO_EVENT);
}

MEND_TEST(oracle_sees, use_on_another_stream_that_is_not_declared)
{
    expect_sin_seen(SIN_NO_RECORD);
}

MEND_TEST(oracle_sees, streams_destroyed_without_a_word)
{
    expect_sin_seen(SIN_NO_FORGET);
}

MEND_TEST(oracle_sees, blocks_of_a_graph_freed_without_a_group)
{
    program_config config = tight;
    config.sin = SIN_NO_GROUP;
    config.captures = true;
    expect_seen(&config);
}
