/* The model of GMLake: when it stitches, what it keeps for later, and what it gives back. */
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

static void expect(const char *steps, const char *capacity, const char *figures)
{
    fixture_replays(steps, "gmlake", capacity, "completed=1 content_errors=0");
    fixture_replays(steps, "gmlake", capacity, figures);
}

/* Two blocks of 20 MiB that come and go. */
#define TWO_FREED "1+20M 2+20M -1 -2 "

MEND_TEST(gmlake, free_blocks_are_stitched_page_by_page)
{
    expect(TWO_FREED "3+40M", "unlimited", "create=20 map=40 set_access=40 peak_reserved=40M");
}

MEND_TEST(gmlake, a_stitched_block_serves_the_next_request_of_its_size)
{
    expect(TWO_FREED "3+40M -3 4+20M -4 5+40M", "unlimited", "map=40");
    /* But not while one of its parts is in use: that one is missing, and created. */
    expect(TWO_FREED "3+40M -3 4+20M 5+40M", "unlimited", "create=30 map=70 peak_reserved=60M");
}

MEND_TEST(gmlake, a_larger_block_is_cut_and_what_it_is_part_of_stays_whole)
{
    /* A block of 4 MiB is cut off one of the parts of a stitched block, and goes again. What is
     * left of that part is in use with the stitched block. */
    expect(TWO_FREED "3+40M -3 4+4M -4 5+40M 6+16M -5", "unlimited", "create=28 map=48");
}

MEND_TEST(gmlake, another_streams_blocks_are_given_back_when_memory_is_out)
{
    expect(TWO_FREED "3+40M -3 4+40M@1", "unlimited", "peak_reserved=80M host_syncs=0");
    expect(TWO_FREED "3+40M -3 4+40M@1", "40MiB", "peak_reserved=40M host_syncs=1 unmap=40");
}

MEND_TEST(gmlake, a_block_freed_on_another_stream_is_waited_for_on_the_device)
{
    expect("1+20M -1@1 2+20M", "unlimited", "create=10 stream_wait=1");
}

MEND_TEST(gmlake, small_requests_are_pytorchs)
{
    expect("1+1M -1 2+1048577", "unlimited", "malloc=1 create=1 peak_reserved=4M");
}
