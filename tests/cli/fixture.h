/* What the tests of the program share: files that last for one test, and traces written down. */
#ifndef MEND_TESTS_CLI_FIXTURE_H
#define MEND_TESTS_CLI_FIXTURE_H

#include <stddef.h>

#include "lab/replay/replay.h"
#include "lab/trace/trace.h"

#define TRACE_HEAD "Thread,Time,Action,Pointer,Size,Stream\n"

typedef struct fixture_file {
    char path[256];
} fixture_file;

/* A file of these bytes whose name ends so; removed by fixture_remove. */
fixture_file fixture_write(const char *ending, const void *bytes, size_t size);
fixture_file fixture_write_text(const char *ending, const char *text);
/* The same, compressed by gzip. */
fixture_file fixture_write_gzip(const char *ending, const char *text);
void fixture_remove(const fixture_file *file);

/* Reads a trace with this text; NULL, and *message filled (at least 512 bytes), when it is refused.
 */
mend_trace *fixture_read_trace(const char *text, char *message);

/* A trace that must be good. */
mend_trace *fixture_trace(const char *text);

/* One of bench/traces, by its short name. */
mend_trace *fixture_recording(const char *name);

/* A built-in workload, as the command line names it. */
mend_trace *fixture_workload(const char *spec);

/* A replay that is expected to be possible; the problem is reported where there is one. */
mend_replay_result fixture_replay(const mend_trace *trace, const char *policy, const char *capacity,
                                  const mend_replay_options *options);

#endif
