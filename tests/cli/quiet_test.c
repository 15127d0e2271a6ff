/* The other policies of Mend. mend:quiet completes where mend runs out of memory, says what it
 * copied, and breaks no rule of the driver; mend:torch frees a block on its own stream. */
#include "lab/replay/replay.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

MEND_TEST(quiet, completes_by_copying_where_mend_runs_out_of_memory)
{
    static const char *const rows[][2] = {{"stress:random-mix?live=2GiB", "1.016x"},
                                          {"stress:random-mix?live=2GiB&seed=2", "1.018x"},
                                          {"stress:random-mix?live=2GiB&seed=3", "1.016x"}};
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fixture_replays(rows[i][0], "mend", rows[i][1], "completed=0 bytes_copied=0");
        mend_trace *trace = fixture_workload(rows[i][0]);
        mend_replay_result with = fixture_replay(trace, "mend:quiet", rows[i][1], &options);
        EXPECT_TRUE(with.completed && with.bytes_copied > 0);
        mend_replay_result_clear(&with);
        mend_trace_destroy(trace);
    }
}

MEND_TEST(quiet, copies_nothing_while_there_is_memory)
{
    fixture_replays("stress:checkerboard?live=2GiB", "mend:quiet", "2x",
                    "bytes_copied=0 host_syncs=0");
}

/* A block is freed on another stream, which asks for its memory while its own stream works. */
MEND_TEST(torch, a_block_is_freed_on_its_own_stream_behind_the_work_of_others)
{
    static const char steps[] = "1+20M 2+20M -2 -1@1 3+20M@1";
    fixture_replays(steps, "mend", "40MiB", "content_errors=0 completed=1 stream_wait=0");
    fixture_replays(steps, "mend:torch", "40MiB", "content_errors=0 completed=1 stream_wait=1");
}
