/* A report: growing owners, free memory, the past, other allocators, no wrong claims. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/report/advice.h"
#include "lab/report/others.h"
#include "lab/report/report.h"
#include "lab/report/rows.h"
#include "lab/report/text.h"
#include "lab/report/words.h"
#include "tests/cli/program.h"
#include "tests/cli/report_program.h"
#include "tests/support/test.h"

static mend_report *report_of(fixture_file file)
{
    mend_report *report = NULL;
    mend_result result = mend_report_create(file.path, 0, &report);
    fixture_remove(&file);
    MEND_TEST_CHECK(result == MEND_OK, (void)0, "%s", fixture_message());
    return report;
}

static const mend_report_owner *owner_of(const mend_report *report, const char *name)
{
    for (size_t i = 0; i < report->owner_count; i++) {
        if (strstr(report->owners[i].name, name) != NULL) {
            return &report->owners[i];
        }
    }
    return NULL;
}

/* ---- who grows ----------------------------------------------------------------------------- */

static const struct {
    const char *program;
    const char *line; /* NULL: no suspect */
    const char *size; /* the same in a log, which has sizes alone */
    mend_report_trend trend;
    bool whole_log; /* in a log only all together grows */
} suspects[] = {
    {"steady", NULL, NULL, MEND_TREND_STEADY, false},
    {"accumulates", NULL, NULL, MEND_TREND_STEADY, false},
    {"fills up", NULL, NULL, MEND_TREND_STEADY, false},
    {"fills up late", NULL, NULL, MEND_TREND_STEADY, false},
    {"leaks a little", NULL, NULL, MEND_TREND_STEADY, false},
    {"second model", NULL, NULL, MEND_TREND_STEADY, false},
    {"short", NULL, NULL, MEND_TREND_STEADY, false},
    {"leaks", "train.py:20", "3.00 MiB", MEND_TREND_LEAKS, false},
    {"leaks slowly", "train.py:20", "3.00 MiB", MEND_TREND_LEAKS, false},
    {"leaks and fails", "train.py:20", "3.00 MiB", MEND_TREND_LEAKS, false},
    {"leaks, fails, goes on", "train.py:20", "3.00 MiB", MEND_TREND_LEAKS, false},
    {"leaks and ends", "train.py:20", "3.00 MiB", MEND_TREND_LEAKS, false},
    {"collects and frees", NULL, NULL, MEND_TREND_STEADY, false},
    {"is one pass", NULL, NULL, MEND_TREND_STEADY, false},
    {"is one pass, and fails", NULL, NULL, MEND_TREND_STEADY, false},
    {"is one pass, freed again", NULL, NULL, MEND_TREND_STEADY, false},
    {"keeps graphs", "train.py:20", "3.00 MiB", MEND_TREND_LEAKS, false},
    {"grows", "train.py:30", NULL, MEND_TREND_GROWS, true},
};
enum { SUSPECTS = sizeof(suspects) / sizeof(*suspects) };

MEND_TEST(report, suspects_are_what_grows_and_does_not_come_back)
{
    for (size_t i = 0; i < 2 * SUSPECTS; i++) {
        bool is_log = i >= SUSPECTS;
        size_t k = i % SUSPECTS;
        const char *name = is_log ? suspects[k].size : suspects[k].line;
        ENDING_REPORT mend_report *report = report_of(program_named(suspects[k].program, is_log));
        ASSERT_TRUE(report != NULL);
        MEND_TEST_CHECK(report->suspects == (name != NULL), (void)0, "%s, log %d: %zu suspects",
                        suspects[k].program, is_log, (size_t)report->suspects);
        MEND_TEST_CHECK(report->grows_as_whole == (is_log && suspects[k].whole_log), (void)0,
                        "%s, log %d: as a whole", suspects[k].program, is_log);
        const mend_report_owner *owner = name == NULL ? NULL : owner_of(report, name);
        MEND_TEST_CHECK(name == NULL || (owner != NULL && owner->trend == suspects[k].trend),
                        (void)0, "%s, log %d: %s", suspects[k].program, is_log, name);
        bool finds = name != NULL || report->grows_as_whole || report->has_failed;
        EXPECT_TRUE(mend_report_has_findings(report) == finds);
    }
}

/* A model of four layers: a step of small blocks, and with `keeps` a loss that stays with blocks
 * that four layers made for it, two blocks of one line and one of another each. */
static mend_report *report_of_losses(bool keeps)
{
    program p;
    program_begin(&p, false);
    const uint64_t weights = program_alloc(&p, 5, 64 * MIB);
    for (int i = 0; i < 31; i++) {
        for (int k = 0; k < 160; k++) {
            program_free(&p, program_alloc(&p, 10, MIB / 4), MIB / 4);
        }
        uint64_t graph[12];
        for (int k = 0; k < 12; k++) {
            graph[k] = program_alloc(&p, k % 3 == 0 ? 21 : 20, MIB);
        }
        const uint64_t loss = program_alloc(&p, 30, MIB / 2);
        for (int k = 0; k < 12 && !keeps; k++) {
            program_free(&p, graph[k], MIB);
        }
        if (!keeps) {
            program_free(&p, loss, MIB / 2);
        }
    }
    program_free(&p, weights, 64 * MIB);
    return report_of(program_end(&p, ""));
}

MEND_TEST(report, what_a_kept_loss_keeps_is_one_leak)
{
    ENDING_REPORT mend_report *report = report_of_losses(true);
    ASSERT_TRUE(report != NULL);
    EXPECT_INT_EQ(3, report->in_step);
    EXPECT_INT_EQ(3, report->suspects);
    EXPECT_TRUE(report->rounds >= 20 && report->rounds <= 31);
    EXPECT_TRUE(report->without_step_bytes < report->peak_bytes / 2);
    mend_advice advice[MEND_ADVICE_MOST];
    EXPECT_TRUE(mend_report_advise(report, advice) > 0);
    EXPECT_STR_EQ("Stop the growth of A \"train.py:20 > call (m.py:7)\" and 2 in step",
                  advice[0].what);
    EXPECT_TRUE(strstr(advice[0].evidence, "keep loss.item()") != NULL);
    ENDING_REPORT mend_report *none = report_of_losses(false);
    ASSERT_TRUE(none != NULL);
    EXPECT_INT_EQ(0, none->suspects);
    EXPECT_INT_EQ(0, none->in_step);
}

/* Blocks of before the recording have no order in time: whichever comes first, none grows. */
MEND_TEST(report, a_snapshot_without_history_has_no_growth)
{
    for (int turned = 0; turned < 2; turned++) {
        static char state[1 << 16];
        program p;
        size_t used = (size_t)snprintf(state, sizeof(state), ", \"segments\": [");
        for (uint64_t i = 0; i < 300; i++) {
            const uint64_t at = turned == 0 ? i : 299 - i;
            used += (size_t)snprintf(
                state + used, sizeof(state) - used,
                "%s{\"address\": %" PRIu64 ", \"total_size\": %" PRIu64
                ", \"stream\": 0, \"device\": 0, \"blocks\": [{\"size\": %" PRIu64
                ", \"state\": \"active_allocated\"}]}",
                i == 0 ? "" : ", ", (100 + 10 * at) * MIB, 8 * MIB, (1 + i) * 20480);
        }
        snprintf(state + used, sizeof(state) - used, "]");
        program_begin(&p, false);
        ENDING_REPORT mend_report *report = report_of(program_end(&p, state));
        ASSERT_TRUE(report != NULL);
        EXPECT_U64_EQ(300, report->owners[0].blocks);
        EXPECT_FALSE(mend_report_has_findings(report));
        char verdict[MEND_VERDICT_BYTES];
        mend_report_judge(report, verdict, sizeof(verdict));
        EXPECT_TRUE(strstr(verdict, "no history") != NULL);
    }
}

/* Line 20 comes at the end. 10 and 11 come and go in each step. 30 had most at the peak, and has
 * nothing left. Of the others there are too many for letters. */
MEND_TEST(report, tells_what_is_new_and_has_letters_for_those_that_have_most)
{
    program p;
    program_begin(&p, false);
    program_alloc(&p, 5, 100 * MIB);
    for (unsigned i = 1; i <= 5; i++) {
        program_alloc(&p, 40 + i, i * MIB);
    }
    for (int i = 0; i < 200; i++) {
        const uint64_t block = program_alloc(&p, 10, 60 * MIB);
        const uint64_t other = program_alloc(&p, i == 100 ? 30 : 11, i == 100 ? 300 * MIB : MIB);
        program_free(&p, block, 60 * MIB);
        program_free(&p, other, i == 100 ? 300 * MIB : MIB);
    }
    program_alloc(&p, 20, 30 * MIB);
    program_alloc(&p, 10, 60 * MIB);
    program_refuse(&p, 64 * MIB, 0);
    ENDING_REPORT mend_report *report = report_of(program_end(&p, ""));
    ASSERT_TRUE(report != NULL);
    EXPECT_TRUE(owner_of(report, "train.py:5 ")->trend == MEND_TREND_STEADY);
    EXPECT_TRUE(owner_of(report, "train.py:10 ")->trend == MEND_TREND_STEADY);
    EXPECT_TRUE(owner_of(report, "train.py:20 ")->trend == MEND_TREND_NEW);
    char text[MEND_VERDICT_BYTES];
    ASSERT_TRUE(mend_report_tell_new(report, text, sizeof(text)));
    EXPECT_STR_EQ(
        "New 2 events before the failure, and not freed: 30.0 MiB of C \"train.py:20 > call "
        "(m.py:7)\"",
        text);
    mend_advice advice[MEND_ADVICE_MOST];
    ASSERT_TRUE(mend_report_advise(report, advice) == 1);
    EXPECT_U64_EQ('G', owner_of(report, "train.py:42 ")->letter);
    const mend_report_call call = mend_report_call_of(owner_of(report, "train.py:41 "));
    EXPECT_STR_EQ("\"train.py:41 > call (m.py:7)\"", call.text);
    EXPECT_STR_EQ("Look at H \"train.py:30 > call (m.py:7)\" first", advice[0].what);
}

/* The program without the line is known: it is the steady one. */
MEND_TEST(report, predicts_the_peak_without_the_leak)
{
    ENDING_REPORT mend_report *leak = report_of(program_named("leaks and fails", false));
    ENDING_REPORT mend_report *steady = report_of(program_named("steady", false));
    ASSERT_TRUE(leak != NULL && steady != NULL);
    EXPECT_U64_EQ(228 * MIB, steady->peak_bytes);
    EXPECT_U64_EQ(steady->peak_bytes, steady->without_bytes);
    EXPECT_U64_EQ((100 + 4 * 32 + 59 * 3) * MIB, leak->peak_bytes);
    uint64_t predicted = owner_of(leak, "train.py:20")->without_bytes;
    EXPECT_U64_EQ(predicted, leak->without_bytes);
    EXPECT_TRUE(predicted + 6 * MIB >= steady->peak_bytes &&
                predicted <= steady->peak_bytes + 6 * MIB);
}

/* The largest sums stand for themselves. 300 of the smallest sizes are above 512 KiB. */
MEND_TEST(report, a_log_of_many_sizes_has_owners_for_the_rest)
{
    program p;
    program_begin(&p, true);
    for (uint64_t i = 0; i < 1024; i++) {
        program_alloc(&p, 0, 2 * MIB + i * 512);
    }
    for (uint64_t i = 0; i < 300; i++) {
        program_alloc(&p, 0, MIB / 2 + 512 + i * 512);
    }
    for (int i = 0; i < 600; i++) { /* their sum is neither the largest nor the smallest */
        program_alloc(&p, 0, 700);
    }
    ENDING_REPORT mend_report *report = report_of(program_end(&p, ""));
    ASSERT_TRUE(report != NULL);
    EXPECT_U64_EQ(1026, report->owner_count);
    EXPECT_U64_EQ(300, owner_of(report, "other blocks up to 1.00 MiB")->blocks);
    EXPECT_U64_EQ(600, owner_of(report, "other blocks up to 1.00 KiB")->blocks);
    EXPECT_U64_EQ(2 * MIB + 512, owner_of(report, "blocks of 2.00 MiB (2,097,664 B)")->bytes);
}

/* Each kind of answer, of real programs. */
MEND_TEST(report, recordings_grow_or_do_not)
{
    static const struct {
        const char *name;
        uint64_t suspects;
        bool as_whole;
    } cases[] = {{"opt-rl-phases", 0, false},      /* phases, of which the first is smaller */
                 {"accumulate-lengths", 0, false}, /* gradients are filled and emptied */
                 {"gaussian-splats", 0, true},     /* each table is replaced by a larger one */
                 {"moe-serve-4bit", 1, false}};    /* ever more blocks of 64 MiB stay */
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char path[512];
        ENDING_REPORT mend_report *report = NULL;
        snprintf(path, sizeof(path), "%s/%s.csv.gz", MEND_TRACES_DIR, cases[i].name);
        ASSERT_RESULT(MEND_OK, mend_report_create(path, 0, &report));
        MEND_TEST_CHECK(report->suspects == cases[i].suspects &&
                            report->grows_as_whole == cases[i].as_whole,
                        (void)0, "%s: %zu suspects", cases[i].name, (size_t)report->suspects);
    }
}

/* ---- where free memory is ------------------------------------------------------------------ */

static void expect_memory(const mend_report *report, uint64_t held, uint64_t whole, uint64_t beside,
                          uint64_t longest, uint64_t pieces)
{
    EXPECT_U64_EQ(held * MIB, report->memory.held_bytes);
    EXPECT_U64_EQ(whole * MIB, report->memory.whole_bytes);
    EXPECT_U64_EQ(beside * MIB, report->memory.beside_bytes);
    EXPECT_U64_EQ(longest * MIB, report->memory.longest_bytes);
    EXPECT_U64_EQ(pieces, report->memory.pieces);
}

/* A log of real addresses shows the gaps. Numbers of blocks are none. */
MEND_TEST(report, a_log_with_addresses_knows_the_gaps_between_blocks)
{
    for (int has_addresses = 0; has_addresses < 2; has_addresses++) {
        program p;
        uint64_t unit = has_addresses == 1 ? 2 * MIB : 1;
        program_begin(&p, true);
        for (uint64_t i = 100; i < 108; i++) {
            program_alloc_at(&p, i * unit, 0, 2 * MIB);
        }
        for (uint64_t i = 101; i < 107; i += i == 102 ? 2u : 1u) {
            program_free(&p, i * unit, 2 * MIB);
        }
        program_refuse(&p, 8 * MIB, 0);
        ENDING_REPORT mend_report *report = report_of(program_end(&p, ""));
        ASSERT_TRUE(report != NULL);
        EXPECT_TRUE(report->knows_gaps == (has_addresses == 1) && !report->knows_held);
        char verdict[MEND_VERDICT_BYTES];
        EXPECT_TRUE(!mend_report_tell_away(report, verdict, sizeof(verdict)) && verdict[0] == '\0');
        mend_report_judge(report, verdict, sizeof(verdict));
        EXPECT_TRUE((strstr(verdict, "10.0 MiB free of the memory used before, the longest piece "
                                     "6.00 MiB") != NULL) == (has_addresses == 1));
    }
}

/* One begins in a segment and ends in the next, as with expandable segments. */
MEND_TEST(report, a_block_may_lie_in_two_segments)
{
    program p;
    program_begin(&p, false);
    program_segment(&p, "segment_map", 100 * MIB, 2 * MIB);
    program_segment(&p, "segment_map", 102 * MIB, 2 * MIB);
    program_alloc_at(&p, 101 * MIB, 11, 2 * MIB);
    ENDING_REPORT mend_report *report =
        report_of(program_end(&p, ", \"allocator_settings\": {\"expandable_segments\": true}"));
    ASSERT_TRUE(report != NULL);
    expect_memory(report, 4, 0, 2, 1, 2);
}

/* Its chunks join, and it does not say where they end. */
MEND_TEST(report, a_snapshot_under_mend_is_called_one)
{
    fixture_file file = fixture_write_text(
        ".json", "{\"device_traces\": [["
                 "{\"action\": \"alloc\", \"addr\": 20971520, \"size\": 4194304, \"stream\": 0}]], "
                 "\"segments\": [{\"address\": 20971520, \"total_size\": 20971520, \"stream\": 0, "
                 "\"device\": 0, \"is_expandable\": true, \"blocks\": []}], "
                 "\"allocator_settings\": {\"expandable_segments\": false}}");
    ENDING_REPORT mend_report *report = report_of(file);
    ASSERT_TRUE(report != NULL);
    char text[256];
    mend_report_tell_source(report, text, sizeof(text));
    EXPECT_TRUE(strstr(text, "PyTorch snapshot, under Mend") != NULL);
    const mend_report_other *recorded = mend_report_recorded(report);
    EXPECT_STR_EQ("mend", recorded != NULL ? recorded->policy : "mend");
    EXPECT_U64_EQ(16 * MIB, report->memory.longest_bytes);
}

#define FRAME(file, line) "{\"filename\": \"" file "\", \"line\": " line ", \"name\": \"f\"}, "
#define OF_TORCH          "/x/site-packages/torch/"
#define MODULE            FRAME(OF_TORCH "nn/modules/module.py", "1784")
#define INDUCTOR          "/c/wp/cwpfvu5z2anylosnkpfwm2x25bim3lwox7luzhwpr7s24tns3kov.py"
#define MAIN              FRAME("/a/train.py", "50")
#define PART_OF_LINE      "{\"filename\": \"/a.py\", \"line\": 8, \"name\": \"<listcomp>\"}, "

/* A model's line is that of training and validation. Lines of torch.compile are in no source. */
MEND_TEST(report, a_line_is_named_with_the_next_one_of_the_program_that_calls_it)
{
    static const char *const cases[][2] = {
        {"train.py:50 f", FRAME("<eval_with_key>.1", "7") FRAME(INDUCTOR, "3") PART_OF_LINE MAIN},
        {"m.py:7 f from train.py:30 > f (f.py:2)",
         FRAME(OF_TORCH "f.py", "2") FRAME("/a/m.py", "7") MODULE FRAME("/a/m.py", "20")
             MODULE FRAME("/a/train.py", "30") MAIN},
        {"train.py:8 f from line 50", FRAME("/a/train.py", "8") MAIN},
        {"<cuBLAS> f", FRAME("<cuBLAS>", "0")},
        {"m.py:7 f", FRAME("/a/m.py", "7") MODULE FRAME("/a/m.py", "20") MODULE}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[2048];
        snprintf(text, sizeof(text),
                 "{\"device_traces\": [[{\"action\": \"alloc\", \"addr\": 512, \"size\": 512, "
                 "\"stream\": 0, \"frames\": [%s{\"filename\": \"<frozen runpy>\"}]}]]}",
                 cases[i][1]);
        ENDING_REPORT mend_report *report = report_of(fixture_write_text(".json", text));
        ASSERT_TRUE(report != NULL);
        EXPECT_STR_EQ(cases[i][0], report->owners[0].name);
    }
}

/* Two segments of 20 MiB: the free one is of stream 5, in the other a block waits for a stream. */
MEND_TEST(report, free_memory_of_other_streams_and_what_waits_is_told_apart)
{
    fixture_file file = fixture_write_text(
        ".json",
        "{\"device_traces\": [["
        "{\"action\": \"segment_alloc\", \"addr\": 20971520, \"size\": 20971520, \"stream\": 0},"
        "{\"action\": \"segment_alloc\", \"addr\": 41943040, \"size\": 20971520, \"stream\": 5},"
        "{\"action\": \"alloc\", \"addr\": 20971520, \"size\": 4194304, \"stream\": 0},"
        "{\"action\": \"free_requested\", \"addr\": 20971520, \"size\": 4194304, \"stream\": 0},"
        "{\"action\": \"oom\", \"size\": 18874368, \"device_free\": 0, \"stream\": 0}]]}");
    ENDING_REPORT mend_report *report = report_of(file);
    ASSERT_TRUE(report != NULL);
    expect_memory(report, 40, 20, 16, 16, 2);
    EXPECT_U64_EQ(20 * MIB, report->memory.others_bytes);
    EXPECT_U64_EQ(4 * MIB, report->failure.pending_bytes);
    mend_rows rows;
    ASSERT_TRUE(mend_rows_make(report, &rows) == MEND_OK);
    EXPECT_U64_EQ(4, rows.count);
    EXPECT_U64_EQ(3, rows.moment); /* the failure. The block before it waits from there on */
    EXPECT_TRUE(rows.wait.count == 1 && rows.wait.bytes[0] == 1);
    mend_rows_clear(&rows);
    char verdict[MEND_VERDICT_BYTES];
    ASSERT_TRUE(mend_report_tell_waiting(report, verdict, sizeof(verdict)));
    EXPECT_STR_EQ(
        "4.00 MiB waits: 1 block of A \"no stack\", the default stream; in use, not in the "
        "36.0 MiB free",
        verdict);
    mend_report_judge(report, verdict, sizeof(verdict));
    EXPECT_TRUE(strstr(verdict, "by memory of other streams: 18.0 MiB asked for, 36.0 MiB") !=
                NULL);
}

/* ---- what came before ---------------------------------------------------------------------- */

enum { CELLS = 40, EVENTS = 300 };

/* A program over cells of 2 MiB, each a segment that comes and goes and holds a block or none. */
typedef struct cells {
    enum { NOT_HELD, FREE, LIVE } at[CELLS];
} cells;

static void act(cells *state, program *p, mend_test_random *random)
{
    uint64_t i = mend_test_random_below(random, CELLS);
    uint64_t address = (1000 + 2 * i) * MIB;
    bool writes = p != NULL;
    switch (state->at[i]) {
    case NOT_HELD:
        state->at[i] = FREE;
        if (writes) {
            program_segment(p, i % 2 == 0 ? "segment_alloc" : "segment_map", address, 2 * MIB);
        }
        return;
    case FREE:
        state->at[i] = mend_test_random_below(random, 3) == 0 ? NOT_HELD : LIVE;
        if (writes && state->at[i] == LIVE) {
            program_alloc_at(p, address + MIB, 40 + (unsigned)i % 3, MIB);
        } else if (writes) {
            program_segment(p, i % 2 == 0 ? "segment_free" : "segment_unmap", address, 2 * MIB);
        }
        return;
    default:
        state->at[i] = FREE;
        if (writes) {
            program_free(p, address + MIB, MIB);
        }
    }
}

/* The state of the snapshot at its end. */
static void write_state(const cells *state, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, ", \"segments\": [");
    bool is_first = true;
    for (uint64_t i = 0; i < CELLS; i++) {
        if (state->at[i] == NOT_HELD) {
            continue;
        }
        const char *word = state->at[i] == LIVE ? "active_allocated" : "inactive";
        length += (size_t)snprintf(
            text + length, size - length,
            "%s{\"address\": %llu, \"total_size\": 2097152, \"stream\": 0, \"device\": 0, "
            "\"blocks\": [{\"size\": 1048576, \"state\": \"inactive\"}, {\"size\": 1048576, "
            "\"state\": \"%s\"}]}",
            is_first ? "" : ", ", (unsigned long long)((1000 + 2 * i) * MIB), word);
        is_first = false;
    }
    snprintf(text + length, size - length, "]");
}

/* The program without its first `unseen` events. Its state at the end is known. */
static mend_report *recorded_from(size_t unseen)
{
    static char text[1 << 16];
    mend_test_random random;
    cells state = {0};
    program p;
    mend_test_random_init(&random, mend_test_seed());
    program_begin(&p, false);
    for (size_t i = 0; i < EVENTS; i++) {
        act(&state, i < unseen ? NULL : &p, &random);
    }
    program_refuse(&p, 4 * MIB, 0);
    write_state(&state, text, sizeof(text));
    return report_of(program_end(&p, text));
}

/* PyTorch keeps the last events only. */
MEND_TEST(report, the_state_does_not_depend_on_where_the_recording_begins)
{
    ENDING_REPORT mend_report *whole = recorded_from(0);
    ASSERT_TRUE(whole != NULL && whole->memory.held_bytes > 0 && whole->live_bytes > 0);
    EXPECT_U64_EQ(0, whole->detail.before_events);
    for (size_t unseen = 1; unseen < EVENTS; unseen += 23) {
        ENDING_REPORT mend_report *part = recorded_from(unseen);
        ASSERT_TRUE(part != NULL);
        EXPECT_U64_EQ(whole->live_bytes, part->live_bytes);
        EXPECT_U64_EQ(whole->capacity_bytes, part->capacity_bytes);
        EXPECT_TRUE(memcmp(&whole->memory, &part->memory, sizeof(part->memory)) == 0);
        const mend_report_owner *old = owner_of(part, "from before");
        EXPECT_TRUE(unseen < 200 || (old != NULL && old->bytes > 0));
    }
}

/* ---- other allocators ---------------------------------------------------------------------- */

/* A search that halves finds the same as one that tries each step, within its step. */
MEND_TEST(report, others_need_what_replay_says)
{
    ENDING_REPORT mend_report *report = NULL;
    ASSERT_RESULT(MEND_OK,
                  mend_report_create(MEND_TRACES_DIR "/gpt2-medium-pretrain.csv.gz", 0, &report));
    /* Runs that fail on the way set the last error. */
    ASSERT_TRUE(mend_report_find_others(report, false, MEND_REPORT_BUDGET) == MEND_OK);
    EXPECT_U64_EQ(3, report->other_count);
    for (size_t i = 0; i < report->other_count; i++) {
        const mend_report_other *other = &report->others[i];
        EXPECT_TRUE(other->is_known && other->is_close);
        mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
        ENDING_RESULT mend_replay_result fit =
            fixture_replay(report->trace, other->policy, "fit", &options);
        uint64_t step = report->trace->peak_live_bytes / 100;
        MEND_TEST_CHECK(fit.fit_capacity_bytes <= other->needs_bytes + step &&
                            other->needs_bytes <= fit.fit_capacity_bytes + step,
                        (void)0, "%s: %llu, by replay %llu", other->policy,
                        (unsigned long long)other->needs_bytes,
                        (unsigned long long)fit.fit_capacity_bytes);
    }
}

MEND_TEST(report, what_is_too_long_is_not_simulated)
{
    ENDING_REPORT mend_report *report = report_of(program_named("steady", true));
    ASSERT_TRUE(report != NULL);
    uint64_t events = report->trace->event_count;
    ASSERT_RESULT(MEND_OK, mend_report_find_others(report, false, 6 * events - 3));
    for (size_t i = 0; i < report->other_count; i++) {
        EXPECT_FALSE(report->others[i].is_known);
    }
    EXPECT_U64_EQ(0, report->simulated_events);
    ASSERT_TRUE(mend_report_find_others(report, true, MEND_REPORT_MORE_BUDGET) == MEND_OK);
    EXPECT_TRUE(report->other_count > 3 && report->others[report->other_count - 1].is_known);
}

/* A program of few sizes that come and go. */
static fixture_file mixed_program(uint64_t seed)
{
    mend_test_random random;
    mend_test_random_init(&random, seed);
    uint64_t sizes[6];
    for (size_t i = 0; i < 6; i++) {
        sizes[i] = (1 + 2 * mend_test_random_below(&random, 22)) * (MIB / 2);
    }
    struct {
        uint64_t block;
        uint64_t size_bytes;
    } live[160];
    uint64_t count = 0;
    program p;
    program_begin(&p, true);
    for (size_t i = 0; i < 160; i++) {
        if (count > 0 && mend_test_random_below(&random, 100) < 48) {
            const uint64_t at = mend_test_random_below(&random, count);
            program_free(&p, live[at].block, live[at].size_bytes);
            live[at] = live[--count];
        } else {
            live[count].size_bytes = sizes[mend_test_random_below(&random, 6)];
            live[count].block = program_alloc(&p, 0, live[count].size_bytes);
            count++;
        }
    }
    return program_end(&p, "");
}

/* An allocator that fails with some memory needs more, even if it completed with less: Mend,
 * PyTorch with expandable segments and its caching allocator do with these. */
MEND_TEST(report, what_fails_on_the_device_needs_more_than_it_has)
{
    static const struct {
        uint64_t seed;
        uint64_t mib; /* beyond the peak */
    } cases[] = {{33, 12}, {58, 24}, {226, 26}, {226, 900}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        ENDING_REPORT mend_report *report = report_of(mixed_program(cases[k].seed));
        ASSERT_TRUE(report != NULL);
        report->capacity_bytes = report->peak_bytes + cases[k].mib * MIB;
        ASSERT_TRUE(mend_report_find_others(report, false, MEND_REPORT_BUDGET) == MEND_OK);
        size_t fail = 0;
        for (size_t i = 0; i < report->other_count; i++) {
            const mend_report_other *other = &report->others[i];
            ASSERT_TRUE(other->is_known && other->knows_here);
            fail += !other->completes_here;
            EXPECT_TRUE(other->completes_here || other->needs_bytes > report->capacity_bytes);
            for (uint64_t step = 1; step <= 4; step++) { /* of a page */
                char bytes[32];
                snprintf(bytes, sizeof(bytes), "%" PRIu64, other->needs_bytes + step * 2 * MIB);
                mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
                ENDING_RESULT mend_replay_result more =
                    fixture_replay(report->trace, other->policy, bytes, &options);
                MEND_TEST_CHECK(more.completed, (void)0, "%s, seed %zu", other->policy,
                                (size_t)cases[k].seed);
            }
        }
        EXPECT_TRUE((fail > 0) == (cases[k].mib < 900));
    }
}

/* Others must serve a failed request too, even if the program went on. */
MEND_TEST(report, others_must_serve_the_request_that_failed)
{
    program p;
    program_begin(&p, true);
    program_alloc(&p, 0, 10 * MIB);
    program_refuse(&p, 500 * MIB, 0);
    program_alloc(&p, 0, 10 * MIB);
    ENDING_REPORT mend_report *report = report_of(program_end(&p, ""));
    ASSERT_TRUE(report != NULL);
    ASSERT_TRUE(mend_report_find_others(report, false, MEND_REPORT_BUDGET) == MEND_OK);
    EXPECT_TRUE(report->others[0].is_known && report->others[0].needs_bytes >= 510 * MIB);
    EXPECT_U64_EQ(20 * MIB, report->peak_bytes);
}
