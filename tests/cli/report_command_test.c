/* `libmend report` from outside: its words, its limits, its exit status, and files that are none.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/report/advice.h"
#include "lab/report/report.h"
#include "lab/report/text.h"
#include "lab/report/words.h"
#include "tests/cli/program.h"
#include "tests/cli/report_program.h"
#include "tests/support/test.h"

/* Runs `libmend report ARGUMENTS FILE`: see expect_run. */
static ended_run expect_report(int status, const char *arguments, const fixture_file *file,
                               const char *out, const char *err)
{
    char whole[1024];
    snprintf(whole, sizeof(whole), "report %s '%s'", arguments, file->path);
    return expect_run(status, whole, out, err);
}

/* At most 30 lines of 110 characters, and none that a terminal would obey. */
static void expect_page(const char *what, const char *text)
{
    size_t lines = 0;
    size_t columns = 0;
    for (; *text != 0; text++) {
        unsigned char byte = (unsigned char)*text;
        MEND_TEST_CHECK(byte >= 0x20 || byte == '\n', return, "%s: byte %u", what, byte);
        columns = byte == '\n' ? 0 : columns + ((byte & 0xc0) != 0x80);
        lines += byte == '\n';
        MEND_TEST_CHECK(columns <= MEND_WORDS_WIDTH, return, "%s: line %zu is too long", what,
                        lines + 1);
    }
    MEND_TEST_CHECK(lines > 0 && lines <= MEND_TEXT_LINES, return, "%s: %zu lines", what, lines);
}

/* PyTorch 2.8 wrote them, over a simulated device of 220 MiB: the whole run, and its last 150
 * events. */
MEND_TEST(report_command, reads_what_pytorch_writes)
{
    expect_run(1, "report " MEND_CORPUS_DIR "/report/torch-2.8-leak.gz",
               "486 events, 252 blocks, device 220 MiB...Out of memory by fragmentation: 20.0 MiB "
               "asked for, 50.2 MiB free, the longest piece 10.4...peak 192 MiB..."
               "Stop the growth of B 'small.py:11 step from line 13': -54.7 MiB..."
               "+46.9 MiB LEAK?...small.py:9 step from line 13 > forward (linear.py:125)..."
               "23.3 MiB free beside blocks of B...in 220 MiB: completes...PyTorch caching..."
               "in 220 MiB: fails at 98 %",
               NULL);
    expect_run(1, "report --no-what-if " MEND_CORPUS_DIR "/report/torch-2.8-last-events.gz",
               "118 events...20.0 MiB asked for, 49.2 MiB free...held  220 MiB..."
               "from before the recording",
               NULL);
}

/* The example of docs/report.md is the program's output. */
MEND_TEST(report_command, the_document_shows_what_it_prints)
{
    static char document[1 << 16];
    read_all(MEND_CORPUS_DIR "/../../../docs/report.md", document, sizeof(document));
    ended_run outcome = run("report " MEND_CORPUS_DIR "/report/torch-2.8-leak.gz");
    MEND_TEST_CHECK(strstr(document, outcome.out) != NULL, (void)0, "docs/report.md lacks:\n%s",
                    outcome.out);
}

static const char *const programs[] = {"steady", "leaks and fails", "short", "accumulates",
                                       "grows"};
enum { PROGRAMS = sizeof(programs) / sizeof(*programs) };

MEND_TEST(report_command, every_report_is_a_page)
{
    for (size_t i = 0; i < 2 * PROGRAMS; i++) {
        ENDING_FILE fixture_file file = program_named(programs[i / 2], i % 2 == 1);
        char whole[1024];
        snprintf(whole, sizeof(whole), "report %s '%s'", i < 4 ? "--what-if --capacity 300MiB" : "",
                 file.path);
        const ended_run outcome = run(whole);
        EXPECT_TRUE(outcome.status == 0 || outcome.status == 1);
        expect_page(programs[i / 2], outcome.out);
    }
}

/* Its words are there before any script. No text ends an element. In a browser: tests/page. */
MEND_TEST(report_command, a_page_says_it_in_words_first)
{
    ENDING_FILE fixture_file file = program_named("leaks and fails", false);
    ENDING_FILE fixture_file page = fixture_write_text(".html", "before");
    const ended_run outcome =
        expect_report(1, command_line("--no-what-if -o '%s'", page.path), &file, NULL, "");
    expect_page("beside a page", outcome.out);
    static char text[1 << 18];
    read_all(page.path, text, sizeof(text));
    expect_parts(text,
                 "<h1>Out of memory, by fragmentation or by other users: 64.0 MiB asked for..."
                 "<b>405 MiB</b><i>at event...Stop the growth of A &quot;train.py:20 &gt; call "
                 "(m.py:7)&quot;...<script type='application/json' id='model'>{'rows': 542, "
                 "'blocks': 301...'name': 'train.py:5 > call (m.py:7)'...'trend': 'leaks'..."
                 "id='data'>{'kind': 'eJ...use strict...</html>");
    EXPECT_TRUE(strstr(text, "http") == NULL && strstr(text, "{{") == NULL);
    /* A failed report leaves the file as it was. */
    expect_report(2, command_line("--no-what-if -o '%s'", file.path), &file, NULL, NULL);
    expect_report(2, command_line("-o '%s' --against /nowhere", page.path), &file, NULL, NULL);
    ENDING_FILE fixture_file empty = fixture_write_text(".csv", "");
    expect_report(2, command_line("-o '%s'", page.path), &empty, NULL, NULL);
    static char again[sizeof(text)];
    read_all(page.path, again, sizeof(again));
    EXPECT_STR_EQ(text, again);
    expect_report(1, "--no-what-if", &file, NULL, NULL);
}

MEND_TEST(report_command, against_says_what_changed)
{
    ENDING_FILE fixture_file before = program_named("steady", false);
    ENDING_FILE fixture_file after = program_named("leaks", false);
    const ended_run outcome =
        expect_report(1, command_line("--against '%s'", before.path), &after,
                      "What changed...most in use...228 MiB...405 MiB...+177 MiB...At the peak..."
                      "train.py:20 >...0 B...+177 MiB",
                      NULL);
    expect_page("against", outcome.out);
    expect_report(0, command_line("--against '%s'", after.path), &before, "-177 MiB", NULL);
    expect_report(0, command_line("--against '%s'", before.path), &before,
                  "no owner holds more or less", NULL);
}

MEND_TEST(report_command, json_is_one_object_with_all_of_it)
{
    ENDING_FILE fixture_file file = program_named("leaks and fails", false);
    const ended_run outcome = expect_report(
        1, "--json", &file,
        "{'file': ...'verdict': 'Out of memory...'suspects': 1..."
        "'failure': {'event': 541, 'size_bytes': 67108864...'memory': null..."
        "'advice': [{'saved_bytes': ...'owners': [{...'trend': 'leaks'..."
        "'peak_without_bytes'...'others': [{'policy': 'mend', 'simulated': true...}\n",
        NULL);
    EXPECT_TRUE(strchr(outcome.out, '\n') == strrchr(outcome.out, '\n'));
    const ended_run again = expect_report(1, command_line("--json --against '%s'", file.path),
                                          &file, "'against': {", NULL);
    mend_value_store store;
    mend_value_store_init(&store, NULL);
    ASSERT_RESULT(MEND_OK, fixture_read_values(again.out, strcspn(again.out, "\n"), &store));
    EXPECT_U64_EQ(1, mend_value_of(mend_value_of(store.stack[0], "against"), "suspects").number);
    mend_value_store_clear(&store);
}

MEND_TEST(report_command, wrong_usage_and_files_have_status_2_and_a_reason)
{
    ENDING_FILE fixture_file file = program_named("steady", true);
    ENDING_FILE fixture_file empty = fixture_write_text(".csv", "");
    ENDING_FILE fixture_file none =
        fixture_write_text(".json", "{\"device_traces\": [[]], \"segments\": []}");
    char missing[512];
    snprintf(missing, sizeof(missing), "--against '%s'", empty.path);
    const struct {
        const char *options;
        const fixture_file *file;
        const char *reason;
    } cases[] = {
        {"--json=1", &file, "see libmend report --help"},
        {"--magic", &file, "see libmend report --help"},
        {"--capacity 0", &file, "not a size (bytes, or a number with KiB, MiB, GiB or TiB) \"0\""},
        {"--capacity 10", &file, "less than a page of 2 MiB; did you forget the unit? \"10\""},
        {"--what-if --no-what-if", &file, "only one of --what-if and --no-what-if"},
        {"--what-if --against x", &file, "only one of --what-if and --against"},
        {"x", &file, "more than one file"},
        {"--against /nowhere/at/all", &file, "/nowhere/at/all"},
        {missing, &file, "the file is empty"},
        {"", &empty, "the file is empty"},
        {"", &none, "the snapshot has no allocations"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        expect_report(2, cases[i].options, cases[i].file, "", cases[i].reason);
    }
    expect_run(2, "report", "", "libmend report: no file; see libmend report --help");
    expect_run(0, "report --help", "usage: libmend report...--against...Exit status", "");
}

/* One event. A block of no bytes. A log that ends within a row. Only blocks from before. */
MEND_TEST(report_command, the_smallest_files_have_a_report)
{
    static const struct {
        const char *ending;
        const char *text;
        const char *words;
    } cases[] = {
        {".csv", TRACE_HEAD "0,0,allocate,1,512,0\n", "at most 512 B in use"},
        {".csv", TRACE_HEAD "0,0,allocate,1,0,0\n", "at most 0 B in use"},
        {".csv", TRACE_HEAD "0,0,allocate,1,512,0\n0,0,free,1,51", "at most 512 B in use"},
        {".csv", TRACE_HEAD "0,0,allocate failure,0,4096,0\n0,0,allocate,1,512,0\n",
         "Out of memory: 4.00 KiB asked for with 0 B in use"},
        {".json",
         "{\"device_traces\": [], \"segments\": [{\"address\": 4096, \"total_size\": 2048, "
         "\"blocks\": [{\"size\": 1024, \"state\": \"active_allocated\"}]}]}",
         "has no history"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ENDING_FILE fixture_file file = fixture_write_text(cases[i].ending, cases[i].text);
        const bool has_failed = strstr(cases[i].text, "failure") != NULL;
        const ended_run outcome = expect_report(has_failed, "", &file, cases[i].words, NULL);
        expect_page(cases[i].words, outcome.out);
    }
}

MEND_TEST(report_command, names_of_files_do_nothing_to_the_terminal)
{
    static const char text[] =
        "{\"device_traces\": [[{\"action\": \"alloc\", \"addr\": 512, \"size\": 512, \"stream\": "
        "0, "
        "\"frames\": [{\"filename\": \"/\\u001b[2J\\u009b\xff\xc2\x9b.py\", \"line\": 1, \"name\": "
        "\"%s%n a name that is long beyond all that anybody would ever call a function in "
        "Python\"}]"
        "}]]}";
    ENDING_FILE fixture_file file = fixture_write(".json", text, sizeof(text) - 1);
    const ended_run outcome = expect_report(0, "", &file, NULL, NULL);
    expect_page("names", outcome.out);
    EXPECT_TRUE(strstr(outcome.out, "\x9b") == NULL && strstr(outcome.out, "?[2J") != NULL);
}

/* Any change of some bytes, and any cut, is refused, or the rest has a report. Sanitizers watch. */
static void damage(const char *name, const char *good, size_t size, int rounds)
{
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    for (int round = 0; round < rounds; round++) {
        static char damaged[1 << 17];
        memcpy(damaged, good, size);
        for (uint64_t n = 1 + mend_test_random_below(&random, 4 + size / 4096); n > 0; n--) {
            const uint64_t at = mend_test_random_below(&random, size);
            damaged[at] = round % 4 == 0 ? (char)mend_test_random_below(&random, 256)
                                         : good[mend_test_random_below(&random, size)];
        }
        const size_t cut = round % 3 == 0 ? (size_t)mend_test_random_below(&random, size) : size;
        ENDING_FILE fixture_file file = fixture_write("", damaged, cut);
        ENDING_REPORT mend_report *report = NULL;
        const mend_result result = mend_report_create(file.path, 0, &report);
        EXPECT_TRUE((result == MEND_OK) == (report != NULL));
        if (report != NULL) {
            char *text = NULL;
            size_t length = 0;
            FILE *out = open_memstream(&text, &length);
            mend_report_print(out, report);
            fclose(out);
            expect_page(name, text);
            free(text);
        }
    }
}

MEND_TEST(report_command, survives_damage_of_any_kind)
{
    static const char *const paths[] = {
        MEND_CORPUS_DIR "/trace/plain", MEND_CORPUS_DIR "/report/failure-rows",
        MEND_CORPUS_DIR "/report/snapshot-json", MEND_CORPUS_DIR "/values/pickle-2",
        MEND_CORPUS_DIR "/values/pickle-4"};
    static char good[1 << 17];
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        damage(paths[i], good, read_all(paths[i], good, sizeof(good)), 200);
    }
    ENDING_FILE fixture_file file = program_named("leaks and fails", false);
    damage("leaks and fails", good, read_all(file.path, good, sizeof(good)), 60);
}

MEND_TEST(report_words, are_short_and_cut_at_characters)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0 B"},
                 {999, "999 B"},
                 {1000, "0.98 KiB"},
                 {1536, "1.50 KiB"},
                 {UINT64_C(256901120), "245 MiB"},
                 {UINT64_C(10) << 30, "10.0 GiB"},
                 {UINT64_MAX, "16777216 TiB"}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        EXPECT_STR_EQ(sizes[i].text, mend_word_size(sizes[i].bytes).text);
    }
    EXPECT_STR_EQ("-1.00 KiB", mend_word_change(2048, 1024).text);
    EXPECT_STR_EQ("0 B", mend_word_change(7, 7).text);
    EXPECT_STR_EQ("1,234,567", mend_word_count(1234567).text);
    EXPECT_STR_EQ("0 %", mend_word_percent(7, 0).text);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    mend_words_cut(out, "\xc3\xa9t\xc3\xa9 \x01", 5, 1);
    mend_words_cut(out, "\xc3\xa9t\xc3\xa9s", 3, 1);
    mend_words_cut(out, "ab", 4, 1);
    EXPECT_U64_EQ(2, mend_words_wrap(out, "one two", 106, 9));
    EXPECT_U64_EQ(1, mend_words_wrap(out, "one two", 106, 1));
    fclose(out);
    char expected[512];
    snprintf(expected, sizeof(expected),
             "\xc3\xa9t\xc3\xa9 ?\xc3\xa9~sab  %106sone\n%106stwo\n%106sone~\n", "", "", "");
    EXPECT_STR_EQ(expected, text);
    free(text);
}

/* Growth above the free memory is named before fragmentation, and next to no free memory is none.
 * An allocator is not advised first where all grows. */
MEND_TEST(report_command, the_larger_cause_is_named_first)
{
    static const struct {
        uint64_t free, leaked, whole;
        const char *said;
    } cases[] = {
        {100, 0, 0,
         "Out of memory by fragmentation: 8.00 MiB asked for, 100 MiB free, the longest "
         "piece 4.00 MiB."},
        {100, 50, 0,
         "by fragmentation: 8.00 MiB asked for, 100 MiB free, the longest piece 4.00 "
         "MiB; 50.0 MiB may have leaked."},
        {100, 200, 0,
         "Out of memory by a possible leak of 200 MiB: 8.00 MiB asked for, 100 MiB "
         "free, the longest piece 4.00 MiB."},
        {100, 0, 300, "Out of memory by growth of 300 MiB that no line explains: 8.00 MiB asked"},
        {10, 0, 0, "Out of memory: 8.00 MiB asked for, 10.0 MiB free, the longest piece 4.00 MiB."},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        mend_trace trace = {0};
        mend_report_owner owner = {
            .name = "train.py:14 forward from line 30 > forward (activation.py:738)",
            .letter = 'A',
            .peak_bytes = 500 * MIB,
            .without_bytes = 700 * MIB,
            .trend = cases[i].leaked > 0 ? MEND_TREND_LEAKS : MEND_TREND_STEADY,
            .growth_bytes = cases[i].leaked * MIB};
        mend_report report = {.trace = &trace,
                              .detail = {.is_snapshot = true, .owner_count = 1},
                              .owners = &owner,
                              .owner_count = 1,
                              .peak_bytes = 1000 * MIB,
                              .knows_held = true,
                              .has_failed = true,
                              .failure = {.size_bytes = 8 * MIB},
                              .memory = {.held_bytes = 1000 * MIB,
                                         .beside_bytes = cases[i].free * MIB,
                                         .longest_bytes = 4 * MIB},
                              .grows_as_whole = cases[i].whole > 0,
                              .whole_growth_bytes = cases[i].whole * MIB,
                              .others = {{.policy = "caching", .needs_bytes = 1100 * MIB},
                                         {.policy = "mend", .needs_bytes = 900 * MIB}},
                              .other_count = 2};
        report.others[0].is_known = report.others[1].is_known = true;
        char verdict[MEND_VERDICT_BYTES];
        mend_report_judge(&report, verdict, sizeof(verdict));
        MEND_TEST_CHECK(strstr(verdict, cases[i].said) != NULL, (void)0, "%s", verdict);
        mend_advice advice[MEND_ADVICE_MOST];
        const char *first = cases[i].leaked > 0 ? "Stop the growth of A \"train.py:14 forward from "
                                                  "li~orward (activation.py:738)\""
                            : cases[i].whole > 0 ? "Find what stays from round to round"
                                                 : "Use Mend (libmend.torch.enable() in PyTorch)";
        ASSERT_TRUE(mend_report_advise(&report, advice) > 0);
        EXPECT_STR_EQ(first, advice[0].what);
    }
}
