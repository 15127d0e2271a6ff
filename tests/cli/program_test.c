/* The built program from outside: exit status, output of each stream, and JSON by contract. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "lab/peers/policies.h"
#include "tests/cli/fixture.h"
#include "tests/cli/program.h"
#include "tests/support/test.h"

/* So many lines of JSON and no more. */
static void expect_json(int status, int lines, const char *arguments, const char *parts)
{
    const ended_run done = expect_run(status, arguments, parts, "");
    for (const char *at = done.out; *at != 0; at = strchr(at, '\n') + 1, lines--) {
        const size_t length = strcspn(at, "\n");
        mend_value_store store;
        mend_value_store_init(&store, NULL);
        MEND_TEST_CHECK(*at == '{' && at[length] == '\n' &&
                            fixture_read_values(at, length, &store) == MEND_OK,
                        return, "no JSON: %s", at);
        mend_value_store_clear(&store);
    }
    EXPECT_INT_EQ(0, lines);
}

/* ---- the program ----------------------------------------------------------------------------- */

MEND_TEST(program, knows_its_commands)
{
    expect_run(0, "version", "libmend 0.1.0\n", "");
    expect_run(0, "help", "replay", "");
    expect_run(0, "-V", "libmend 0.1.0\n", "");
    expect_run(0, "--version", "libmend 0.1.0\n", "");
    expect_run(0, "help report", "usage: libmend report [options]", "");
    expect_run(0, "help help", "usage: libmend help [options] [COMMAND]", "");
    expect_run(2, "help nothing", "", "no command 'nothing'...usage: ");
    expect_run(2, "", "", NULL);
    expect_run(2, "fly", "", NULL);
    expect_run(0, "replay --list", "stress:checkerboard\n", "");
    expect_run(2, "version now", "", "no option 'now'; there are: --help");
    expect_run(2, "completion fish", "", "no shell 'fish'; there are: bash, zsh");
}

/* The text holds the name of an option after `before`, where its command is told: between `start`
 * and `end`. `dash` is how the text writes one. */
static void expect_option(const char *text, const char *start, const char *end, const char *before,
                          const char *dash, const mend_option *option)
{
    char written[128];
    snprintf(written, sizeof(written), "%s%s%s", before, dash, option->name[1] == 0 ? "" : dash);
    for (const char *at = option->name; *at != 0; at++) {
        const char letter[] = {*at, 0};
        strcat(written, *at == '-' ? dash : letter);
    }
    const char *section = strstr(text, start);
    MEND_TEST_CHECK(section != NULL, return, "no %s", start);
    const char *found = strstr(section, written);
    const char *next = strstr(section + 1, end);
    MEND_TEST_CHECK(found != NULL && next != NULL && found < next, return, "no %s in %s", written,
                    start);
}

MEND_TEST(program, help_manual_and_completions_name_every_option)
{
    const ended_run manual = expect_run(0, "manual", ".TH MEND 1 ", "");
    const ended_run zsh = expect_run(0, "completion zsh", "#compdef libmend mend\n", "");
    for (size_t i = 0; mend_commands[i] != NULL; i++) {
        const mend_command *command = mend_commands[i];
        const ended_run help =
            expect_run(0, command_line("%s --help", command->name), "usage: libmend ", "");
        /* bash itself completes. */
        const ended_run bash = expect_run(
            0,
            command_line(
                "completion bash | bash -c 'source /dev/stdin; COMP_LINE=\"libmend %s -\"; "
                "COMP_POINT=${#COMP_LINE}; _mend; echo \" ${COMPREPLY[*]} \"'",
                command->name),
            NULL, "");
        char section[64];
        char branch[64];
        snprintf(section, sizeof(section), ".SS \"libmend %s ", command->name);
        snprintf(branch, sizeof(branch), "\n    %s)\n", command->name);
        for (const mend_option *option = command->options; option->name != NULL; option++) {
            expect_option(help.out, "usage", "\nExit status", "\n  ", "-", option);
            expect_option(manual.out, section, "\nExit status", "\n.B ", "\\-", option);
            expect_option(zsh.out, branch, " ;;\n", "            '", "-", option);
            expect_option(bash.out, " ", "\n", " ", "-", option);
        }
    }
}

MEND_TEST(program, completions_and_help_name_every_policy)
{
    const ended_run help = expect_run(0, "replay --help", NULL, "");
    const ended_run bash = expect_run(
        0,
        "completion bash | bash -c 'source /dev/stdin; COMP_LINE=\"libmend replay --allocator \"; "
        "COMP_POINT=${#COMP_LINE}; _mend; echo \" ${COMPREPLY[*]} \"; COMP_LINE+=mend:co; "
        "COMP_POINT=${#COMP_LINE}; _mend; echo \"${COMPREPLY[*]}\"'",
        "\ncompact\n", "");
    for (const mend_peer_policy *policy = mend_peer_policies; policy->name != NULL; policy++) {
        EXPECT_TRUE(strstr(help.out, policy->name) != NULL);
        char word[64];
        snprintf(word, sizeof(word), " %s ", policy->name);
        EXPECT_TRUE(strstr(bash.out, word) != NULL);
    }
}

MEND_TEST(program, explains_in_tables)
{
    expect_run(1, "replay --explain --allocator mend,caching --capacity 40MiB %",
               "mend ...out at 25 %...peak reserved @0...failure @1...live...30.0   50.00 %..."
               "asked for...driver time by cause...create, and map for the first time..."
               "chunks up to...reserve and free addresses...caching ...cannot tell where..."
               "driver time by cause",
               "");
    ended_run without = expect_run(0, "replay --allocator mend %", NULL, "");
    EXPECT_TRUE(strstr(without.out, "by cause") == NULL);
}

MEND_TEST(program, explains_in_json)
{
    expect_json(1, 1, "replay --explain --json --capacity 40MiB %",
                "'explain': {...'memory': {...'peak_reserved': {...'event': 0...'small': {..."
                "'whole': {'idle': ...'partial_by_size': ...'large': {...'emptiest': ..."
                "'peak_waste': ...'failure': {...'size_bytes': 31457280...'driver_time': {..."
                "'growing': {'us': ...'by_chunk_size': ...'driver_time_second_half': {");
    expect_json(0, 1, "replay --explain --json --allocator rmm-arena %", "'memory': null");
    ended_run without = expect_run(0, "replay --json %", NULL, "");
    EXPECT_TRUE(strstr(without.out, "explain") == NULL);
}

MEND_TEST(program, replays_to_json_by_the_contract)
{
    expect_json(0, 1, "replay --json --allocator caching --capacity 64MiB %",
                "'policy': 'caching',...'device': 'sim',...'costs': 'h200',..."
                "'capacity_bytes': 67108864,...'completed': true,...'failed_at_event': null,..."
                "'events': 4,...'peak_live_bytes': 62914560,...'peak_reserved_bytes': 62914560,..."
                "'fit_capacity_bytes': null,...'fit_factor': null,...'host_syncs': 0,..."
                "'bytes_copied': 0,...'creates_refused': 0,...'placed': {..."
                "'driver_time_us': 125.816,...'driver_time_second_half_us': 0.000,..."
                "'driver_calls': {...'set_access': 0,...'malloc': 2,..."
                "'driver_calls_second_half': {...'felt': {'longest_us': ...'p999_us': ..."
                "'above_5_ms': 0,...'gpu_bound_percent': ...'host_bound_percent': ...}..."
                "'alloc_ns': {...'mean': ...'p50': ...'p99': ..."
                "'p999': ...'max': ...'free_ns': {...'mappings_peak': 0,...'content_errors': null");
}

MEND_TEST(program, rows_come_by_trace_policy_and_capacity)
{
    expect_json(0, 8,
                "replay --json --allocator caching,expandable --capacity unlimited,1.2x "
                "stress:staircase %",
                "{'trace': 'stress:staircase', 'policy': 'caching'...'capacity_bytes': null,...\n"
                "{'trace': 'stress:staircase', 'policy': 'caching'...\n"
                "{'trace': 'stress:staircase', 'policy': 'expandable'...\n"
                "{'trace': 'stress:staircase', 'policy': 'expandable'...\n{'trace': '");
}

MEND_TEST(program, a_search_for_the_fit_does_not_count_as_failure)
{
    expect_json(0, 2, "replay --json --allocator caching,mend --capacity fit %",
                "'capacity_bytes': 62914560,...'fit_capacity_bytes': 62914560,..."
                "'fit_factor': 1.000,");
}

/* A user's file is of a failure: it does not complete where it failed. */
MEND_TEST(program, a_recording_that_ended_by_a_failure_completes_where_the_request_is_served)
{
    static const char rows[] = TRACE_HEAD "0,0,allocate,1,2147483648,0\n"
                                          "0,0,allocate,2,943718400,0\n"
                                          "0,0,allocate failure,(nil),131072000,0\n"
                                          "0,0,free,1,2147483648,0\n";
    expect_run_on(rows, 1, "replay --allocator caching,expandable,mend --capacity 3GiB,3200MiB %",
                  "5 events, peak live 3.00 GiB\nThe recording ended when a request of 125.00 "
                  "MiB failed. An allocator completes it only if it serves this request.\n..."
                  "caching ...out at 40 %...caching ...completes...expandable ...out at 40 %..."
                  "completes...mend ...out at 40 %...completes",
                  "");
    expect_run_on(rows, 1, "replay --json --allocator caching --capacity 3GiB %",
                  "'completed': false,...'failed_at_event': 2,...'failed_in_recording': 1,..."
                  "'recording_failed_last': true,...'failed_again': 0,...'events': 5,",
                  "");
    expect_run_on(rows, 0, "replay --json --allocator caching --capacity fit %",
                  "'completed': true,...'peak_live_bytes': 3222274048,", "");
}

/* The program had a way without it. */
MEND_TEST(program, a_failure_after_which_the_recording_went_on_is_told_and_ends_nothing)
{
    static const char rows[] = TRACE_HEAD "0,0,allocate,1,41943040,0\n"
                                          "0,0,allocate failure,(nil),41943040,0\n"
                                          "0,0,allocate,2,10485760,0\n";
    for (size_t i = 0; i < 2; i++) {
        static const char *const ways[] = {"", "--short-threads 1"};
        expect_run_on(rows, 1,
                      command_line("replay --allocator caching,mend %s --content check "
                                   "--capacity 64MiB,96MiB %%",
                                   ways[i]),
                      "4 events, peak live 50.00 MiB\nIn the recording 1 request failed, and the "
                      "program went on. An allocator that cannot serve it goes on, too.\n..."
                      "caching ...1 fails again...completes...mend ...1 fails again...completes",
                      "");
    }
    expect_run_on(rows, 1, "replay --json --allocator caching --capacity 64MiB %",
                  "'completed': true,...'failed_at_event': null,...'failed_in_recording': 1,..."
                  "'recording_failed_last': false,...'failed_again': 1,",
                  "");
    expect_run_on(rows, 1, "replay --json --allocator caching --capacity fit %",
                  "'failed_again': 1,...'fit_factor': 1.0", "");
}

MEND_TEST(program, bad_input_is_status_2_with_file_and_line)
{
    expect_run_on(TRACE_HEAD "0,0,allocate,1,512,0\n0,0,free,2,512,0\n", 2, "replay --json %", "",
                  ".csv:3: free of 2");
    /* Nothing runs when one of several inputs is bad. */
    expect_run_on("nonsense\n", 2, "replay --json stress:staircase %", "", ".csv");
}

MEND_TEST(program, slips_are_named)
{
    static const char *const slips[][2] = {
        {"", "usage: libmend replay"},
        {"/no/such/file.csv", "/no/such/file.csv"},
        {"stress:chess", "chess"},
        {"--allocator magic %", "no such allocator: 'magic'; there are mend mend:compact "},
        {"--allocator , %", "an empty item"},
        {"--allocator cuda-malloc %", "cuda-malloc"},
        {"--capacity 12XB %", "(10GiB, 1.05x, unlimited, fit): '12XB'"},
        {"--capacity 10 %", "less than a page of 2 MiB; did you forget the unit? '10'"},
        {"--capacity 0 %", "\"0\""},
        {"--device tpu %", "--device: no 'tpu'; there are: sim, cuda"},
        {"--free-latency -1 %", "-1"},
        {"--free-latency x %", "\"x\""},
        {"--threads 0 %", "\"0\""},
        {"--short-threads 0 %", "\"0\""},
        {"--short-threads 5 --threads 2 %", "only with one thread at a time: '--short-threads'"},
        {"--device cuda --no-context-events %", "only with --device sim: '--no-context-events'"},
        {"--reserved-by-others 100 %", "100"},
        {"--reserved-by-others x %", "\"x\""},
        {"--scale 0 %", "(a number above 0, fit): '0'"},
        {"--scale nan %", "nan"},
        {"--content maybe %", "there are: none, check, sample"},
        {"--costs /no/such/file %", "/no/such/file"},
        {"--unknown %", "no option '--unknown'; there are: --device --allocator "},
        {"--json=1 %", "no value belongs to '--json=1'"},
        {"--seed", "a value is missing after '--seed'"},
        {"--explain --threads 2 %", "only with one thread: '--explain'"},
        {"--explain --device cuda %", "only with --device sim: '--explain'"},
        {"--capacity 1.05 %", "a size in bytes has no fraction; did you mean 1.05x? '1.05'"},
        {"--capacity 1.5B %", "a size in bytes has no fraction: '1.5B'"},
        {"--capacity 1.05x, %", "an empty item in '1.05x,'"},
        {"--capacity ,1.05x %", "an empty item in ',1.05x'"},
        {"--capacity 1.05x,1.050x %", "twice: '1.050x'"},
        {"--capacity 2MiB,2048KiB %", "twice: '2048KiB'"},
        {"--capacity fit,fit %", "twice: 'fit'"},
        {"--allocator mend,mend %", "twice: 'mend'"},
        {"--allocator mend,,caching %", "an empty item in 'mend,,caching'"},
        {"'stress:checkerboard?lo=10MiB&hi=1MiB'", "lo is more than hi"},
        {"'stress:checkerboard?lo=31MiB'", "lo is more than hi"},
        {"'stress:checkerboard?lo=1MiB&lo=2MiB'", "lo is given twice"},
        {"'stress:checkerboard?live=1.5'", "a size in bytes has no fraction"},
        {"'stress:checkerboard?lo=1MiB&'", "not parameter=value: ''"},
        {"--timeline /nowhere/at/all.tsv %", "cannot write /nowhere/at/all.tsv"},
        {"--threads 2 --timeline /nowhere/at/all.tsv %", "only with one thread"},
    };
    for (size_t i = 0; i < sizeof(slips) / sizeof(*slips); i++) {
        expect_run(2, command_line("replay %s", slips[i][0]), "", slips[i][1]);
    }
}

MEND_TEST(program, content_is_checked_when_asked)
{
    expect_json(0, 2, "replay --json --content check --allocator mend,expandable %",
                "'content_errors': 0}...'content_errors': 0}");
}

/* A run so short that its prices can be added up by hand: the device is asked for its memory (10 us
 * by `reference`, 5.4 by `h200`), addresses are reserved (20, 1.9), two pages of 20 MiB created (70
 * each, 8.9) and mapped (2 each, 0.7), and opened by one call (18, 44.9). */
static void expect_costs(const char *option, const char *parts)
{
    expect_run_on(TRACE_HEAD "0,0,allocate,1,31457280,0\n", 0,
                  command_line("replay --json --allocator %s %%", option), parts, "");
}

MEND_TEST(program, driver_time_is_given_by_every_list)
{
    static const char by_default[] =
        "'costs': 'h200',...'compared_costs': 'reference',...'driver_time_us': 71.461,..."
        "'compared_time_us': 192.000,...'compared_time_second_half_us': 192.000,..."
        "'kvcached-a100': 489.900";
    expect_costs("expandable", by_default);
    expect_costs("expandable --costs h200", by_default);
    expect_costs("expandable --costs reference",
                 "'costs': 'reference',...'compared_costs': 'h200',..."
                 "'driver_time_us': 192.000,...'compared_time_us': 71.461,");
    expect_costs("expandable --costs kvcached-a100",
                 "'driver_time_us': 489.900,...'reference': 192.000");
    expect_run(0, "replay %", "cost tables h200 (with the second half) and reference", "");
    ENDING_FILE fixture_file costs = fixture_write_text(".txt", "plain_alloc 2000 0 0\n");
    char option[300];
    char parts[400];
    snprintf(option, sizeof(option), "caching --costs %s", costs.path);
    snprintf(parts, sizeof(parts), "'costs': '%s',...'driver_time_us': 2.000,", costs.path);
    expect_costs(option, parts);
}

MEND_TEST(program, seed_and_scale_and_threads_are_heard)
{
    static const char *const runs[] = {"replay --json --seed 1 'stress:random-mix?allocations=50'",
                                       "replay --json 'stress:random-mix?allocations=50&seed=1'",
                                       "replay --json --seed 2 'stress:random-mix?allocations=50'"};
    char peaks[3][64];
    for (int i = 0; i < 3; i++) {
        ended_run done = expect_run(0, runs[i], "'peak_live_bytes': ", "");
        const char *peak = strstr(done.out, "\"peak_live_bytes\"");
        ASSERT_TRUE(peak != NULL);
        snprintf(peaks[i], sizeof(peaks[i]), "%.*s", (int)strcspn(peak, ","), peak);
    }
    EXPECT_STR_EQ(peaks[0], peaks[1]);
    EXPECT_TRUE(strcmp(peaks[0], peaks[2]) != 0);
    expect_run(0, "replay --json --scale 10 --threads 2 %", "'peak_live_bytes': 6291456,", "");
}
