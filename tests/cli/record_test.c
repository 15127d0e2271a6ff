/* `libmend record`, and the other commands on a recording: of a program that ran, and of files
 * written here, in which the oldest is gone, events are missing, or the end is cut off. */
#include "lab/heap/record_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/words.h"
#include "lab/report/page.h"
#include "lab/report/report.h"
#include "lab/report/rows.h"
#include "lab/trace/read.h"
#include "tests/cli/program.h"
#include "tests/cli/report_program.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/recording.h"
#include "tests/support/test.h"

/* ---- a program that ran ---------------------------------------------------------------------- */

static const char rows[] = TRACE_HEAD "0,0,allocate,0x1,7168,0\n"
                                      "0,1,allocate,0x2,51200000,0\n"
                                      "0,2,free,0x1,7168,0\n"
                                      "0,3,allocate,0x3,51200000,5\n";

/* Of the replayed program the second large block does not fit. */
MEND_TEST(record, a_program_that_runs_out_of_memory_is_told_from_its_recording)
{
    ENDING_FILE const fixture_file file = fixture_write_text(".record", "");
    expect_run_on(rows, 1,
                  command_line("record -o '%s' -- '%s' replay --allocator mend --capacity 64MiB %%",
                               file.path, MEND_PROGRAM),
                  "mend...out at 75 %", "");
    expect_run(0, command_line("record '%s'", file.path),
               "recording of process ... device 0 of 64.0 MiB, limit 64.0 MiB\n"
               "whole: the pool was destroyed\n...0 lost\n"
               "  alloc                    2\n  free                     2\n"
               "...  out of memory            1\n"
               "out of memory: 48.82 MiB requested; ...a request of ... would fit....\nblocks from "
               "before its first event 0; live at its end 0 B in 0; peak 48.8 MiB\n",
               "");
    expect_run(0, command_line("record --csv '%s'", file.path),
               TRACE_HEAD "0,0,allocate,0x...,7168,0x0\n0,1,allocate,0x...,51200000,0x0\n"
                          "0,2,free,0x...,7168,0x0\n0,3,allocate failure,0x0,51200000,0x",
               "");
    setenv("MEND_CONF", "log_level:warning,record:/no/such/folder/a,strategy:2", 1);
    /* Its option wins. PyTorch is told to use Mend, unless the user says something else. */
    const char *nothing = "nothing was recorded in ...: no pool of Mend was in the program";
    expect_run(2, command_line("record -o '%s' -- sh -c 'echo $MEND_CONF $MEND_TORCH'", file.path),
               "log_level:warning,strategy:2 1\n", nothing);
    expect_run(2, command_line("record -o '%s' -- sh -c 'echo $MEND_CONF'", file.path),
               "log_level:warning,strategy:2\n", nothing);
    setenv("MEND_TORCH", "0", 1);
    expect_run(2, command_line("record -o '%s' -- sh -c 'echo $MEND_TORCH'", file.path), "0\n",
               nothing);
    unsetenv("MEND_TORCH");
    unsetenv("MEND_CONF");
    setenv("MEND_RECORD", file.path, 1); /* a reader does not write over it */
    expect_run(1, command_line("replay --allocator mend --capacity 64MiB,100MiB '%s'", file.path),
               "6 events, peak live 97.66 MiB\nThe recording ended when a request of 48.83 MiB "
               "failed. ...out at 50 %...completes",
               "");
    unsetenv("MEND_RECORD");
    EXPECT_INT_EQ(0, unlink(command_line("%s.1", file.path)));
    expect_run(1, command_line("report '%s'", file.path),
               "recording of Mend, 4 events, 2 blocks, device 64.0 MiB\nOut of memory..."
               "Lines of a Python program: record it with MEND_STACKS=1MiB",
               "");
}

MEND_TEST(record, wrong_usage_is_refused)
{
    expect_run(2, "record", "", "no file and no program");
    expect_run(2, "record a b", "", "a program comes after --");
    expect_run(2, "record --csv -- true", "", "--csv is for a FILE");
    expect_run(2, "record -- /no/such/program", "", "No such file");
    expect_run(2, "record %", "", "not a recording of Mend");
    expect_run(3, "record -- sh -c 'exit 3'", "", "nothing was recorded");
    expect_run(143, "record -- sh -c 'kill $$'", "", "nothing was recorded");
    expect_run(143, "record -- sh -c 'kill $PPID; exec sleep 100'", "", "nothing was recorded");
    expect_run(2, "record -o /no/such/folder/a -- true", "", "/no/such/folder/a: No such file");
    expect_run(2, "record python3 -c pass", "", "libmend record -- python3 train.py");
    expect_run(2, "record python3 train.py", "", "libmend record -- python3 train.py");
}

/* ---- files written here ---------------------------------------------------------------------- */

static mend_record_block block;
static char whole[1 << 16];
static size_t length;

static void begin(mend_record_kind kind)
{
    mend_record_begin(&block, kind);
}

static void end(uint64_t number)
{
    const size_t bytes = mend_record_seal(&block, number, 0);
    memcpy(whole + length, &block, bytes);
    length += bytes;
}

/* Block `n` lies at n KiB and has n KiB. */
static void put_event(mend_history_event event, uint64_t n)
{
    event.address = (void *)(uintptr_t)(n << 10);
    event.size_bytes = event.requested_bytes = n << 10;
    EXPECT_TRUE(mend_record_add_event(&block, &event));
}

static void put(uint64_t sequence, mend_event_kind kind, uint64_t n, uint32_t scope)
{
    put_event((mend_history_event){.sequence = sequence, .kind = (int)kind, .scope = scope}, n);
}

static void put_tagged(uint64_t sequence, uint64_t n, uint64_t tag, uint32_t stack)
{
    put_event(
        (mend_history_event){
            .sequence = sequence, .kind = MEND_EVENT_ALLOC, .tag = tag, .stack = stack},
        n);
}

static void put_run(uint64_t number)
{
    const mend_record_run about = {.limit_bytes = 7 * MIB};
    mend_test_files_stay = true;
    mend_record_fill(&block, MEND_RECORD_RUN, &about, sizeof(about));
    end(number);
}

/* A file that has its events alone. */
static void begin_events(void)
{
    length = 0;
    put_run(1);
    begin(MEND_RECORD_EVENTS);
}

static mend_report *read_report(void)
{
    ENDING_FILE const fixture_file file = fixture_write(".record", whole, length);
    mend_report *report = NULL;
    EXPECT_RESULT(MEND_OK, mend_report_create(file.path, 0, &report));
    return report;
}

/* The read events, in short: "+3 -3" allocates and frees the block of 3 KiB. */
static void expect_trace(const char *steps, size_t before, const char *note)
{
    ENDING_FILE const fixture_file file = fixture_write(".record", whole, length);
    mend_trace *trace = NULL;
    mend_trace_detail detail;
    char found[512] = "";
    mend_trace_detail_init(&detail);
    const mend_result result = mend_trace_read_with(file.path, &detail, &trace);
    for (size_t i = 0; result == MEND_OK && i < trace->event_count; i++) {
        snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%c%u", i > 0 ? " " : "",
                 trace->events[i].is_alloc ? '+' : '-',
                 (unsigned)(trace->events[i].size_bytes >> 10));
    }
    EXPECT_RESULT(MEND_OK, result);
    EXPECT_STR_EQ(steps, found);
    EXPECT_U64_EQ(before, detail.before_events);
    EXPECT_STR_EQ(note, result == MEND_OK ? trace->note : "");
    mend_trace_destroy(trace);
    mend_trace_detail_clear(&detail);
}

/* The file begins with the newest lap. Blocks 1 to 3 are gone, and of block 4 only a free tells. */
static void write_lap(void)
{
    length = 0;
    put_run(12);
    begin(MEND_RECORD_SCOPES);
    block.head.first = 1;
    EXPECT_TRUE(mend_record_add_name(&block, 0, 0, "step"));
    EXPECT_TRUE(mend_record_add_name(&block, 0, 1, "forward"));
    end(13);
    begin(MEND_RECORD_LIVE);
    put(2, MEND_EVENT_ALLOC, 20, 2);
    put(51, MEND_EVENT_ALLOC, 60, 1);
    end(14);
    begin(MEND_RECORD_EVENTS);
    put(52, MEND_EVENT_ALLOC, 70, 1);
    put(53, MEND_EVENT_FREE, 60, 1);
    end(15);
    memset(whole + length, 0x5a, 40); /* the overwritten part */
    length += 40;
    begin(MEND_RECORD_EVENTS);
    put(50, MEND_EVENT_FREE, 40, 0);
    put(51, MEND_EVENT_ALLOC, 60, 1);
    end(11);
}

MEND_TEST(record, blocks_from_before_the_oldest_event_are_known)
{
    write_lap();
    expect_trace("+40 +20 -40 +60 +70 -60", 2, "");
}

MEND_TEST(record, owners_are_scopes)
{
    write_lap();
    ENDING_REPORT mend_report *report = read_report();
    EXPECT_U64_EQ(7 * MIB, report->capacity_bytes);
    ASSERT_U64_EQ(3, report->owner_count);
    EXPECT_STR_EQ("(outside of scopes)", report->owners[0].name);
    EXPECT_STR_EQ("step/forward", report->owners[1].name);
    EXPECT_STR_EQ("step", report->owners[2].name);
}

MEND_TEST(record, tags_and_stacks_have_the_names_that_were_given_last)
{
    static const struct {
        mend_name_kind kind;
        uint64_t number;
        const char *name;
    } said[] = {{MEND_NAME_TAG, 7, "first name"},
                {MEND_NAME_TAG, 7, "kv cache"},
                {MEND_NAME_STREAM, 0, "copies"},
                {MEND_NAME_STACK, 3, "train.py:41 step"}};
    begin_events();
    put_tagged(1, 10, 0, 0);
    put_tagged(2, 20, 7, 0);
    put_tagged(3, 30, 8, 4);
    put_tagged(4, 40, 7, 3);
    put_tagged(5, 50, 0, 3);
    end(2);
    for (uint32_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
        uint32_t named = mend_names_count(&mend_process_own_names);
        EXPECT_TRUE(mend_set_name(said[i].kind, said[i].number, said[i].name) == MEND_OK);
        mend_record_fill_names(&block, MEND_RECORD_NAMES, &named);
        end(3 + i);
    }
    ENDING_REPORT mend_report *report = read_report();
    char stream[MEND_NAME_BYTES];
    ASSERT_U64_EQ(5, report->owner_count);
    EXPECT_STR_EQ("blocks of 10.00 KiB", report->owners[0].name);
    EXPECT_STR_EQ("kv cache", report->owners[1].name);
    EXPECT_STR_EQ("tag 8, stack 4", report->owners[2].name);
    EXPECT_STR_EQ("kv cache, train.py:41 step", report->owners[3].name);
    EXPECT_STR_EQ("train.py:41 step", report->owners[4].name);
    for (size_t i = 0; i < 5; i++) {
        static const uint8_t bytes[][2] = {{0, 0}, {8, 0}, {5, 7}, {8, 16}, {0, 16}};
        EXPECT_U64_EQ(bytes[i][0], report->detail.owners[i].part_bytes[MEND_TRACE_TAG]);
        EXPECT_U64_EQ(bytes[i][1], report->detail.owners[i].part_bytes[MEND_TRACE_STACK]);
        EXPECT_U64_EQ(0, report->detail.owners[i].part_bytes[MEND_TRACE_SCOPE]);
    }
    mend_trace_detail_tell_stream(&report->detail, 0, stream, sizeof(stream));
    EXPECT_STR_EQ("copies", stream);
}

/* They are known where memory is not: this one does not begin with its pool. */
MEND_TEST(record, waits_of_the_host_are_on_the_axis_and_hold_nothing)
{
    const mend_history_event wait = {
        .sequence = 6, .kind = MEND_EVENT_HOST_WAIT, .duration_ns = 2500};
    static const uint8_t kinds[] = {MEND_ROW_ALLOC, MEND_ROW_WAIT, MEND_ROW_FREE};
    begin_events();
    put(5, MEND_EVENT_ALLOC, 1, 0);
    EXPECT_TRUE(mend_record_add_event(&block, &wait));
    put(7, MEND_EVENT_FREE, 1, 0);
    end(2);
    ENDING_REPORT mend_report *report = read_report();
    mend_rows found;
    EXPECT_TRUE(!report->knows_held && report->detail.wait_count == 1);
    ASSERT_RESULT(MEND_OK, mend_rows_make(report, &found));
    EXPECT_TRUE(found.kind.count == 3 && memcmp(found.kind.bytes, kinds, 3) == 0);
    EXPECT_TRUE(found.waited_us.count == 1 && found.waited_us.bytes[0] == 2);
    EXPECT_U64_EQ(0, found.segment_size.count);
    mend_rows_clear(&found);
}

/* Behind a gap a free may be of a block whose allocation is lost, and an allocation where one was
 * before ends that. */
MEND_TEST(record, lost_events_are_counted_and_nothing_is_made_up)
{
    begin_events();
    put(1, MEND_EVENT_ALLOC, 1, 0);
    put(2, MEND_EVENT_COMMIT, 9, 0);
    put(8, MEND_EVENT_FREE, 5, 0);
    put(9, MEND_EVENT_ALLOC, 1, 0);
    end(2);
    expect_trace("+1 -1 +1", 0,
                 "lost events: 5, frees of blocks that are not known: 1, events of growable "
                 "ranges: 1");
}

/* In a processor's time that work on each block for each event would not end in: of 2^20 events
 * with 2^18 blocks such is 2^37 steps. docs/report.md has what 2^26 events take. */
static bool read_many(void *path)
{
    enum { PROCESSOR_S = 30 };
    mend_report *report = NULL;
    FILE *none = fopen("/dev/null", "w");
    mend_test_limit(PROCESSOR_S);
    bool is_good = none != NULL && mend_report_create(path, 0, &report) == MEND_OK &&
                   report->trace->event_count == 1 << 20 &&
                   mend_report_write_page(none, report) == MEND_OK;
    mend_report_destroy(report);
    return fclose(none) == 0 && is_good;
}

MEND_TEST(record, many_events_take_time_in_proportion)
{
    fixture_file file = fixture_write_text(".record", "");
    EXPECT_TRUE(test_recording_write(file.path, 1 << 20));
    EXPECT_TRUE(mend_test_holds_in_a_child(read_many, file.path));
    fixture_remove(&file);
}

static void put_failure(uint64_t number, uint64_t sequence, const char *message)
{
    mend_event_failure failure = {.sequence = sequence, .numbers = {3 * MIB, MIB, 7 * MIB}};
    snprintf(failure.message, sizeof(failure.message), "%s", message);
    mend_record_fill(&block, MEND_RECORD_FAILURE, &failure,
                     offsetof(mend_event_failure, message) + strlen(failure.message));
    end(number);
}

/* The last one counts. Where its reason is lost, no other is taken for it. */
MEND_TEST(record, a_failure_has_the_reason_of_its_own_event)
{
    for (int is_known = 0; is_known <= 1; is_known++) {
        begin_events();
        put(1, MEND_EVENT_ALLOC, 1, 0);
        put(2, MEND_EVENT_OUT_OF_MEMORY, 1 << 10, 0);
        put(3, MEND_EVENT_ALLOC, 2, 0);
        put(4, MEND_EVENT_OUT_OF_MEMORY, 3 << 10, 0);
        end(2);
        put_failure(3, 2, "out of memory: 1.00 MiB requested. Not this one.");
        if (is_known) {
            put_failure(4, 4, "out of memory: 3.00 MiB requested. Free \033[2J some.");
        }
        const fixture_file file = fixture_write(".record", whole, length);
        expect_run(1, command_line("report --no-what-if '%s'", file.path),
                   is_known
                       ? "Out of memory: 3.00 MiB asked for, 1.00 MiB would have fitted, 2.00 "
                         "MiB short; ...last of 2 failures...Why it did not fit: Free ?[2J some.\n"
                       : "Out of memory: 3.00 MiB asked for with 3.00 KiB in use; it is the last",
                   "");
        expect_run(1, command_line("report --no-what-if --json '%s'", file.path),
                   is_known ? "'short_bytes': 2097152" : "'failures': 2}", "");
        expect_run(0, command_line("replay --allocator mend --explain '%s'", file.path),
                   is_known ? "failed said: out of memory: 3.00 MiB" : "driver ms", "");
        fixture_remove(&file);
    }
}

/* Sleeping memory keeps its addresses, in use, and no memory of the device. In MiB, as a request
 * that fails behind the step tells. */
MEND_TEST(record, what_sleeps_is_not_held)
{
    static const struct {
        mend_event_kind kind;
        unsigned at, size, chunk, held, free;
    } steps[] = {
        {MEND_EVENT_CREATE, 0, 4, 1, 4, 0},   {MEND_EVENT_MAP, 4, 4, 1, 4, 4},
        {MEND_EVENT_ALLOC, 4, 3, 1, 4, 1},    {MEND_EVENT_SLEEP, 4, 4, 1, 4, 0},
        {MEND_EVENT_RELEASE, 0, 4, 1, 0, 0},  {MEND_EVENT_CREATE, 0, 4, 2, 4, 0},
        {MEND_EVENT_MAP, 8, 4, 2, 4, 4},      {MEND_EVENT_ALLOC, 8, 2, 2, 4, 2},
        {MEND_EVENT_FREE, 8, 2, 2, 4, 4},     {MEND_EVENT_UNMAP, 8, 4, 2, 4, 0},
        {MEND_EVENT_WAKE, 4, 4, 2, 4, 1},     {MEND_EVENT_CREATE, 0, 4, 3, 8, 1},
        {MEND_EVENT_EXCHANGE, 4, 4, 3, 8, 1}, {MEND_EVENT_RELEASE, 0, 4, 2, 4, 1},
    };
    enum { STEPS = sizeof(steps) / sizeof(*steps), FIRST_ALLOC = 2 };
    for (size_t last = FIRST_ALLOC; last < STEPS; last++) {
        begin_events();
        for (size_t i = 0; i <= last + 1; i++) {
            const bool is_end = i > last;
            const mend_history_event event = {
                .sequence = i + 1,
                .kind = is_end ? MEND_EVENT_OUT_OF_MEMORY : (int)steps[i].kind,
                .address = (void *)(uintptr_t)(is_end ? 0 : steps[i].at * MIB),
                .size_bytes = is_end ? MIB : steps[i].size * MIB,
                .requested_bytes = is_end ? MIB : steps[i].size * MIB,
                .chunk = is_end ? 0 : steps[i].chunk};
            EXPECT_TRUE(mend_record_add_event(&block, &event));
        }
        end(2);
        const fixture_file file = fixture_write(".record", whole, length);
        ENDING_REPORT mend_report *report = NULL;
        EXPECT_RESULT(MEND_OK, mend_report_create(file.path, 0, &report));
        const mend_report_memory *memory = &report->memory;
        EXPECT_U64_EQ(steps[last].held * MIB, memory->held_bytes);
        EXPECT_U64_EQ(steps[last].free * MIB, memory->whole_bytes + memory->beside_bytes);
        if (last == STEPS - 1) {
            expect_run(
                1, command_line("report --no-what-if '%s'", file.path),
                "peak 5.00 MiB, event 1\nheld  8.00 MiB at most, 1.600 of the peak in use; "
                "memory was created 3 times, released 2 times\naway  4.00 MiB asleep at most: in "
                "use, and not held\n",
                "");
            expect_run(1, command_line("report --no-what-if --json '%s'", file.path),
                       "'peak_held_bytes': 8388608, 'peak_asleep_bytes': 4194304,", "");
        }
        fixture_remove(&file);
    }
}

/* After any cut, everything before the last whole block is there. */
MEND_TEST(record, a_cut_file_has_what_is_whole)
{
    begin_events();
    put(1, MEND_EVENT_ALLOC, 1, 0);
    end(2);
    const size_t first = length;
    begin(MEND_RECORD_EVENTS);
    put(2, MEND_EVENT_ALLOC, 2, 0);
    end(3);
    const size_t second = length;
    for (length = first; length < second; length++) {
        expect_trace("+1", 0, "");
    }
    expect_trace("+1 +2", 0, "");
    ENDING_FILE const fixture_file file = fixture_write(".record", whole, first - 1);
    mend_trace *trace = NULL;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trace_read(file.path, &trace));
    expect_run(0, command_line("record '%s'", file.path),
               "cut: the process was killed, or still runs\nevents 0 to 0 in 0.000 s", "");
}
