/* Shared by the tests of the program: files that last for one test, and written traces. */
#ifndef MEND_TESTS_CLI_FIXTURE_H
#define MEND_TESTS_CLI_FIXTURE_H

#include <stddef.h>

#include "lab/replay/replay.h"
#include "lab/support/values.h"
#include "lab/trace/trace.h"

#define TRACE_HEAD "Thread,Time,Action,Pointer,Size,Stream\n"

typedef struct fixture_file {
    char path[256];
} fixture_file;

/* A file of these bytes whose name ends so. Removed by fixture_remove. */
fixture_file fixture_write(const char *ending, const void *bytes, size_t size);
fixture_file fixture_write_text(const char *ending, const char *text);
/* The same, compressed by gzip. */
fixture_file fixture_write_gzip(const char *ending, const char *text);
void fixture_remove(const fixture_file *file);

/* The value of such a variable ends with its block. */
#define ENDING_FILE   __attribute__((cleanup(fixture_remove)))
#define ENDING_RESULT __attribute__((cleanup(mend_replay_result_clear)))
#define ENDING_TRACE  __attribute__((cleanup(fixture_end_trace)))
static inline void fixture_end_trace(mend_trace **trace)
{
    mend_trace_destroy(*trace);
}

/* The words of the last error, until the next call. */
const char *fixture_message(void);

/* Reads a trace with this text. NULL, and an error with a message, when it is refused. */
mend_trace *fixture_read_trace(const char *text);

/* A trace that must be good. */
mend_trace *fixture_trace(const char *text);

/* Reads bytes, to the last one, as a pickle, or else as JSON, into a store. */
mend_result fixture_read_values(const void *bytes, size_t size, mend_value_store *store);

/* Written down in short: see fixture_replays. */
mend_trace *fixture_steps(const char *steps);

/* One of bench/traces, by its short name. */
mend_trace *fixture_recording(const char *name);

/* A built-in workload, as the command line names it. */
mend_trace *fixture_workload(const char *spec);

/* A replay that is expected to be possible. The problem is reported where there is one. */
mend_replay_result fixture_replay(const mend_trace *trace, const char *policy, const char *capacity,
                                  const mend_replay_options *options);

/* The same, with the expected result: "completed=1 malloc=3 peak_reserved=92M". The input is a
 * workload, a recording, or steps: "1+30M 2+512@3 -1@3" allocates block 1 of 30 MiB on stream 0,
 * block 2 on stream 3, and frees block 1 on stream 3. The numbers have the names of the result,
 * without units. Driver calls have theirs, with /2 for the second half alone. per_mille is reserved
 * by live bytes. Contents are checked where content_errors is asked for. */
void fixture_replays(const char *what, const char *policy, const char *capacity,
                     const char *figures);

/* The same by options of one's own. */
void fixture_replays_by(const mend_replay_options *given, const char *what, const char *policy,
                        const char *capacity, const char *figures);

/* The number at *at, which moves behind it: "4M" are 4 MiB. */
uint64_t fixture_size(const char **at);

#endif
