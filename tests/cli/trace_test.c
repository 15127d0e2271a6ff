/* Traces as files: read ones, and refused ones with file and line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lab/trace/read.h"
#include "tests/cli/fixture.h"
#include "tests/cli/program.h"
#include "tests/support/test.h"

MEND_TEST(trace, reads_columns_in_decimal_and_hexadecimal)
{
    ENDING_TRACE mend_trace *trace =
        fixture_trace(TRACE_HEAD "1,10:00:00:1,allocate,0x7f00,1000,0x0\n"
                                 "1,10:00:00:2,allocate,5,0x400,7\r\n"
                                 " 2 , x , free , 32512 , 1000 , 0 \n");
    ASSERT_TRUE(trace != NULL);
    EXPECT_U64_EQ(3, trace->event_count);
    EXPECT_U64_EQ(2, trace->block_count);
    EXPECT_U64_EQ(2, trace->stream_count);
    EXPECT_U64_EQ(0, trace->stream_names[0]);
    EXPECT_U64_EQ(7, trace->stream_names[1]);
    EXPECT_U64_EQ(2, trace->thread_count);
    EXPECT_TRUE(trace->events[0].is_alloc);
    EXPECT_U64_EQ(1000, trace->events[0].size_bytes);
    EXPECT_U64_EQ(1024, trace->events[1].size_bytes);
    EXPECT_U64_EQ(1, trace->events[1].stream);
    EXPECT_FALSE(trace->events[2].is_alloc);
    EXPECT_U64_EQ(0, trace->events[2].block);
    EXPECT_U64_EQ(1, trace->events[2].thread);
    EXPECT_U64_EQ(2048, trace->peak_live_bytes);
}

static void expect_refused(const char *text, const char *complaint)
{
    ENDING_TRACE mend_trace *trace = fixture_read_trace(text);
    MEND_TEST_CHECK(trace == NULL && strstr(fixture_message(), complaint) != NULL, (void)0,
                    "\"%s\" does not say \"%s\", of\n%s", fixture_message(), complaint, text);
}

static void expect_event(const mend_trace *trace, size_t i, uint64_t size_bytes, bool is_alloc,
                         bool has_failed)
{
    MEND_TEST_CHECK(i < trace->event_count && trace->events[i].size_bytes == size_bytes &&
                        trace->events[i].is_alloc == is_alloc &&
                        trace->events[i].has_failed == has_failed,
                    (void)0, "event %zu of %zu", i, trace->event_count);
}

/* It is freed at once. The peak has the one that ended the recording, none that it survived. */
MEND_TEST(trace, a_request_that_failed_is_an_event)
{
    ENDING_TRACE mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,1,512,0\n"
                                                              "0,0,allocate failure,(nil),5000,8\n"
                                                              "0,0,allocate,2,512,0\n"
                                                              "0,0,free,1,512,0\n"
                                                              "0,0,allocate failure,0x0,1024,0\n"
                                                              "0,0,free,2,512,0");
    ASSERT_TRUE(trace != NULL && trace->event_count == 8);
    expect_event(trace, 1, 5000, true, true);
    expect_event(trace, 2, 5000, false, true);
    expect_event(trace, 3, 512, true, false);
    expect_event(trace, 5, 1024, true, true);
    expect_event(trace, 6, 1024, false, true);
    EXPECT_U64_EQ(1, trace->events[1].stream);
    EXPECT_TRUE(mend_trace_may_fail(trace, 1) && !mend_trace_may_fail(trace, 5));
    EXPECT_U64_EQ(2, trace->failed_count);
    EXPECT_U64_EQ(1, trace->failed_last);
    EXPECT_U64_EQ(512 + 1024, trace->peak_live_bytes);
    char text[MEND_TRACE_FAILURES_BYTES];
    mend_trace_tell_failures(trace, text, sizeof(text));
    EXPECT_STR_EQ("In the recording 1 request failed, and the program went on. An allocator that "
                  "cannot serve it goes on, too. The recording ended when a request of 1.00 KiB "
                  "failed. An allocator completes it only if it serves this request.",
                  text);
    EXPECT_RESULT(MEND_OK, mend_trace_scale(trace, 0.5));
    EXPECT_U64_EQ(1024 + 2048, trace->peak_live_bytes);
}

MEND_TEST(trace, a_failed_request_that_no_device_can_serve_is_counted)
{
    ENDING_TRACE mend_trace *trace =
        fixture_trace(TRACE_HEAD "0,0,allocate,1,512,0\n"
                                 "0,0,allocate failure,(nil),1099511627777,0\n"
                                 "0,0,allocate failure,(nil),0x7fffffffffffffff,0\n"
                                 "0,0,allocate failure,(nil),0,0\n");
    ASSERT_TRUE(trace != NULL);
    EXPECT_U64_EQ(1, trace->event_count);
    EXPECT_STR_EQ("skipped failed requests of more than 1 TiB: 2", trace->note);
}

/* A program that ends by force leaves its last row unfinished. */
MEND_TEST(trace, a_last_row_that_is_cut_off_is_skipped_and_named)
{
    static const char whole[] = TRACE_HEAD "0,0,allocate,1,512,0x10\n0,1,free,1,512,0x10";
    const char *row = strrchr(whole, '\n') + 1;
    const char *stream = strrchr(whole, ',') + 1;
    for (const char *cut = row + 1; cut <= stream; cut++) {
        char text[sizeof(whole)] = "";
        memcpy(text, whole, (size_t)(cut - whole));
        ENDING_TRACE mend_trace *trace = fixture_trace(text);
        ASSERT_TRUE(trace != NULL);
        MEND_TEST_CHECK(
            trace->event_count == 1 && strcmp(trace->note, "skipped line 3, which is cut off") == 0,
            (void)0, "%zu events of \"%s\", \"%s\"", trace->event_count, text, trace->note);
    }
    mend_trace *trace = fixture_trace(whole);
    ASSERT_TRUE(trace != NULL);
    EXPECT_U64_EQ(2, trace->event_count);
    EXPECT_TRUE(trace->note[0] == 0);
    mend_trace_destroy(trace);
    /* A row that ends and is wrong is no such row, nor is one that contradicts those before it. */
    expect_refused(TRACE_HEAD "0,0,allocate,1,512,0\n0,1,fr\n", ":3: not 6 fields");
    expect_refused(TRACE_HEAD "0,0,allocate,1,512,0\n0,1,free,2,9,0", ":3: free of 2");
    expect_refused(TRACE_HEAD "0,0,alloc", "no events");
}

MEND_TEST(trace, blocks_of_no_bytes_may_share_an_address)
{
    mend_trace *trace = fixture_trace(TRACE_HEAD "0,0,allocate,(nil),0,(nil)\n"
                                                 "0,1,allocate,0x0,0,0\n"
                                                 "0,2,allocate,(nil),0,0\n"
                                                 "0,3,free,(nil),0,0\n"
                                                 "0,4,allocate,(nil),0,0\n"
                                                 "0,5,free,(nil),0,0\n"
                                                 "0,6,free,0x0,0,0\n"
                                                 "0,7,deallocate,(nil),0,0\n"
                                                 "0,8,allocate,(nil),512,0\n");
    ASSERT_TRUE(trace != NULL);
    static const uint32_t blocks[] = {0, 1, 2, 2, 3, 3, 1, 0, 4};
    EXPECT_U64_EQ(9, trace->event_count);
    for (size_t i = 0; i < trace->event_count; i++) {
        EXPECT_U64_EQ(blocks[i], trace->events[i].block);
    }
    EXPECT_U64_EQ(1, trace->stream_count);
    EXPECT_U64_EQ(512, trace->peak_live_bytes);
    mend_trace_destroy(trace);
    static const char *const wrong[] = {
        TRACE_HEAD "0,0,allocate,1,0,0\n0,0,allocate,1,9,0\n",
        TRACE_HEAD "0,0,allocate,1,9,0\n0,0,allocate,1,0,0\n",
        TRACE_HEAD "0,0,allocate,1,0,0\n0,0,free,1,0,0\n0,0,free,1,0,0\n",
        TRACE_HEAD "0,0,allocate,1,(nil),0\n",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        expect_refused(wrong[i], "");
    }
}

/* RMM writes 0x2 for it whatever the thread. 2 is a name like others. */
MEND_TEST(trace, the_per_thread_default_stream_is_another_one_in_each_thread)
{
    ENDING_TRACE mend_trace *trace = fixture_trace(TRACE_HEAD "7,0,allocate,0x1,512,0x2\n"
                                                              "8,1,allocate,0x2,512,0x2\n"
                                                              "0,2,allocate,0x3,512,0x2\n"
                                                              "7,3,allocate,0x4,512,2\n"
                                                              "8,4,allocate,0x5,512,2\n"
                                                              "8,5,free,0x1,512,0x2\n");
    ASSERT_TRUE(trace != NULL);
    static const uint16_t streams[] = {0, 1, 2, 3, 3, 1};
    EXPECT_U64_EQ(4, trace->stream_count);
    for (size_t i = 0; i < trace->event_count; i++) {
        EXPECT_U64_EQ(streams[i], trace->events[i].stream);
        EXPECT_TRUE(trace->stream_names[trace->events[i].stream] != 0);
    }
}

MEND_TEST(trace, a_byte_order_mark_does_not_count)
{
    ENDING_TRACE mend_trace *trace =
        fixture_trace("\xef\xbb\xbf" TRACE_HEAD "0,0,allocate,1,512,0\n");
    ASSERT_TRUE(trace != NULL);
}

MEND_TEST(trace, refuses_bad_lines_with_line_and_reason)
{
    static const struct {
        const char *text;
        const char *complaint;
    } cases[] = {
        {"", ":1: the file is empty"},
        {"hello\n", ":1: not a known trace"},
        {"Thread,Time,Action,Pointer,Size\n", ":1: not a known trace"},
        {TRACE_HEAD, "no events"},
        {TRACE_HEAD "0,0,free,9,1,0\n", ":2: free of 9"},
        {TRACE_HEAD "0,0,allocate,9,1,0\n0,0,free,9,1,0\n0,0,free,9,1,0\n", ":4: free of 9"},
        {TRACE_HEAD "0,0,allocate,9,1,0\n\n0,0,allocate,9,1,0\n", ":4: 9 is allocated again"},
        {TRACE_HEAD "0,0,alloc,9,1,0\n", ":2: unknown action \"alloc\""},
        {TRACE_HEAD "0,0,allocate,9,1\n", ":2: not 6 fields"},
        {TRACE_HEAD "0,0,allocate,9,1,0,0\n", ":2: not 6 fields"},
        {TRACE_HEAD "0,0,allocate,9,,0\n", ":2: Size \"\""},
        {TRACE_HEAD "0,0,allocate,9,-1,0\n", ":2: Size \"-1\""},
        {TRACE_HEAD "0,0,allocate,9,+1,0\n", ":2: Size \"+1\""},
        {TRACE_HEAD "0,0,allocate,9,12x,0\n", ":2: Size \"12x\""},
        {TRACE_HEAD "0,0,allocate,9,0x,0\n", ":2: Size \"0x\""},
        {TRACE_HEAD "0,0,allocate,9,99999999999999999999,0\n", ":2: Size"},
        {TRACE_HEAD "0,0,allocate,9,0x1000000000000001,0\n", "above 2^60"},
        {TRACE_HEAD "0,0,allocate,zz,1,0\n", ":2: Pointer \"zz\""},
        {TRACE_HEAD "0,0,allocate,0xffffffffffffffff,1,0\n", ":2: Pointer"},
        {TRACE_HEAD "0,0,allocate,9,1,default\n", ":2: Stream \"default\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        expect_refused(cases[i].text, cases[i].complaint);
    }
}

MEND_TEST(trace, refuses_what_is_no_text)
{
    static char line[10000];
    memset(line, 'a', sizeof(line) - 1);
    expect_refused(line, ":1: the line is longer");
    fixture_file zeros = fixture_write(".csv", "\0\0\0\0", 4);
    mend_trace *trace = NULL;
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trace_read(zeros.path, &trace));
    fixture_remove(&zeros);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trace_read("/no/such/file.csv", &trace));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trace_read("/", &trace));
    EXPECT_TRUE(trace == NULL);
}

/* The bytes of a file that holds a text, compressed. */
static size_t compressed(const char *text, unsigned char bytes[4096])
{
    ENDING_FILE fixture_file file = fixture_write_gzip(".gz", text);
    const size_t size = read_all(file.path, (char *)bytes, 4096);
    EXPECT_TRUE(size > 20);
    return size;
}

/* Reads a compressed trace of these bytes, and counts its events. 0 where it is refused. */
static mend_result read_bytes(const void *bytes, size_t size, uint64_t *events)
{
    fixture_file file = fixture_write(".csv.gz", bytes, size);
    mend_trace *trace = NULL;
    mend_result result = mend_trace_read(file.path, &trace);
    *events = trace != NULL ? trace->event_count : 0;
    mend_trace_destroy(trace);
    fixture_remove(&file);
    return result;
}

MEND_TEST(trace, a_compressed_file_cut_short_is_refused)
{
    unsigned char bytes[4096];
    uint64_t events;
    size_t size = compressed(
        TRACE_HEAD "0,0,allocate,1,513,0\n0,0,allocate,2,99,0\n0,0,free,1,513,0\n", bytes);
    for (size_t cut = 2; cut < size; cut += 3) {
        mend_result result = read_bytes(bytes, cut, &events);
        MEND_TEST_CHECK(result == MEND_ERROR_INVALID_ARGUMENT, (void)0, "cut at %zu of %zu: %s",
                        cut, size, mend_result_name(result));
    }
}

/* `size` bytes behind a compressed trace of one event, in a file that is read. */
static mend_result read_followed_by(const void *bytes, size_t size, uint64_t *events)
{
    unsigned char whole[8192];
    size_t first_size = compressed(TRACE_HEAD "0,0,allocate,1,513,0\n", whole);
    memcpy(whole + first_size, bytes, size);
    return read_bytes(whole, first_size + size, events);
}

MEND_TEST(trace, what_follows_compressed_data_is_refused)
{
    static const struct {
        const char *bytes;
        size_t size;
    } garbage[] = {{"\n", 1},      {"x", 1},        {"0,0,allocate,2,513,0\n", 21},
                   {"\x1f", 1},    {"\x1f\x8c", 2}, {"\0\0\0\0", 4},
                   {"\x1f\x8b", 2}};
    for (size_t i = 0; i < sizeof(garbage) / sizeof(*garbage); i++) {
        uint64_t events;
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT,
                      read_followed_by(garbage[i].bytes, garbage[i].size, &events));
        /* Bytes that begin as a member of a compressed file are a cut one. */
        EXPECT_TRUE(i >= 5 || strstr(fixture_message(), "follows the compressed data") != NULL);
    }
}

MEND_TEST(trace, members_of_a_compressed_file_are_one_text)
{
    unsigned char bytes[4096];
    uint64_t events;
    size_t size = compressed("0,0,allocate,2,513,0\n0,0,free,1,513,0\n", bytes);
    EXPECT_RESULT(MEND_OK, read_followed_by(bytes, size, &events));
    EXPECT_U64_EQ(3, events);
}

MEND_TEST(trace, scaling_divides_sizes_and_the_peak)
{
    ENDING_TRACE mend_trace *trace = fixture_steps("1+100K 2+100 -1");
    ASSERT_TRUE(trace != NULL);
    ASSERT_RESULT(MEND_OK, mend_trace_scale(trace, 100));
    EXPECT_U64_EQ(1024, trace->events[0].size_bytes);
    EXPECT_U64_EQ(512, trace->events[1].size_bytes);
    EXPECT_U64_EQ(1024, trace->events[2].size_bytes);
    EXPECT_U64_EQ(1536, trace->peak_live_bytes);
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, mend_trace_scale(trace, 0));
}

MEND_TEST(trace, the_bundled_recordings_are_what_their_readme_says)
{
    static const struct {
        const char *name;
        uint64_t events, peak_mib, streams;
    } recordings[] = {{"gpt2-medium-pretrain", 28266, 26573, 1},
                      {"detector-varboxes", 40706, 5462, 1},
                      {"fsdp-llama-2stream", 64086, 11762, 2}};
    for (size_t i = 0; i < 3; i++) {
        ENDING_TRACE mend_trace *trace = fixture_recording(recordings[i].name);
        ASSERT_TRUE(trace != NULL);
        EXPECT_U64_EQ(recordings[i].events, trace->event_count);
        EXPECT_U64_EQ(recordings[i].peak_mib, trace->peak_live_bytes >> 20);
        EXPECT_U64_EQ(recordings[i].streams, trace->stream_count);
    }
}
