/* The other policies of Mend. mend:quiet completes where mend runs out of memory, says what it
 * copied, and breaks no rule of the driver; mend:torch frees a block on its own stream. */
#include "lab/replay/replay.h"
#include "lab/workloads/workload.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

static mend_replay_result replay(const mend_trace *trace, const char *policy, double factor)
{
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    mend_capacity capacity = {.kind = MEND_CAPACITY_FACTOR, .factor = factor};
    mend_replay_result result = {0};
    EXPECT_RESULT(MEND_OK, mend_replay_run(trace, policy, &capacity, &options, &result));
    EXPECT_STR_EQ("", result.problem);
    return result;
}

MEND_TEST(quiet, completes_by_copying_where_mend_runs_out_of_memory)
{
    static const struct {
        const char *workload;
        double factor;
    } rows[] = {{"stress:random-mix?live=2GiB", 1.016},
                {"stress:random-mix?live=2GiB&seed=2", 1.018},
                {"stress:random-mix?live=2GiB&seed=3", 1.016}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_trace *trace = NULL;
        ASSERT_RESULT(MEND_OK, mend_workload_generate(rows[i].workload, 0, &trace));
        mend_replay_result without = replay(trace, "mend", rows[i].factor);
        EXPECT_FALSE(without.completed);
        EXPECT_U64_EQ(0, without.bytes_copied);
        mend_replay_result with = replay(trace, "mend:quiet", rows[i].factor);
        EXPECT_TRUE(with.completed);
        EXPECT_TRUE(with.bytes_copied > 0);
        mend_replay_result_clear(&without);
        mend_replay_result_clear(&with);
        mend_trace_destroy(trace);
    }
}

MEND_TEST(quiet, copies_nothing_while_there_is_memory)
{
    mend_trace *trace = NULL;
    ASSERT_RESULT(MEND_OK, mend_workload_generate("stress:checkerboard?live=2GiB", 0, &trace));
    mend_replay_result with = replay(trace, "mend:quiet", 2);
    EXPECT_U64_EQ(0, with.bytes_copied);
    EXPECT_U64_EQ(0, with.host_syncs);
    mend_replay_result_clear(&with);
    mend_trace_destroy(trace);
}

#define MIB_20 "20971520"

/* A block is freed on another stream, which asks for its memory while its own stream works. */
static mend_replay_calls replay_of_a_block_passed_on(const char *policy)
{
    mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,1," MIB_20 ",0\n"
                                                 "0,1,allocate,2," MIB_20 ",0\n"
                                                 "0,2,free,2," MIB_20 ",0\n"
                                                 "0,3,free,1," MIB_20 ",1\n"
                                                 "0,4,allocate,3," MIB_20 ",1\n");
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    options.check_content = true;
    mend_replay_result result = fixture_replay(trace, policy, "41943040", &options);
    EXPECT_U64_EQ(0, result.content_errors);
    EXPECT_TRUE(result.completed);
    mend_replay_calls calls = result.calls;
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
    return calls;
}

MEND_TEST(torch, a_block_is_freed_on_its_own_stream_behind_the_work_of_others)
{
    EXPECT_U64_EQ(0, replay_of_a_block_passed_on("mend").stream_wait_calls);
    EXPECT_U64_EQ(1, replay_of_a_block_passed_on("mend:torch").stream_wait_calls);
}
