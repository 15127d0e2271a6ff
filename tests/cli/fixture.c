#include "tests/cli/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "lab/support/json_read.h"
#include "lab/support/pickle.h"
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

const char *fixture_message(void)
{
    static mend_error error;
    error = (mend_error)MEND_ERROR_INIT;
    mend_get_last_error(&error);
    return error.message;
}

mend_trace *fixture_read_trace(const char *text)
{
    ENDING_FILE fixture_file file = fixture_write_text(".csv", text);
    mend_trace *trace = NULL;
    return mend_trace_read(file.path, &trace) == MEND_OK ? trace : NULL;
}

mend_trace *fixture_trace(const char *text)
{
    mend_trace *trace = fixture_read_trace(text);
    MEND_TEST_CHECK(trace != NULL, (void)0, "the trace is refused: %s", fixture_message());
    return trace;
}

mend_result fixture_read_values(const void *bytes, size_t size, mend_value_store *store)
{
    static mend_byte_source source;
    ENDING_FILE fixture_file file = fixture_write(".values", bytes, size);
    EXPECT_RESULT(MEND_OK, mend_byte_source_open(&source, file.path));
    mend_result result = mend_is_pickle(*(const char *)bytes) ? mend_pickle_read(&source, store)
                                                              : mend_json_read(&source, store);
    EXPECT_TRUE(result != MEND_OK || mend_byte_source_position(&source) == size);
    mend_byte_source_close(&source);
    return result;
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

uint64_t fixture_size(const char **at)
{
    char *end;
    uint64_t size = strtoull(*at, &end, 10);
    const char *unit = *end != 0 ? strchr("KMG", *end) : NULL;
    *at = end + (unit != NULL);
    return unit == NULL ? size : size << 10 * (unit - "KMG" + 1);
}

mend_trace *fixture_steps(const char *at)
{
    char csv[4096] = TRACE_HEAD;
    while (*at != 0) {
        size_t used = strlen(csv);
        bool is_free = *at == '-';
        at += is_free;
        uint64_t block = fixture_size(&at);
        uint64_t size = *at == '+' ? (at++, fixture_size(&at)) : 0;
        uint64_t stream = *at == '@' ? (at++, fixture_size(&at)) : 0;
        snprintf(csv + used, sizeof(csv) - used, "0,0,%s,%llu,%llu,%llu\n",
                 is_free ? "free" : "allocate", (unsigned long long)block, (unsigned long long)size,
                 (unsigned long long)stream);
        at += strspn(at, " ");
    }
    return fixture_trace(csv);
}

/* A figure by its name. NAN: there is none. */
static double figure(const mend_replay_result *r, const char *name, size_t length)
{
    const uint64_t per_mille = r->peak_reserved_bytes * 1000 / r->peak_live_bytes;
    const struct {
        const char *name;
        double value;
    } figures[] = {
#define X(call)                                                                                    \
    {#call, (double)r->calls.call##_calls}, {#call "/2", (double)r->calls_second_half.call##_calls},
        MEND_REPLAY_CALLS(X)
#undef X
            {"completed", r->completed},
        {"limited", r->limited},
        {"capacity", (double)r->capacity_bytes},
        {"failed_at_event", (double)r->failed_at_event},
        {"events", (double)r->events},
        {"peak_live", (double)r->peak_live_bytes},
        {"peak_reserved", (double)r->peak_reserved_bytes},
        {"per_mille", (double)per_mille},
        {"fitted", r->fitted},
        {"fit_capacity", (double)r->fit_capacity_bytes},
        {"fit_factor", r->fit_factor},
        {"host_syncs", (double)r->host_syncs},
        {"bytes_copied", (double)r->bytes_copied},
        {"creates_refused", (double)r->creates_refused},
        {"driver_time", r->driver_time_us},
        {"driver_time/2", r->driver_time_second_half_us},
        {"allocs", (double)r->alloc_ns.calls},
        {"frees", (double)r->free_ns.calls},
        {"mappings_peak", (double)r->mappings_peak},
        {"content_checked", r->content_checked},
        {"content_errors", (double)r->content_errors},
    };
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++) {
        if (strlen(figures[i].name) == length && strncmp(figures[i].name, name, length) == 0) {
            return figures[i].value;
        }
    }
    return NAN;
}

void fixture_replays(const char *what, const char *policy, const char *capacity,
                     const char *figures)
{
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    fixture_replays_by(&options, what, policy, capacity, figures);
}

void fixture_replays_by(const mend_replay_options *given, const char *what, const char *policy,
                        const char *capacity, const char *figures)
{
    bool is_workload = strncmp(what, "stress:", strlen("stress:")) == 0;
    bool is_steps = what[0] >= '0' && what[0] <= '9';
    mend_trace *trace = is_workload ? fixture_workload(what)
                        : is_steps  ? fixture_steps(what)
                                    : fixture_recording(what);
    MEND_TEST_CHECK(trace != NULL, return, "there is no %s", what);
    mend_replay_options options = *given;
    options.check_content = strstr(figures, "content_errors") != NULL;
    mend_replay_result result = fixture_replay(trace, policy, capacity, &options);
    for (const char *at = figures; *at != 0; at += strspn(at, " ")) {
        size_t length = strcspn(at, "=");
        double is = figure(&result, at, length);
        const char *value = at + length + 1;
        char *end;
        double expected = strtod(value, &end);
        expected = *end != 0 && *end != ' ' ? (double)fixture_size(&value) : expected;
        MEND_TEST_CHECK(fabs(is - expected) < 0.001, (void)0, "%s, %s, %s: %.15g, expected %s",
                        what, policy, capacity, is, at);
        at += strcspn(at, " ");
    }
    mend_replay_result_clear(&result);
    mend_trace_destroy(trace);
}
