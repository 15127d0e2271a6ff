/* Output of the program is written, or its status says so, and it spoils no file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cli/fixture.h"
#include "tests/cli/program.h"
#include "tests/support/test.h"

static const char short_trace[] = TRACE_HEAD "0,0,allocate,1,31457280,0\n";

/* Each prints something on standard output. */
static const char *const printing[] = {"version",
                                       "help",
                                       "info --device sim",
                                       "info --device sim --prices --seconds 1",
                                       "info --help",
                                       "replay --help",
                                       "replay --list",
                                       "replay stress:staircase",
                                       "replay --json stress:staircase",
                                       "replay --explain stress:staircase",
                                       "demo --help"};
enum { PRINTING = sizeof(printing) / sizeof(*printing) };

MEND_TEST(output, a_full_device_and_a_closed_standard_output_are_reported)
{
    for (size_t i = 0; i < PRINTING * 2; i++) {
        expect_run(2, command_line("%s %s", printing[i / 2], i % 2 == 0 ? ">/dev/full" : ">&-"),
                   NULL, "standard output");
    }
}

/* A file that holds only a part of the output. In a build for coverage there is none for counts
 * either, which would be cut where other programs read them. */
MEND_TEST(output, a_cut_result_is_no_success)
{
    ENDING_FILE fixture_file file = fixture_write_text(".json", "");
    expect_run(
        2,
        command_line(
            "--version >/dev/null; trap '' XFSZ; ulimit -f 1; GCOV_PREFIX=/dev/null '%s' replay "
            "--json --allocator mend,caching,rmm-arena stress:staircase stress:many-streams >%s",
            MEND_PROGRAM, file.path),
        NULL, "standard output");
}

MEND_TEST(output, nothing_printed_is_nothing_lost)
{
    ended_run nothing = run("fly >&-");
    EXPECT_STATUS(2, nothing);
    EXPECT_TRUE(strstr(nothing.err, "standard output") == NULL);
}

/* A closed standard output must not let the next file that is opened take its number. */
MEND_TEST(output, what_is_printed_never_goes_into_a_file)
{
    ENDING_FILE fixture_file timeline = fixture_write_text(".tsv", "");
    expect_run(2, command_line("replay --json --timeline %s stress:staircase >&-", timeline.path),
               NULL, NULL);
    char text[8192];
    read_all(timeline.path, text, sizeof(text));
    EXPECT_TRUE(strncmp(text, "policy\t", 7) == 0 && strchr(text, '{') == NULL);
}

MEND_TEST(output, a_path_that_cannot_be_written_is_refused_before_the_work)
{
    static const char *const commands[][2] = {
        {"demo -o /nowhere/page.html", "cannot write /nowhere/page.html"},
        {"demo -o /tmp", "cannot write /tmp"},
        {"replay --timeline /nowhere/t.tsv stress:staircase", "cannot write /nowhere/t.tsv"},
        {"info --device sim --prices -o /nowhere/c", "cannot write /nowhere/c"},
        {"info --device sim --prices --json /nowhere/j", "cannot write /nowhere/j"}};
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        expect_run(2, commands[i][0], "", commands[i][1]);
    }
}

MEND_TEST(output, a_full_device_behind_a_path_is_reported)
{
    static const char full[] = "cannot write /dev/full: No space";
    expect_run(2, "replay --timeline /dev/full stress:staircase", NULL, full);
    expect_run(2, "info --device sim --prices --seconds 1 -o /dev/full", NULL, full);
    expect_run(2, "info --device sim --prices --seconds 1 --json /dev/full", NULL, full);
}

static void expect_holds(const fixture_file *file, const char *expected)
{
    char text[1024];
    read_all(file->path, text, sizeof(text));
    EXPECT_STR_EQ(expected, text);
}

MEND_TEST(output, an_input_is_never_an_output)
{
    ENDING_FILE fixture_file trace = fixture_write_text(".csv", short_trace);
    ENDING_FILE fixture_file costs = fixture_write_text(".txt", "map 1 2 3\n");
    ENDING_FILE fixture_file link = fixture_write_text(".link", "");
    unlink(link.path);
    EXPECT_INT_EQ(0, symlink(trace.path, link.path));
    expect_run(2, command_line("replay --timeline %s %s", trace.path, trace.path), "",
               "is read and would be written");
    expect_run(2, command_line("replay --timeline %s %s", link.path, trace.path), "",
               "is read and would be written");
    expect_run(2, command_line("demo -o %s %s", link.path, trace.path), "",
               "is read and would be written");
    expect_run(
        2, command_line("replay --costs %s --timeline %s %s", costs.path, costs.path, trace.path),
        "", "is read and would be written");
    expect_holds(&trace, short_trace);
    expect_holds(&costs, "map 1 2 3\n");
}

MEND_TEST(output, a_page_never_replaces_a_recording)
{
    expect_run(2,
               command_line("demo --device sim --traces %s -o %s/%s", MEND_TRACES_DIR,
                            MEND_TRACES_DIR, "detector-varboxes.csv.gz"),
               "", "is read and would be written");
}

MEND_TEST(output, two_outputs_are_two_files)
{
    fixture_file both = fixture_write_text(".both", "before");
    const char *line =
        command_line("info --device sim --prices -o %s --json %s", both.path, both.path);
    expect_run(2, line, "", "twice");
    expect_holds(&both, "before");
    fixture_remove(&both);
    expect_run(2, line, "", "twice");
}

/* Without a result, the earlier file stays. */
MEND_TEST(output, a_failed_command_leaves_the_file_as_it_was)
{
    ENDING_FILE fixture_file timeline = fixture_write_text(".tsv", "before");
    const char *line = command_line("replay --timeline %s /no/such/trace.csv", timeline.path);
    expect_run(2, line, "", "/no/such/trace.csv");
    expect_holds(&timeline, "before");
    unlink(timeline.path);
    expect_run(2, line, NULL, NULL);
    EXPECT_TRUE(access(timeline.path, F_OK) != 0);
}

MEND_TEST(output, a_replaced_file_keeps_its_mode)
{
    ENDING_FILE fixture_file timeline = fixture_write_text(".tsv", "before");
    EXPECT_INT_EQ(0, chmod(timeline.path, 0600));
    expect_run(0, command_line("replay --timeline %s stress:staircase", timeline.path), NULL, "");
    struct stat status;
    EXPECT_INT_EQ(0, stat(timeline.path, &status));
    EXPECT_U64_EQ(0600, status.st_mode & 07777);
}

/* The link stays a link, and its target is written. */
MEND_TEST(output, a_link_leads_to_its_file)
{
    ENDING_FILE fixture_file file = fixture_write_text(".tsv", "before");
    ENDING_FILE fixture_file link = fixture_write_text(".link", "");
    unlink(link.path);
    EXPECT_INT_EQ(0, symlink(file.path, link.path));
    expect_run(0, command_line("replay --timeline %s stress:staircase", link.path), NULL, "");
    struct stat status;
    EXPECT_INT_EQ(0, lstat(link.path, &status));
    EXPECT_TRUE(S_ISLNK(status.st_mode));
    char text[8];
    read_all(file.path, text, sizeof(text));
    EXPECT_STR_EQ("policy\t", text);
}

MEND_TEST(output, a_file_may_be_standard_output)
{
    expect_run(0, "replay --json --timeline /dev/stdout stress:staircase", "{'trace...}\npolicy\t",
               "");
}
