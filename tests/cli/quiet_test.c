/* The other policies of Mend. mend:compact completes where mend runs out of memory, reports its
 * copies, and breaks no rule of the driver. mend:torch frees a block on its own stream,
 * mend:no-stream on none. And threads that end. */
#include "lab/replay/replay.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

MEND_TEST(quiet, completes_by_copying_where_mend_runs_out_of_memory)
{
    static const char *const rows[][2] = {{"stress:random-mix?live=2GiB", "1.025x"},
                                          {"stress:random-mix?live=2GiB&seed=2", "1.025x"},
                                          {"stress:random-mix?live=2GiB&seed=3", "1.025x"}};
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fixture_replays(rows[i][0], "mend", rows[i][1], "completed=0 bytes_copied=0");
        ENDING_TRACE mend_trace *trace = fixture_workload(rows[i][0]);
        ENDING_RESULT mend_replay_result with =
            fixture_replay(trace, "mend:compact", rows[i][1], &options);
        EXPECT_TRUE(with.completed && with.bytes_copied > 0);
    }
}

/* A block is freed on another stream, which asks for its memory while its own stream works. */
MEND_TEST(torch, a_block_is_freed_on_its_own_stream_behind_the_work_of_others)
{
    static const char steps[] = "1+20M 2+20M -2 -1@1 3+20M@1";
    fixture_replays(steps, "mend", "40MiB", "content_errors=0 completed=1 stream_wait=0");
    fixture_replays(steps, "mend:torch", "40MiB", "content_errors=0 completed=1 stream_wait=1");
}

/* Each thread has a stream of its own by the same name: memory that one freed is not ready for the
 * next one, and no other thread can record an event there. Once that has cost a wait, the pool
 * records one at each free. */
MEND_TEST(tasks, memory_of_threads_that_ended_is_reused_behind_the_context)
{
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    static const char steps[] = "1+40M -1 2+40M -2 3+40M -3 4+40M";
    fixture_replays(steps, "mend", "50MiB", "content_errors=0 completed=1 event_record=0");
    options.task_events = 2;
    fixture_replays_by(&options, steps, "mend", "50MiB",
                       "content_errors=0 completed=1 host_syncs=0 event_record=3 stream_wait=3");
    options.lacks_context_events = true;
    fixture_replays_by(&options, steps, "mend", "50MiB",
                       "content_errors=0 completed=1 host_syncs=1 event_record=3");
}
