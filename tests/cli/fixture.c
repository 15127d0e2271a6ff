#include "tests/cli/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "lab/trace/read.h"
#include "lab/workloads/workload.h"
#include "tests/support/test.h"

static fixture_file new_file(const char *ending)
{
    const char *folder = getenv("TMPDIR");
    fixture_file file;
    snprintf(file.path, sizeof(file.path), "%s/mend-test-XXXXXX%s",
             folder != NULL ? folder : "/tmp", ending);
    int descriptor = mkstemps(file.path, (int)strlen(ending));
    if (descriptor < 0) {
        mend_test_fail(__FILE__, __LINE__, "no file can be made at %s", file.path);
    } else {
        close(descriptor);
    }
    return file;
}

fixture_file fixture_write(const char *ending, const void *bytes, size_t size)
{
    fixture_file file = new_file(ending);
    FILE *out = fopen(file.path, "wb");
    if (out == NULL || fwrite(bytes, 1, size, out) != size || fclose(out) != 0) {
        mend_test_fail(__FILE__, __LINE__, "%s cannot be written", file.path);
    }
    return file;
}

fixture_file fixture_write_text(const char *ending, const char *text)
{
    return fixture_write(ending, text, strlen(text));
}

fixture_file fixture_write_gzip(const char *ending, const char *text)
{
    fixture_file file = new_file(ending);
    gzFile out = gzopen(file.path, "wb");
    if (out == NULL || gzwrite(out, text, (unsigned)strlen(text)) != (int)strlen(text) ||
        gzclose(out) != Z_OK) {
        mend_test_fail(__FILE__, __LINE__, "%s cannot be written", file.path);
    }
    return file;
}

void fixture_remove(const fixture_file *file)
{
    unlink(file->path);
}

mend_trace *fixture_read_trace(const char *text, char *message)
{
    fixture_file file = fixture_write_text(".csv", text);
    mend_trace *trace = NULL;
    if (mend_trace_read(file.path, &trace) != MEND_OK) {
        mend_error error = MEND_ERROR_INIT;
        mend_last_error(&error);
        snprintf(message, 512, "%s", error.message);
    }
    fixture_remove(&file);
    return trace;
}

mend_trace *fixture_trace(const char *text)
{
    char message[512];
    mend_trace *trace = fixture_read_trace(text, message);
    if (trace == NULL) {
        mend_test_fail(__FILE__, __LINE__, "the trace is refused: %s", message);
    }
    return trace;
}

mend_trace *fixture_recording(const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.csv.gz", MEND_TRACES_DIR, name);
    mend_trace *trace = NULL;
    if (mend_trace_read(path, &trace) != MEND_OK) {
        mend_test_fail(__FILE__, __LINE__, "%s cannot be read", path);
    }
    return trace;
}

mend_trace *fixture_workload(const char *spec)
{
    mend_trace *trace = NULL;
    EXPECT_RESULT(MEND_OK, mend_workload_generate(spec, 0, &trace));
    return trace;
}

mend_replay_result fixture_replay(const mend_trace *trace, const char *policy, const char *capacity,
                                  const mend_replay_options *options)
{
    mend_replay_result result = {0};
    mend_capacity parsed;
    EXPECT_TRUE(mend_parse_capacity(capacity, &parsed));
    EXPECT_RESULT(MEND_OK, mend_replay_run(trace, policy, &parsed, options, &result));
    EXPECT_STR_EQ("", result.problem);
    return result;
}
