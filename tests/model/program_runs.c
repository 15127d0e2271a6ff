/* The program in many configurations, each with fixed seeds and one of the test's own. */
#include "base/align.h"
#include "tests/model/program.h"
#include "tests/support/test.h"

typedef struct totals {
    mend_stats stats; /* the sums of what matters here */
    uint64_t stream_wait_calls;
    uint64_t failed_calls;
    uint64_t graph_launches;
} totals;

static void add(totals *sum, const program_outcome *outcome)
{
    sum->stats.stream_waits += outcome->stats.stream_waits;
    sum->stats.host_waits += outcome->stats.host_waits;
    sum->stats.chunks_moved += outcome->stats.chunks_moved;
    sum->stats.out_of_memory += outcome->stats.out_of_memory;
    sum->stats.pages_committed += outcome->stats.pages_committed;
    sum->stats.pages_decommitted += outcome->stats.pages_decommitted;
    sum->stats.chunks_released += outcome->stats.chunks_released;
    sum->stream_wait_calls += outcome->asked.call[MEND_CALL_stream_wait].calls;
    sum->failed_calls += outcome->failed_calls;
    sum->graph_launches += outcome->graph_launches;
}

/* Runs the test's own seed and the first `fixed` numbers. */
static totals run(const program_config *config, int fixed)
{
    totals sum = {0};
    for (int i = 0; i <= fixed; i++) {
        uint64_t seed = i == 0 ? mend_test_seed() : (uint64_t)i;
        program_outcome outcome;
        program_run(config, seed, &outcome);
        if (!outcome.holds) {
            mend_test_fail(__FILE__, __LINE__,
                           "the program \"%s\", step %d: %s\n  MEND_TEST_SEED=%llu repeats it",
                           config->name, outcome.step, outcome.finding, (unsigned long long)seed);
            break;
        }
        add(&sum, &outcome);
    }
    return sum;
}

static const program_config usual = {.name = "usual",
                                     .steps = 700,
                                     .created_streams = 3,
                                     .legacy_stream = true,
                                     .streams_die = true,
                                     .limit_changes = true};

MEND_TEST(program, holds_with_a_few_streams)
{
    totals sum = run(&usual, 5);
    EXPECT_TRUE(sum.stats.stream_waits > 0);
    EXPECT_TRUE(sum.stats.chunks_moved > 0);
    EXPECT_TRUE(sum.stats.chunks_released > 0);
}

MEND_TEST(program, holds_with_one_stream)
{
    program_config config = usual;
    config.name = "one stream";
    config.created_streams = 0;
    config.streams_die = false;
    totals sum = run(&config, 4);
    EXPECT_TRUE(sum.stats.chunks_moved > 0);
    EXPECT_U64_EQ(0, sum.stream_wait_calls);
}

MEND_TEST(program, holds_with_many_streams)
{
    program_config config = usual;
    config.name = "many streams";
    config.created_streams = 16;
    totals sum = run(&config, 4);
    EXPECT_TRUE(sum.stats.stream_waits > 0);
}

MEND_TEST(program, holds_where_memory_must_cross_streams)
{
    program_config config = usual;
    config.name = "tight";
    config.memory_bytes = 6 * MEND_MIB;
    config.limit_changes = false;
    totals sum = run(&config, 6);
    EXPECT_TRUE(sum.stats.stream_waits > 0);
    EXPECT_TRUE(sum.stats.host_waits > 0);
    EXPECT_TRUE(sum.stats.out_of_memory > 0);
}

MEND_TEST(program, holds_without_stream_waits)
{
    program_config config = usual;
    config.name = "no stream waits";
    config.memory_bytes = 6 * MEND_MIB;
    config.no_stream_waits = true;
    config.threads = 2;
    totals sum = run(&config, 5);
    EXPECT_TRUE(sum.stats.host_waits > 0);
    EXPECT_U64_EQ(0, sum.stats.stream_waits);
    EXPECT_U64_EQ(0, sum.stream_wait_calls);
}

MEND_TEST(program, holds_with_the_streams_of_threads)
{
    program_config config = usual;
    config.name = "threads";
    config.created_streams = 1;
    config.threads = 4;
    config.memory_bytes = 10 * MEND_MIB;
    totals sum = run(&config, 4);
    EXPECT_TRUE(sum.stats.stream_waits > 0);
}

MEND_TEST(program, holds_where_the_pool_knows_every_stream)
{
    program_config config = usual;
    config.name = "knows all streams";
    config.memory_bytes = 8 * MEND_MIB;
    config.knows_all_streams = true;
    run(&config, 4);
}

MEND_TEST(program, holds_where_streams_vanish)
{
    program_config config = usual;
    config.name = "streams vanish";
    config.memory_bytes = 8 * MEND_MIB;
    config.threads = 2;
    config.streams_vanish = true;
    run(&config, 6);
}

MEND_TEST(program, holds_where_events_are_reported_late)
{
    program_config config = usual;
    config.name = "late events";
    config.memory_bytes = 8 * MEND_MIB;
    config.event_delay_ns = 300;
    run(&config, 5);
}

MEND_TEST(program, holds_beside_another_process)
{
    program_config config = usual;
    config.name = "foreign memory";
    config.foreign_memory = true;
    totals sum = run(&config, 5);
    EXPECT_TRUE(sum.stats.out_of_memory > 0);
}

MEND_TEST(program, holds_where_calls_take_their_time)
{
    program_config config = usual;
    config.name = "prices";
    config.memory_bytes = 8 * MEND_MIB;
    config.prices_advance_clock = true;
    run(&config, 5);
}

MEND_TEST(program, holds_where_the_driver_fails)
{
    program_config config = usual;
    config.name = "faults";
    config.memory_bytes = 8 * MEND_MIB;
    config.faults_per_mille = 250;
    config.threads = 2;
    totals sum = run(&config, 6);
    EXPECT_TRUE(sum.failed_calls > 0);
}

MEND_TEST(program, holds_while_streams_are_captured)
{
    program_config config = usual;
    config.name = "captures";
    config.memory_bytes = 10 * MEND_MIB;
    config.captures = true;
    config.threads = 2;
    totals sum = run(&config, 6);
    EXPECT_TRUE(sum.graph_launches > 0);
}

MEND_TEST(program, holds_where_graphs_keep_groups_of_blocks)
{
    program_config config = usual;
    config.name = "groups";
    config.memory_bytes = 10 * MEND_MIB;
    config.captures = true;
    config.groups = true;
    config.threads = 2;
    totals sum = run(&config, 8);
    EXPECT_TRUE(sum.graph_launches > 0);
}

MEND_TEST(program, holds_with_all_of_it)
{
    program_config config = usual;
    config.name = "all";
    config.memory_bytes = 8 * MEND_MIB;
    config.threads = 3;
    config.foreign_memory = true;
    config.captures = true;
    config.groups = true;
    config.faults_per_mille = 50;
    config.event_delay_ns = 40;
    run(&config, 6);
}

/* ---- growable ranges --------------------------------------------------------------------------
 */

static const program_config growing = {.name = "ranges",
                                       .steps = 700,
                                       .memory_bytes = 8 * MEND_MIB,
                                       .created_streams = 3,
                                       .legacy_stream = true,
                                       .streams_die = true,
                                       .limit_changes = true,
                                       .ranges = true};

MEND_TEST(program, holds_with_ranges)
{
    totals sum = run(&growing, 10);
    EXPECT_TRUE(sum.stats.pages_committed > 300);
    EXPECT_TRUE(sum.stats.pages_decommitted > 300);
    EXPECT_TRUE(sum.stats.chunks_moved > 0);
    EXPECT_TRUE(sum.stats.out_of_memory > 0);
}

MEND_TEST(program, holds_with_ranges_on_one_stream)
{
    program_config config = growing;
    config.name = "ranges, one stream";
    config.created_streams = 0;
    config.streams_die = false;
    run(&config, 6);
}

MEND_TEST(program, holds_with_ranges_where_streams_vanish)
{
    program_config config = growing;
    config.name = "ranges, streams vanish";
    config.threads = 2;
    config.streams_vanish = true;
    run(&config, 6);
}

MEND_TEST(program, holds_with_ranges_without_stream_waits)
{
    program_config config = growing;
    config.name = "ranges, no stream waits";
    config.no_stream_waits = true;
    config.event_delay_ns = 300;
    totals sum = run(&config, 6);
    EXPECT_TRUE(sum.stats.host_waits > 0);
}

MEND_TEST(program, holds_with_ranges_where_the_driver_fails)
{
    program_config config = growing;
    config.name = "ranges, faults";
    config.faults_per_mille = 250;
    totals sum = run(&config, 8);
    EXPECT_TRUE(sum.failed_calls > 0);
}

MEND_TEST(program, holds_with_ranges_and_all_of_it)
{
    program_config config = growing;
    config.name = "ranges, all";
    config.threads = 3;
    config.foreign_memory = true;
    config.captures = true;
    config.groups = true;
    config.knows_all_streams = false;
    config.faults_per_mille = 50;
    config.event_delay_ns = 40;
    run(&config, 10);
}
