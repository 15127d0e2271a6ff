/* PyTorch's memory snapshots as traces, and the readers of pickles and of JSON under them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/trace/read.h"
#include "tests/cli/fixture.h"
#include "tests/cli/program.h"
#include "tests/support/test.h"

/* Writes a snapshot to a file, in a protocol of pickles or as "json". Device 1 has most events. */
static const char writer[] =
    "import json, pickle, sys\n"
    "frames = [{'filename': '/a/b.py', 'line': 3, 'name': 'f'}, {'name': 'g \\u00e9 \\n'}]\n"
    "def event(action, addr=0, size=0, stream=0):\n"
    "    return dict(action=action, addr=addr, size=size, stream=stream, time_us=10**15,\n"
    "                frames=frames, pool_id=(0, 1))\n"
    "A, B, S = 0x7f0000000000, 0x7f0000100000, 0x55d0c3a01230\n"
    "events = [event('free_requested', B, 512), event('free_completed', B, 512),\n"
    "          event('segment_alloc', A, 1 << 21), event('alloc', A, 1024),\n"
    "          event('alloc', B, 1 << 33, S), event('free_requested', A, 1024),\n"
    "          event('free_completed', A, 1024), event('alloc', A, 4096),\n"
    "          event('alloc', A, 512), event('segment_map', B, 1),\n"
    "          dict(action='oom', size=9, device_free=3, stream=0, frames=[])]\n"
    "snapshot = {'segments': [{'address': A, 'size': -1, 'blocks': [frames, frames]}],\n"
    "            'device_traces': [[event('alloc', A, 7)] * 2, events, []],\n"
    "            'allocator_settings': {'expandable_segments': True, 'fraction': 0.5,\n"
    "                                   'name': None, 'big': 1 << 70, 'list': [False] * 3}}\n"
    "path, kind = sys.argv[1:]\n"
    "with open(path, 'wb') as f:\n"
    "    f.write(json.dumps(snapshot, indent=1).encode() if kind == 'json'\n"
    "            else pickle.dumps(snapshot, int(kind)))\n";

static fixture_file written(const char *kind)
{
    fixture_file script = fixture_write_text(".py", writer);
    fixture_file file = fixture_write_text(".pickle", "");
    char command[1024];
    snprintf(command, sizeof(command), "python3 '%s' '%s' %s", script.path, file.path, kind);
    EXPECT_U64_EQ(0, (uint64_t)system(command));
    fixture_remove(&script);
    return file;
}

static const char note[] = "blocks from before the recording: 1, skipped events of segments: 2, "
                           "skipped events of other devices: 2, "
                           "added frees that were not recorded: 1";

MEND_TEST(snapshot, becomes_a_trace_whatever_wrote_it)
{
    static const char *const kinds[] = {"2", "3", "4", "5", "json"};
    static const struct {
        uint64_t size_bytes;
        uint32_t block;
        uint16_t stream;
        bool is_alloc;
        bool has_failed;
    } events[] = {{.size_bytes = 512, .is_alloc = true},
                  {.size_bytes = 512},
                  {.size_bytes = 1024, .block = 1, .is_alloc = true},
                  {.size_bytes = UINT64_C(1) << 33, .block = 2, .stream = 1, .is_alloc = true},
                  {.size_bytes = 1024, .block = 1},
                  {.size_bytes = 4096, .block = 3, .is_alloc = true},
                  {.size_bytes = 4096, .block = 3},
                  {.size_bytes = 512, .block = 4, .is_alloc = true},
                  {.size_bytes = 9, .block = 5, .is_alloc = true, .has_failed = true},
                  {.size_bytes = 9, .block = 5, .has_failed = true}};
    const size_t count = sizeof(events) / sizeof(*events);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        ENDING_FILE fixture_file file = written(kinds[k]);
        ENDING_TRACE mend_trace *trace = NULL;
        MEND_TEST_CHECK(mend_trace_read(file.path, &trace) == MEND_OK, return, "%s: %s", kinds[k],
                        fixture_message());
        ASSERT_TRUE(trace->event_count == count);
        for (size_t i = 0; i < count; i++) {
            EXPECT_U64_EQ(events[i].size_bytes, trace->events[i].size_bytes);
            EXPECT_U64_EQ(events[i].block, trace->events[i].block);
            EXPECT_U64_EQ(events[i].stream, trace->events[i].stream);
            EXPECT_TRUE(events[i].is_alloc == trace->events[i].is_alloc);
            EXPECT_TRUE(events[i].has_failed == trace->events[i].has_failed);
        }
        EXPECT_U64_EQ(0, trace->stream_names[0]);
        EXPECT_U64_EQ((UINT64_C(1) << 33) + 4096, trace->peak_live_bytes);
        EXPECT_STR_EQ(note, trace->note);
        char name[256];
        mend_trace_short_name(trace, name, sizeof(name));
        EXPECT_TRUE(strstr(name, ".pickle") == NULL);
    }
}

MEND_TEST(snapshot, replay_says_in_one_line_what_it_skipped)
{
    ENDING_FILE fixture_file file = written("4");
    char line[1024];
    snprintf(line, sizeof(line), "libmend replay: %s: %s\n", file.path, note);
    const ended_run outcome =
        expect_run(0, command_line("replay --json '%s'", file.path), "'events': 10", line);
    EXPECT_U64_EQ(strlen(line), strlen(outcome.err));
}

/* A history that began late, and a program that ran out of memory on 3 GiB. */
MEND_TEST(snapshot, what_lived_before_the_recording_counts_for_the_failure)
{
    static const char text[] =
        "{\"segments\": [{\"address\": 4096, \"total_size\": 2147483648, \"device\": 0, "
        "\"stream\": 0,"
        " \"blocks\": [{\"address\": 4096, \"size\": 2147483648, \"state\": "
        "\"active_allocated\"}]}],"
        " \"device_traces\": [[{\"action\": \"alloc\", \"addr\": 8589934592, \"size\": 943718400,"
        " \"stream\": 0}, {\"action\": \"oom\", \"size\": 131072000, \"device_free\": 0,"
        " \"stream\": 0}]]}";
    ENDING_FILE fixture_file file = fixture_write_text(".json", text);
    expect_run(1, command_line("replay --allocator caching --capacity 3GiB,4GiB '%s'", file.path),
               "4 events, peak live 3.00 GiB\nThe recording ended when a request of 125.00 MiB "
               "failed. ...out at 50 %...completes",
               "libmend replay: ...: blocks from before the recording: 1\n");
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void expect_refused(const char *complaint, const void *bytes, size_t size)
{
    ENDING_FILE fixture_file file = fixture_write(".pickle", bytes, size);
    ENDING_TRACE mend_trace *trace = NULL;
    mend_result result = mend_trace_read(file.path, &trace);
    MEND_TEST_CHECK(
        result == MEND_ERROR_INVALID_ARGUMENT && strstr(fixture_message(), complaint) != NULL,
        (void)0, "%zu bytes: %s: \"%s\" does not say \"%s\"", size, mend_result_name(result),
        result == MEND_OK ? "" : fixture_message(), complaint);
}

#define EXPECT_REFUSED(complaint, bytes) expect_refused(complaint, bytes, sizeof(bytes) - 1)
#define PROTO                            "\x80\x04"

MEND_TEST(snapshot, a_pickle_that_would_run_something_is_refused)
{
    static const char complaint[] = "nothing of a pickle is run";
    EXPECT_REFUSED(complaint, PROTO "cos\nsystem\n(X\x04\0\0\0truetR.");
    EXPECT_REFUSED("byte 2: opcode 0x63 is none of plain data", PROTO "cos\nsystem\n.");
    EXPECT_REFUSED(complaint, PROTO "\x8c\x02os\x8c\x06system\x93.");
    static const char codes[] = "RbioPQ\x81\x92\x82\x83\x84\x97IFSVLgplBCTU\xff";
    for (const char *code = codes; *code != 0; code++) {
        char bytes[] = {'\x80', 4, '(', 'N', 'N', *code, '0', '\n', '.'};
        expect_refused(complaint, bytes, sizeof(bytes));
    }
}

MEND_TEST(snapshot, a_pickle_that_is_no_value_is_refused)
{
    EXPECT_REFUSED("byte 0: a pickle of a newer protocol", "\x80\x06N.");
    EXPECT_REFUSED("byte 2: the file ends too early", PROTO);
    EXPECT_REFUSED("byte 2: the file ends too early", PROTO "J\1\2\3");
    EXPECT_REFUSED("the file ends too early", PROTO "X\xff\xff\xff\xffxyz.");
    EXPECT_REFUSED("the file ends too early", PROTO "\x8d\xff\xff\xff\xff\xff\xff\xff\xffxyz.");
    EXPECT_REFUSED("without its values", PROTO "a.");
    EXPECT_REFUSED("without its values", PROTO "Na.");
    EXPECT_REFUSED("without its values", PROTO "]N(a.");
    EXPECT_REFUSED("without its values", PROTO "NN(\x86.");
    EXPECT_REFUSED("without its values", PROTO "N(q\0.");
    EXPECT_REFUSED("without its values", PROTO "(e.");
    EXPECT_REFUSED("without its values", PROTO "N\x86.");
    EXPECT_REFUSED("without its values", PROTO "q\0.");
    EXPECT_REFUSED("without its mark", PROTO "]e.");
    EXPECT_REFUSED("without its mark", PROTO "t.");
    EXPECT_REFUSED("neither a list nor a dictionary", PROTO "NNa.");
    EXPECT_REFUSED("a key without a value", PROTO "}(Nu.");
    EXPECT_REFUSED("another number of values than one", PROTO ".");
    EXPECT_REFUSED("another number of values than one", PROTO "NN.");
    EXPECT_REFUSED("another number of values than one", PROTO "(N.");
    EXPECT_REFUSED("the memo that is not there", PROTO "h\0.");
    EXPECT_REFUSED("the memo that is not there", PROTO "Nq\5h\4.");
    EXPECT_REFUSED("more values than the file has bytes", PROTO "Nr\xff\xff\xff\xff.");
    EXPECT_REFUSED("it has no \"device_traces\"", PROTO "N.");
}

MEND_TEST(snapshot, a_list_in_itself_is_refused)
{
    EXPECT_REFUSED("or into itself", PROTO "]q\0h\0a.");
    EXPECT_REFUSED("or into itself", PROTO "]q\0]q\1h\0ah\1a.");
    EXPECT_REFUSED("or into itself", PROTO "}q\0X\4\0\0\0sizeh\0s.");
}

MEND_TEST(snapshot, nesting_has_a_limit)
{
    static char bytes[200002];
    for (int opening = 0; opening < 3; opening++) {
        const char letter = "[(]"[opening];
        size_t size = 0;
        if (letter != '[') {
            bytes[size++] = '\x80';
            bytes[size++] = 4;
        }
        memset(bytes + size, letter, 100000);
        size += 100000;
        if (letter == ']') { /* each into the one before it */
            memset(bytes + size, 'a', 99999);
            size += 99999;
            bytes[size++] = '.';
        }
        expect_refused("nested too deep", bytes, size);
    }
}

MEND_TEST(snapshot, json_that_is_none_is_refused)
{
    static const struct {
        const char *text;
        const char *complaint;
    } cases[] = {
        {"{", "byte 1: the file ends too early"},
        {"{\"a\"", "the file ends too early"},
        {"{\"a\" 1}", "a key without a value"},
        {"{1: 2}", "a key is no text"},
        {"[1 2]", "neither a comma"},
        {"[1}", "neither a comma"},
        {"[1", "the file ends too early"},
        {"[\"a", "the file ends too early"},
        {"[\"a\n\"]", "a control character"},
        {"[\"\\x\"]", "an unknown escape"},
        {"[\"\\u12g4\"]", "\\u without four digits"},
        {"[nul]", "an unknown word"},
        {"[NaN]", "neither a text"},
        {"[1.2.3]", "neither a text"},
        {"[1111111111111111111111111111111111111111111111111111111111111111]", "too long"},
        {"[]", "it is no memory snapshot of PyTorch: it has no \"device_traces\""},
        {"{}", "it is no memory snapshot of PyTorch: it has no \"device_traces\""},
        {"[24226][14:33:55:193562][info  ] [A][Stream 0x1][Upstream 512B]\n", "a debug log of RMM"},
        {"[ 4976][11:57:33:133463][error ] no memory\n", "a debug log of RMM"},
        {"{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\"}]}", "it is a Chrome trace"},
        {"[{\"name\": \"f\", \"ph\": \"X\", \"ts\": 1}]", "it is a Chrome trace"},
        {"[[1, 2, 3], [[0, 512], [0, 1024]]]", "perhaps a memory timeline"},
        {"{\"device_traces\": [[]]}", "the snapshot has no allocations"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        expect_refused(cases[i].complaint, cases[i].text, strlen(cases[i].text));
    }
}

#define EVENTS(text) "{\"device_traces\": [[], [" text "]]}"

MEND_TEST(snapshot, a_wrong_event_is_named)
{
    static const struct {
        const char *text;
        const char *complaint;
    } cases[] = {
        {EVENTS("7"), "device_traces[1][0]: an event without an action"},
        {EVENTS("{\"action\": \"oom\"}, {}"), "device_traces[1][1]: an event without an action"},
        {EVENTS("{\"action\": \"alloc\", \"addr\": 1, \"size\": -1, \"stream\": 0}"),
         "device_traces[1][0]: addr, size or stream is no number"},
        {EVENTS("{\"action\": \"alloc\", \"addr\": 1, \"size\": 1}"), "is no number"},
        {EVENTS("{\"action\": \"free_completed\", \"addr\": \"1\", \"size\": 1, \"stream\": 0}"),
         "is no number"},
        {EVENTS("{\"action\": \"alloc\", \"addr\": 18446744073709551615, \"size\": 1, "
                "\"stream\": 0}"),
         "too large"},
        {EVENTS("{\"action\": \"alloc\", \"addr\": 1, \"size\": 1152921504606846977, "
                "\"stream\": 0}"),
         "device_traces[1][0]: a block is too large"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        expect_refused(cases[i].complaint, cases[i].text, strlen(cases[i].text));
    }
}

MEND_TEST(snapshot, every_cut_is_refused)
{
    static const char *const kinds[] = {"2", "4", "json"};
    for (size_t k = 0; k < 3; k++) {
        static char good[16384];
        ENDING_FILE fixture_file file = written(kinds[k]);
        const size_t size = read_all(file.path, good, sizeof(good));
        ASSERT_TRUE(size > 500 && size < sizeof(good) - 1);
        for (size_t cut = 1; cut < size; cut += 13) {
            expect_refused("the file ends too early", good, cut);
        }
    }
}

/* ---- the values ------------------------------------------------------------------------------ */

/* The numbers of a list are these, where 7777 replaces a number above 64 bits. */
static void expect_numbers(const void *bytes, size_t size, const uint64_t *numbers, size_t count)
{
    mend_value_store store;
    mend_value_store_init(&store, NULL);
    ASSERT_RESULT(MEND_OK, fixture_read_values(bytes, size, &store));
    EXPECT_U64_EQ(count, mend_value_count(store.stack[0]));
    for (size_t i = 0; i < count; i++) {
        mend_value value = store.stack[0].items->values[i];
        EXPECT_U64_EQ(numbers[i], value.kind == MEND_VALUE_NUMBER ? value.number : 7777);
    }
    mend_value_store_clear(&store);
}

MEND_TEST(values, numbers_of_all_forms)
{
    static const char pickle[] = PROTO "](K\376eM\1\2a(J\1\2\3\4J\xff\xff\xff\xff\x8a\0"
                                       "\x8a\x01\xff\x8a\x02\xff\0"
                                       "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"
                                       "\x8a\x09\0\0\0\0\0\0\0\0\1\x88\x89Ne.";
    static const uint64_t in_pickle[] = {0xfe, 0x201,      0x4030201, 7777, 0, 7777,
                                         255,  UINT64_MAX, 7777,      1,    0, 7777};
    expect_numbers(pickle, sizeof(pickle) - 1, in_pickle, 12);
    static const char json[] = "[0, 18446744073709551615,18446744073709551616 , -1, 1.5, 2e3,"
                               "\ttrue, false, null]";
    static const uint64_t in_json[] = {0, UINT64_MAX, 7777, 7777, 7777, 7777, 1, 0, 7777};
    expect_numbers(json, sizeof(json) - 1, in_json, 9);
}

MEND_TEST(values, texts_have_their_escapes_and_long_ones_are_cut)
{
    static char json[10000] = "{\"a\\\"\\u0041\\u00e9\\n\": \"";
    mend_value_store store;
    mend_value_store_init(&store, NULL);
    size_t length = strlen(json);
    memset(json + length, 'x', 9000);
    snprintf(json + length + 9000, sizeof(json) - length - 9000, "\", \"b\": 5}");
    ASSERT_RESULT(MEND_OK, fixture_read_values(json, length + 9010, &store));
    mend_value text = mend_value_of(store.stack[0], "a\"A?\n");
    ASSERT_TRUE(text.kind == MEND_VALUE_TEXT);
    EXPECT_U64_EQ(MEND_VALUE_TEXT_BYTES, strlen(text.text));
    EXPECT_U64_EQ(5, mend_value_of(store.stack[0], "b").number);
    EXPECT_TRUE(mend_value_of(store.stack[0], "c").kind == MEND_VALUE_ABSENT);
    mend_value_store_clear(&store);
    static char pickle[10000] = PROTO "X\x28\x23\0\0"; /* 9000 */
    memset(pickle + 7, 'y', 9000);
    pickle[9007] = '.';
    mend_value_store_init(&store, NULL);
    ASSERT_RESULT(MEND_OK, fixture_read_values(pickle, 9008, &store));
    EXPECT_U64_EQ(MEND_VALUE_TEXT_BYTES, strlen(store.stack[0].text));
    mend_value_store_clear(&store);
}

/* 60 lists, each of which holds the one before it a hundred times: 10^120 when written out. */
/* Each list has the one before it a hundred times. */
static mend_result read_shared(char levels, mend_value_store *store)
{
    char bytes[60 * 210] = PROTO "(]q\0";
    size_t size = 6;
    for (char level = 1; level < levels; level++) {
        memcpy(bytes + size, (char[]){']', 'q', level, '('}, 4);
        size += 4;
        for (int i = 0; i < 100; i++) {
            memcpy(bytes + size, (char[]){'h', (char)(level - 1)}, 2);
            size += 2;
        }
        bytes[size++] = 'e';
    }
    bytes[size++] = 't';
    bytes[size++] = '.';
    return fixture_read_values(bytes, size, store);
}

MEND_TEST(values, what_comes_again_takes_no_memory_but_the_time_to_walk_through_it)
{
    mend_value_store store;
    mend_value_store_init(&store, NULL);
    store.bytes_left = 1 << 20;
    EXPECT_RESULT(MEND_OK, read_shared(5, &store)); /* 100^4 values */
    mend_value_store_clear(&store);
    mend_value_store_init(&store, NULL);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, read_shared(6, &store));
    EXPECT_TRUE(strstr(store.reason, "in one another too often") != NULL);
    mend_value_store_clear(&store);
}

MEND_TEST(values, memory_has_a_limit)
{
    static char bytes[300000] = PROTO;
    memset(bytes + 2, ']', sizeof(bytes) - 2);
    mend_value_store store;
    mend_value_store_init(&store, NULL);
    EXPECT_U64_EQ(MEND_VALUE_STORE_BYTES, store.bytes_left);
    store.bytes_left = 1 << 20;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, fixture_read_values(bytes, sizeof(bytes), &store));
    EXPECT_TRUE(strstr(fixture_message(), "too much host memory") != NULL);
    mend_value_store_clear(&store);
}
