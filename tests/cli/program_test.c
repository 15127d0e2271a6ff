/* The built program from outside: exit status, what goes to which stream, and JSON by contract. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/fixture.h"
#include "tests/cli/program.h"
#include "tests/support/test.h"

static const char small_trace[] = TRACE_HEAD "0,0,allocate,1,31457280,0\n"
                                             "0,1,allocate,2,31457280,0\n"
                                             "0,2,free,1,31457280,0\n"
                                             "0,3,free,2,31457280,0\n";

/* ---- a reader of JSON, just strict enough -----------------------------------------------------
 */

static const char *skip_value(const char *at);

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

static const char *skip_string(const char *at)
{
    if (*at++ != '"') {
        return NULL;
    }
    while (*at != '"') {
        if (*at == 0 || (unsigned char)*at < 0x20) {
            return NULL;
        }
        at += *at == '\\' ? 2 : 1;
    }
    return at + 1;
}

static const char *skip_members(const char *at, char end, bool has_keys)
{
    at = skip_blanks(at);
    if (*at == end) {
        return at + 1;
    }
    for (;;) {
        if (has_keys) {
            at = skip_string(skip_blanks(at));
            at = at == NULL ? NULL : skip_blanks(at);
            if (at == NULL || *at++ != ':') {
                return NULL;
            }
        }
        at = skip_value(skip_blanks(at));
        if (at == NULL) {
            return NULL;
        }
        at = skip_blanks(at);
        if (*at == end) {
            return at + 1;
        }
        if (*at++ != ',') {
            return NULL;
        }
    }
}

static const char *skip_value(const char *at)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        if (strncmp(at, words[i], strlen(words[i])) == 0) {
            return at + strlen(words[i]);
        }
    }
    if (*at == '{' || *at == '[') {
        return skip_members(at + 1, *at == '{' ? '}' : ']', *at == '{');
    }
    if (*at == '"') {
        return skip_string(at);
    }
    size_t digits = strspn(at, "-0123456789.");
    return digits > 0 ? at + digits : NULL;
}

static bool is_json_lines(const char *text, int lines)
{
    while (*text != 0) {
        const char *end = *text == '{' ? skip_value(text) : NULL;
        if (end == NULL || *end != '\n') {
            return false;
        }
        text = end + 1;
        lines--;
    }
    return lines == 0;
}

/* "key": value somewhere in the text. */
static bool has(const char *text, const char *key, const char *value)
{
    char pair[256];
    snprintf(pair, sizeof(pair), "\"%s\": %s", key, value);
    const char *found = strstr(text, pair);
    return found != NULL && strchr(",}", found[strlen(pair)]) != NULL;
}

#define EXPECT_HAS(text, key, value)                                                               \
    MEND_TEST_CHECK(has(text, key, value), (void)0, "no \"%s\": %s in\n%s", key, value, text)

/* ---- the program ------------------------------------------------------------------------------
 */

MEND_TEST(program, knows_its_commands)
{
    ended_run version = run("version");
    EXPECT_STATUS(0, version);
    EXPECT_STR_EQ("mend 0.1.0\n", version.out);
    ended_run help = run("help");
    EXPECT_STATUS(0, help);
    EXPECT_TRUE(strstr(help.out, "replay") != NULL);
    ended_run nothing = run("");
    EXPECT_STATUS(2, nothing);
    EXPECT_STR_EQ("", nothing.out);
    EXPECT_STATUS(2, run("fly"));
}

/* These words stand one after the other. */
static void expect_in_order(const char *text, const char *const *words, size_t count)
{
    const char *at = text;
    for (size_t i = 0; i < count; i++) {
        const char *found = strstr(at, words[i]);
        MEND_TEST_CHECK(found != NULL, return, "\"%s\" does not follow in:\n%s", words[i], text);
        at = found + strlen(words[i]);
    }
}

MEND_TEST(program, explains_in_tables)
{
    static const char *const words[] = {"mend ",
                                        "out at 25 %",
                                        "peak reserved @0",
                                        "failure @1",
                                        "live",
                                        "30.0   50.00 %",
                                        "asked for",
                                        "driver time by cause",
                                        "create, and map for the first time",
                                        "chunks up to",
                                        "reserve and free addresses",
                                        "caching ",
                                        "cannot tell where",
                                        "driver time by cause"};
    ended_run done = run_on("replay --explain --policy mend,caching --capacity 40MiB", small_trace);
    EXPECT_INT_EQ(1, done.status);
    expect_in_order(done.out, words, sizeof(words) / sizeof(*words));
    EXPECT_STR_EQ("", done.err);
    EXPECT_TRUE(strstr(run_on("replay --policy mend", small_trace).out, "by cause") == NULL);
}

MEND_TEST(program, explains_in_json)
{
    static const char *const words[] = {"\"explain\": {",        "\"memory\": {",
                                        "\"peak_reserved\": {",  "\"event\": 0",
                                        "\"small\": {",          "\"whole\": {\"idle\": ",
                                        "\"partial_by_size\": ", "\"large\": {",
                                        "\"emptiest\": ",        "\"peak_waste\": ",
                                        "\"failure\": {",        "\"size_bytes\": 31457280",
                                        "\"driver_time\": {",    "\"growing\": {\"us\": ",
                                        "\"by_chunk_size\": ",   "\"driver_time_second_half\": {"};
    ended_run done = run_on("replay --explain --json --capacity 40MiB", small_trace);
    EXPECT_INT_EQ(1, done.status);
    EXPECT_TRUE(is_json_lines(done.out, 1));
    expect_in_order(done.out, words, sizeof(words) / sizeof(*words));
    ended_run model = run_on("replay --explain --json --policy rmm-arena", small_trace);
    EXPECT_TRUE(is_json_lines(model.out, 1));
    EXPECT_TRUE(strstr(model.out, "\"memory\": null") != NULL);
    EXPECT_TRUE(strstr(run_on("replay --json", small_trace).out, "explain") == NULL);
}

MEND_TEST(program, explains_only_what_happens_again_the_same)
{
    ended_run threads = run_on("replay --explain --threads 2", small_trace);
    EXPECT_INT_EQ(2, threads.status);
    EXPECT_STR_EQ("", threads.out);
    EXPECT_TRUE(strstr(threads.err, "only with one thread: \"--explain\"") != NULL);
    ended_run cuda = run_on("replay --explain --device cuda", small_trace);
    EXPECT_INT_EQ(2, cuda.status);
    EXPECT_TRUE(strstr(cuda.err, "only with --device sim: \"--explain\"") != NULL);
}

MEND_TEST(program, replays_to_json_by_the_contract)
{
    ended_run done = run_on("replay --json --policy caching --capacity 64MiB", small_trace);
    EXPECT_STATUS(0, done);
    EXPECT_STR_EQ("", done.err);
    EXPECT_TRUE(is_json_lines(done.out, 1));
    static const char *const pairs[][2] = {
        {"policy", "\"caching\""},
        {"device", "\"sim\""},
        {"costs", "\"reference\""},
        {"capacity_bytes", "67108864"},
        {"completed", "true"},
        {"failed_at_event", "null"},
        {"events", "4"},
        {"peak_live_bytes", "62914560"},
        {"fit_factor", "null"},
        {"peak_reserved_bytes", "62914560"},
        {"host_syncs", "0"},
        {"fit_capacity_bytes", "null"},
        {"bytes_copied", "0"},
        {"creates_refused", "0"},
        {"driver_time_us", "138.000"},
        {"mappings_peak", "0"},
        {"driver_time_second_half_us", "0.000"},
        {"content_errors", "null"},
        {"malloc", "2"},
        {"set_access", "0"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        EXPECT_HAS(done.out, pairs[i][0], pairs[i][1]);
    }
    static const char *const objects[] = {"placed", "driver_calls", "driver_calls_second_half",
                                          "alloc_ns", "free_ns"};
    for (size_t i = 0; i < 5; i++) {
        char key[64];
        snprintf(key, sizeof(key), "\"%s\": {", objects[i]);
        EXPECT_TRUE(strstr(done.out, key) != NULL);
    }
    static const char *const latencies[] = {"mean", "p50", "p99", "p999", "max"};
    for (size_t i = 0; i < sizeof(latencies) / sizeof(*latencies); i++) {
        char key[64];
        snprintf(key, sizeof(key), "\"%s\": ", latencies[i]);
        EXPECT_TRUE(strstr(done.out, key) != NULL);
    }
}

MEND_TEST(program, out_of_memory_is_status_1)
{
    ended_run out = run_on("replay --json --policy caching,mend --capacity 40MiB", small_trace);
    EXPECT_STATUS(1, out);
    EXPECT_TRUE(is_json_lines(out.out, 2));
    EXPECT_HAS(out.out, "completed", "false");
    EXPECT_HAS(out.out, "failed_at_event", "1");
    EXPECT_HAS(out.out, "free_ns", "null");
}

MEND_TEST(program, rows_come_by_trace_policy_and_capacity)
{
    ended_run rows = run_on(
        "replay --json --policy caching,expandable --capacity unlimited,1.2x stress:staircase",
        small_trace);
    EXPECT_STATUS(0, rows);
    EXPECT_TRUE(is_json_lines(rows.out, 8));
    EXPECT_HAS(rows.out, "capacity_bytes", "null");
    EXPECT_TRUE(
        strncmp(rows.out, "{\"trace\": \"stress:staircase\", \"policy\": \"caching\"", 45) == 0);
}

MEND_TEST(program, a_search_for_the_fit_does_not_count_as_failure)
{
    ended_run fit = run_on("replay --json --policy caching,mend --capacity fit", small_trace);
    EXPECT_STATUS(0, fit);
    EXPECT_TRUE(is_json_lines(fit.out, 2));
    EXPECT_HAS(fit.out, "fit_factor", "1.000");
    EXPECT_HAS(fit.out, "fit_capacity_bytes", "62914560");
    EXPECT_HAS(fit.out, "capacity_bytes", "62914560");
}

MEND_TEST(program, bad_input_is_status_2_with_file_and_line)
{
    ended_run bad = run_on("replay --json", TRACE_HEAD "0,0,allocate,1,512,0\n0,0,free,2,512,0\n");
    EXPECT_STATUS(2, bad);
    EXPECT_STR_EQ("", bad.out);
    EXPECT_TRUE(strstr(bad.err, ".csv:3: free of 2") != NULL);
    /* Nothing runs when one of several inputs is bad. */
    ended_run one = run_on("replay --json stress:staircase", "nonsense\n");
    EXPECT_STATUS(2, one);
    EXPECT_STR_EQ("", one.out);
}

MEND_TEST(program, bad_usage_is_status_2)
{
    static const char *const bad[] = {"",
                                      "/no/such/file.csv",
                                      "stress:chess",
                                      "--policy magic stress:staircase",
                                      "--policy , stress:staircase",
                                      "--policy cuda-malloc stress:staircase",
                                      "--capacity 12XB stress:staircase",
                                      "--capacity 0 stress:staircase",
                                      "--device tpu stress:staircase",
                                      "--lag -1 stress:staircase",
                                      "--lag x stress:staircase",
                                      "--threads 0 stress:staircase",
                                      "--others 100 stress:staircase",
                                      "--others x stress:staircase",
                                      "--scale 0 stress:staircase",
                                      "--scale nan stress:staircase",
                                      "--content maybe stress:staircase",
                                      "--costs /no/such/file stress:staircase",
                                      "--unknown stress:staircase",
                                      "--seed"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char arguments[256];
        snprintf(arguments, sizeof(arguments), "replay %s", bad[i]);
        ended_run outcome = run(arguments);
        MEND_TEST_CHECK(outcome.status == 2 && outcome.out[0] == 0 && outcome.err[0] != 0, (void)0,
                        "mend %s: status %d, \"%s\", \"%s\"", arguments, outcome.status,
                        outcome.out, outcome.err);
    }
}

MEND_TEST(program, slips_are_named)
{
    static const struct {
        const char *arguments;
        const char *complaint;
    } slips[] = {
        {"--capacity 1.05 stress:staircase",
         "a size in bytes has no fraction; did you mean 1.05x? \"1.05\""},
        {"--capacity 1.5B stress:staircase", "a size in bytes has no fraction: \"1.5B\""},
        {"--capacity 1.05x, stress:staircase", "an empty item in \"1.05x,\""},
        {"--capacity ,1.05x stress:staircase", "an empty item in \",1.05x\""},
        {"--capacity 1.05x,1.050x stress:staircase", "twice: \"1.050x\""},
        {"--capacity 2MiB,2048KiB stress:staircase", "twice: \"2048KiB\""},
        {"--capacity fit,fit stress:staircase", "twice: \"fit\""},
        {"--policy mend,mend stress:staircase", "twice: \"mend\""},
        {"--policy mend,,caching stress:staircase", "an empty item in \"mend,,caching\""},
        {"'stress:checkerboard?lo=10MiB&hi=1MiB'", "lo is more than hi"},
        {"'stress:checkerboard?lo=31MiB'", "lo is more than hi"},
        {"'stress:checkerboard?lo=1MiB&lo=2MiB'", "lo is given twice"},
        {"'stress:checkerboard?live=1.5'", "a size in bytes has no fraction"},
        {"'stress:checkerboard?lo=1MiB&'", "not parameter=value: \"\""},
    };
    for (size_t i = 0; i < sizeof(slips) / sizeof(*slips); i++) {
        char arguments[256];
        snprintf(arguments, sizeof(arguments), "replay %s", slips[i].arguments);
        ended_run refused = run(arguments);
        MEND_TEST_CHECK(refused.status == 2 && strstr(refused.err, slips[i].complaint) != NULL,
                        (void)0, "mend %s: status %d, \"%s\"", arguments, refused.status,
                        refused.err);
    }
}

MEND_TEST(program, content_is_checked_when_asked)
{
    ended_run checked =
        run_on("replay --json --content check --policy mend,expandable", small_trace);
    EXPECT_STATUS(0, checked);
    EXPECT_HAS(checked.out, "content_errors", "0");
}

MEND_TEST(program, prices_come_from_a_file)
{
    fixture_file costs = fixture_write_text(".txt", "plain_alloc 2000 0 0\n");
    char arguments[512];
    snprintf(arguments, sizeof(arguments), "replay --json --policy caching --costs %s", costs.path);
    ended_run priced = run_on(arguments, small_trace);
    EXPECT_STATUS(0, priced);
    EXPECT_HAS(priced.out, "driver_time_us", "4.000");
    EXPECT_TRUE(strstr(priced.out, costs.path) != NULL);
    fixture_remove(&costs);
}

/* A run so short that its prices can be added up by hand. */
static void expect_costs(const char *option, const char *const *pairs, size_t count)
{
    char arguments[256];
    snprintf(arguments, sizeof(arguments), "replay --json --policy expandable %s", option);
    ended_run priced = run_on(arguments, TRACE_HEAD "0,0,allocate,1,31457280,0\n");
    EXPECT_STATUS(0, priced);
    for (size_t i = 0; i < count; i += 2) {
        EXPECT_HAS(priced.out, pairs[i], pairs[i + 1]);
    }
}

/* The device is asked for its memory (10 us), addresses are reserved (20), two pages of 20 MiB
 * created (70 each) and mapped (2 each), and opened by one call: for 18 us by `reference`, 64 by
 * `per-mapping`. */
MEND_TEST(program, driver_time_is_given_by_two_lists)
{
    static const char *const by_default[] = {"costs",
                                             "\"reference\"",
                                             "driver_time_us",
                                             "192.000",
                                             "compared_costs",
                                             "\"per-mapping\"",
                                             "compared_time_us",
                                             "238.000",
                                             "compared_time_second_half_us",
                                             "238.000"};
    static const char *const turned[] = {
        "costs",          "\"per-mapping\"", "driver_time_us",   "238.000",
        "compared_costs", "\"reference\"",   "compared_time_us", "192.000"};
    expect_costs("", by_default, sizeof(by_default) / sizeof(*by_default));
    expect_costs("--costs reference", by_default, sizeof(by_default) / sizeof(*by_default));
    expect_costs("--costs per-mapping", turned, sizeof(turned) / sizeof(*turned));
    ended_run table = run_on("replay", small_trace);
    EXPECT_TRUE(strstr(table.out, "price lists reference (with the second half) and per-mapping") !=
                NULL);
}

MEND_TEST(program, seed_and_scale_and_threads_are_heard)
{
    ended_run first = run("replay --json --seed 1 'stress:random-mix?allocations=50'");
    ended_run again = run("replay --json 'stress:random-mix?allocations=50&seed=1'");
    ended_run other = run("replay --json --seed 2 'stress:random-mix?allocations=50'");
    const char *peak = strstr(first.out, "\"peak_live_bytes\"");
    ASSERT_TRUE(peak != NULL && strstr(again.out, "\"peak_live_bytes\"") != NULL);
    size_t length = strcspn(peak, ",");
    EXPECT_TRUE(strncmp(peak, strstr(again.out, "\"peak_live_bytes\""), length) == 0);
    EXPECT_FALSE(strncmp(peak, strstr(other.out, "\"peak_live_bytes\""), length) == 0);
    ended_run scaled = run_on("replay --json --scale 10 --threads 2", small_trace);
    EXPECT_STATUS(0, scaled);
    EXPECT_HAS(scaled.out, "peak_live_bytes", "6291456");
}

MEND_TEST(program, tables_and_lists_are_for_people)
{
    ended_run table = run_on("replay --policy mend,caching", small_trace);
    EXPECT_STATUS(0, table);
    EXPECT_TRUE(strstr(table.out, "4 events, peak live 60.00 MiB") != NULL);
    EXPECT_TRUE(strstr(table.out, "completes") != NULL);
    ended_run list = run("replay --list");
    EXPECT_STATUS(0, list);
    EXPECT_TRUE(strstr(list.out, "stress:checkerboard\n") != NULL);
    ended_run help = run("replay --help");
    EXPECT_STATUS(0, help);
    EXPECT_TRUE(strstr(help.out, "usage: mend replay") == help.out);
}

MEND_TEST(program, a_timeline_goes_to_its_file)
{
    fixture_file file = fixture_write_text(".tsv", "");
    char arguments[1024];
    snprintf(arguments, sizeof(arguments), "replay --policy mend,caching --timeline %s", file.path);
    ended_run outcome = run_on(arguments, small_trace);
    EXPECT_U64_EQ(0, (uint64_t)outcome.status);
    char text[4096];
    read_all(file.path, text, sizeof(text));
    static const char head[] =
        "policy\tcapacity_bytes\tevent\tlive_bytes\treserved_bytes\ttrace\nmend\t\t0\t31457280\t";
    EXPECT_TRUE(strncmp(text, head, strlen(head)) == 0);
    EXPECT_TRUE(strstr(text, "\ncaching\t\t3\t0\t62914560\t") != NULL);
    fixture_remove(&file);
    outcome = run_on("replay --timeline /nowhere/at/all.tsv", small_trace);
    EXPECT_U64_EQ(2, (uint64_t)outcome.status);
    EXPECT_TRUE(strstr(outcome.err, "cannot write /nowhere/at/all.tsv") != NULL);
    outcome = run_on("replay --threads 2 --timeline /nowhere/at/all.tsv", small_trace);
    EXPECT_U64_EQ(2, (uint64_t)outcome.status);
    EXPECT_TRUE(strstr(outcome.err, "only with one thread") != NULL);
}
