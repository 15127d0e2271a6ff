/* The model of GMLake: when it stitches, what it keeps for later, and what it gives back. */
#include "base/align.h"
#include "lab/replay/replay.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

static mend_replay_result replay_text(const char *text, const char *capacity)
{
    mend_trace *trace = fixture_trace(text);
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    options.check_content = true;
    mend_replay_result result = fixture_replay(trace, "gmlake", capacity, &options);
    EXPECT_U64_EQ(0, result.content_errors);
    EXPECT_TRUE(result.completed);
    mend_trace_destroy(trace);
    return result;
}

#define MIB_20 "20971520"
#define MIB_40 "41943040"

/* Two blocks of 20 MiB that come and go. */
#define TWO_FREED                                                                                  \
    TRACE_HEAD "0,0,allocate,1," MIB_20 ",0\n"                                                     \
               "0,1,allocate,2," MIB_20 ",0\n"                                                     \
               "0,2,free,1," MIB_20 ",0\n"                                                         \
               "0,3,free,2," MIB_20 ",0\n"

MEND_TEST(gmlake, free_blocks_are_stitched_page_by_page)
{
    mend_replay_result result = replay_text(TWO_FREED "0,4,allocate,3," MIB_40 ",0\n", "unlimited");
    EXPECT_U64_EQ(20, result.calls.create_calls);
    EXPECT_U64_EQ(40, result.calls.map_calls);
    EXPECT_U64_EQ(40, result.calls.set_access_calls);
    EXPECT_U64_EQ(40 * MEND_MIB, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
}

MEND_TEST(gmlake, a_stitched_block_serves_the_next_request_of_its_size)
{
    mend_replay_result result = replay_text(TWO_FREED "0,4,allocate,3," MIB_40 ",0\n"
                                                      "0,5,free,3," MIB_40 ",0\n"
                                                      "0,6,allocate,4," MIB_20 ",0\n"
                                                      "0,7,free,4," MIB_20 ",0\n"
                                                      "0,8,allocate,5," MIB_40 ",0\n",
                                            "unlimited");
    EXPECT_U64_EQ(40, result.calls.map_calls);
    mend_replay_result_clear(&result);
    /* But not while one of its parts is in use: that one is missing, and created. */
    result = replay_text(TWO_FREED "0,4,allocate,3," MIB_40 ",0\n"
                                   "0,5,free,3," MIB_40 ",0\n"
                                   "0,6,allocate,4," MIB_20 ",0\n"
                                   "0,7,allocate,5," MIB_40 ",0\n",
                         "unlimited");
    EXPECT_U64_EQ(30, result.calls.create_calls);
    EXPECT_U64_EQ(40 + 10 + 20, result.calls.map_calls);
    EXPECT_U64_EQ(60 * MEND_MIB, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
}

MEND_TEST(gmlake, a_larger_block_is_cut_and_what_it_is_part_of_stays_whole)
{
    /* A block of 4 MiB is cut off one of the parts of a stitched block, and goes again. What is
     * left of that part is in use with the stitched block. */
    mend_replay_result result = replay_text(TWO_FREED "0,4,allocate,3," MIB_40 ",0\n"
                                                      "0,5,free,3," MIB_40 ",0\n"
                                                      "0,6,allocate,4,4194304,0\n"
                                                      "0,7,free,4,4194304,0\n"
                                                      "0,8,allocate,5," MIB_40 ",0\n"
                                                      "0,9,allocate,6,16777216,0\n"
                                                      "0,10,free,5," MIB_40 ",0\n",
                                            "unlimited");
    EXPECT_U64_EQ(20 + 8, result.calls.create_calls);
    EXPECT_U64_EQ(40 + 8, result.calls.map_calls);
    mend_replay_result_clear(&result);
}

MEND_TEST(gmlake, another_streams_blocks_are_given_back_when_memory_is_out)
{
    static const char text[] = TWO_FREED "0,4,allocate,3," MIB_40 ",0\n"
                                         "0,5,free,3," MIB_40 ",0\n"
                                         "0,6,allocate,4," MIB_40 ",1\n";
    mend_replay_result result = replay_text(text, "unlimited");
    EXPECT_U64_EQ(80 * MEND_MIB, result.peak_reserved_bytes);
    EXPECT_U64_EQ(0, result.host_syncs);
    mend_replay_result_clear(&result);
    result = replay_text(text, "40MiB");
    EXPECT_U64_EQ(40 * MEND_MIB, result.peak_reserved_bytes);
    EXPECT_U64_EQ(1, result.host_syncs);
    EXPECT_U64_EQ(40, result.calls.unmap_calls);
    mend_replay_result_clear(&result);
}

MEND_TEST(gmlake, a_block_freed_on_another_stream_is_waited_for_on_the_device)
{
    mend_replay_result result = replay_text(TRACE_HEAD "0,0,allocate,1," MIB_20 ",0\n"
                                                       "0,1,free,1," MIB_20 ",1\n"
                                                       "0,2,allocate,2," MIB_20 ",0\n",
                                            "unlimited");
    EXPECT_U64_EQ(10, result.calls.create_calls);
    EXPECT_U64_EQ(1, result.calls.stream_wait_calls);
    mend_replay_result_clear(&result);
}

MEND_TEST(gmlake, small_requests_are_pytorchs)
{
    mend_replay_result result =
        replay_text(TRACE_HEAD "0,0,allocate,1,1048576,0\n0,1,free,1,1048576,0\n"
                               "0,2,allocate,2,1048577,0\n",
                    "unlimited");
    EXPECT_U64_EQ(1, result.calls.malloc_calls);
    EXPECT_U64_EQ(1, result.calls.create_calls);
    EXPECT_U64_EQ(4 * MEND_MIB, result.peak_reserved_bytes);
    mend_replay_result_clear(&result);
}
